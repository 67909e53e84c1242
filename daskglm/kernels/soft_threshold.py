"""The soft threshold in compiled code, of which nothing is left where there is none."""

from __future__ import annotations

from numba import types
from numba.extending import overload


def soft(value, threshold):  # type: ignore[no-untyped-def]
    """Return the value moved towards zero by at most the threshold; None: as it is."""
    raise NotImplementedError("compiled code only")


@overload(soft)
def _soft_of(value, threshold):  # type: ignore[no-untyped-def]
    # a threshold of None is another type, so that kernels without one have no trace of it
    if isinstance(threshold, types.NoneType):
        return lambda value, threshold: value
    return lambda value, threshold: value - min(max(value, -threshold), threshold)
