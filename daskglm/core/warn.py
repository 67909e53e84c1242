"""Warnings that point to the line of the user's that called daskglm."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PACKAGE = __name__.split(".", 1)[0]


# Of one thread: `warnings.catch_warnings` is of all threads, and mixes up those that overlap.
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Let `warn` do nothing, for a caller that looks at the outcome itself."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest caller outside of this package, or of the thread's first function."""
    if _quiet.get():
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


def _is_ours(module: str) -> bool:
    return module.split(".", 1)[0] == PACKAGE
