"""`install` and `uninstall`: scikit-learn's names mean proxies, or its own classes again."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from daskglm.accel.elsewhere import send_as_proxies
from daskglm.accel.proxy import proxy_of
from daskglm.accel.table import RECORDS
from daskglm.accel.tally import Tally

_tally = Tally()
# Those of scikit-learn's classes that have a proxy, with it.
_installed: list[tuple[Any, Any]] = []


def install(*, compare: bool = False) -> None:
    """Let our solvers answer behind scikit-learn's names, from now on and in this process.

    The names in a notebook or in the script that runs mean proxies, too. Other modules that took a
    class from scikit-learn before keep its own: call this first. Calling it again starts the report
    again.

    Parameters
    ----------
    compare : bool, default False
        Whether scikit-learn's own fit is timed after each of ours, so that the report has seconds
        saved. Every fit is done twice then.
    """
    uninstall()
    _tally.clear()
    for record in RECORDS:
        original = getattr(importlib.import_module(f"sklearn.{record.folder}"), record.name)
        proxy = proxy_of(original, record, _tally, _active, compare)
        send_as_proxies(proxy, record.name, _active)
        _installed.append((original, proxy))
    _rename(_installed)


def uninstall() -> None:
    """Let the names mean scikit-learn's classes again; models that were made fit as these do."""
    _rename([(proxy, original) for original, proxy in _installed])
    _installed.clear()


def report() -> str:
    """Tell what was called since `install`: fits taken, and those fallen back with the reasons."""
    return _tally.text()


def _active() -> bool:
    return bool(_installed)


def _rename(pairs: list[tuple[Any, Any]]) -> None:
    """Put the second of each pair where a module of scikit-learn or the program has the first."""
    of = {id(old): new for old, new in pairs}
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name.partition(".")[0] == "sklearn":
            for key, value in list(vars(module).items()):
                if id(value) in of:
                    setattr(module, key, of[id(value)])
