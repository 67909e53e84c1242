"""A class of scikit-learn's with another `fit`: all else, its name too, is scikit-learn's."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sklearn.base import clone

from daskglm.accel.answer import Declined, answer
from daskglm.accel.record import Record
from daskglm.accel.tally import Tally

# While scikit-learn's own fit runs, the fits that it calls are scikit-learn's, too.
_theirs: ContextVar[bool] = ContextVar("theirs", default=False)


@contextmanager
def only_theirs() -> Iterator[None]:
    """Let all fits of this thread be scikit-learn's."""
    token = _theirs.set(True)
    try:
        yield
    finally:
        _theirs.reset(token)


def proxy_of(
    original: Any, record: Record, tally: Tally, active: Callable[[], bool], compare: bool
) -> Any:
    """Make the subclass of one of scikit-learn's classes that asks us first.

    `active` tells at each call whether it may; with `compare`, scikit-learn's fit is timed after
    each of ours.
    """
    signature = inspect.signature(original.fit)

    def answered(model: Any, args: Any, given: Any) -> dict[str, Any] | None:
        try:
            if _changes(type(model), proxy):
                raise Declined("a subclass that changes inner methods of scikit-learn's")
            arguments = signature.bind(model, *args, **given).arguments
            arguments.update(arguments.pop("params", {}))
            arguments.pop("self")
            return answer(record, model, arguments)
        except (Declined, TypeError) as declined:
            tally.fall(record.name, str(declined))
            return None

    @functools.wraps(original.fit)
    def fit(self: Any, *args: Any, **given: Any) -> Any:
        if _theirs.get() or not active() or record.is_search(self):
            return original.fit(self, *args, **given)
        began = time.perf_counter()
        found = answered(self, args, given)
        if found is None:
            with only_theirs():
                return original.fit(self, *args, **given)
        for name, value in found.items():
            setattr(self, name, value)
        seconds = time.perf_counter() - began
        theirs = _seconds(original, self, args, given) if compare else None
        tally.take(record.name, seconds, theirs)
        return self

    def reduce(self: Any, protocol: Any) -> Any:
        reduced = original.__reduce_ex__(self, protocol)
        named = getattr(sys.modules[original.__module__], original.__name__)
        if type(self) is not proxy or named is proxy:
            return reduced
        # after `uninstall` it is pickled as what has the name now: pickle takes no other class
        return (object.__new__, (named,), *reduced[2:])

    kept = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    meta = _with_instances_of(original)
    proxy = meta(original.__name__, (original,), {**kept, "fit": fit, "__reduce_ex__": reduce})
    meta.proxy = proxy
    return proxy


def _changes(cls: Any, proxy: Any) -> bool:
    """Whether a subclass has its own of the methods that scikit-learn's `fit` may call."""
    for each in cls.__mro__[: cls.__mro__.index(proxy)]:
        for name, value in vars(each).items():
            inner = name == "path" or (name.startswith("_") and not name.startswith("__"))
            if inner and callable(value) and hasattr(proxy, name):
                return True
    return False


def _with_instances_of(original: Any) -> Any:
    """Make a metaclass by which models made of scikit-learn's class are instances of its proxy."""
    base: Any = type(original)

    class Meta(base):
        proxy: Any = None

        def __instancecheck__(cls, model: Any) -> bool:
            same = original if cls is Meta.proxy else cls
            return bool(base.__instancecheck__(same, model))

        def __subclasscheck__(cls, other: Any) -> bool:
            same = original if cls is Meta.proxy else cls
            return bool(base.__subclasscheck__(same, other))

    return Meta


def _seconds(original: Any, model: Any, args: Any, given: Any) -> float:
    """Seconds of scikit-learn's fit of an unfitted copy."""
    other = clone(model)
    with only_theirs():
        began = time.perf_counter()
        original.fit(other, *args, **given)
        return time.perf_counter() - began
