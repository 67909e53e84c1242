"""Stands in for cupyx in tests; see the `cupy` beside it."""

import contextlib

config = {"linalg": "ignore"}


@contextlib.contextmanager
def errstate(*, linalg=None):
    """What cupy.linalg does where a factorisation fails: raise, or (None, "ignore") leave what is not specified."""
    before = config["linalg"]
    config["linalg"] = linalg or before
    try:
        yield
    finally:
        config["linalg"] = before
