"""Bounds of coefficients, as a penalty that is infinite outside of them."""

from __future__ import annotations

import numpy as np

from daskglm.penalties.nonsmooth import NonSmooth
from daskglm.penalties.resolved import ResolvedPenalty


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float, size: int) -> NonSmooth:
    """Return the bounds of the features, for coefficients of the columns as they are."""
    found = NonSmooth.nothing(size)
    if given.lower is not None:
        found.lower[: len(scale)] = given.lower
    if given.upper is not None:
        found.upper[: len(scale)] = given.upper
    return found
