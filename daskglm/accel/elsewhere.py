"""Models that joblib sends to processes of its own: those of proxies are answered there, too.

A pickle of a proxy has scikit-learn's class, so that it loads where this package is not installed.
joblib's processes are of this machine and this environment: what goes to them by loky is made a
proxy again. What comes back has the name, which here means a proxy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from daskglm.accel.proxy import proxy_of
from daskglm.accel.table import RECORDS
from daskglm.accel.tally import Tally

PROTOCOL = 4


def send_as_proxies(proxy: Any, name: str, active: Callable[[], bool]) -> None:
    """Let joblib's processes make models of this proxy ones of their own, as long as `active`."""
    try:
        from joblib.externals.loky.backend import reduction
    except ImportError:  # distributions of systems have joblib without its copy of loky
        return
    reduction.register(proxy, partial(_reduced, name, active))


def _reduced(name: str, active: Callable[[], bool], model: Any) -> Any:
    reduced = model.__reduce_ex__(PROTOCOL)
    return (_made, (name,), *reduced[2:]) if active() else reduced


def _made(name: str) -> Any:
    """Return a model of a proxy of this process, with no attributes yet."""
    return object.__new__(_proxy(name))


@cache
def _proxy(name: str) -> Any:
    """The proxy of this process, beside which the name still means scikit-learn's class."""
    record = next(record for record in RECORDS if record.name == name)
    original = getattr(importlib.import_module(f"sklearn.{record.folder}"), name)
    return proxy_of(original, record, Tally(), lambda: True, False)
