"""Bounds of coefficients, as a penalty that is infinite outside of them.

Features that are left out have both bounds at zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskglm.penalties.kinks import Kinks
from daskglm.penalties.resolved import ResolvedPenalty


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float, size: int) -> Kinks:
    """Return the bounds of the features, for coefficients of the columns as they are."""
    nothing = Kinks.nothing(size)
    if given.lower is None and given.upper is None and not given.left_out.any():
        return nothing
    lower, upper = nothing.lower.copy(), nothing.upper.copy()
    if given.lower is not None:
        lower[: len(scale)] = given.lower
    if given.upper is not None:
        upper[: len(scale)] = given.upper
    for bound in (lower, upper):
        bound[: len(scale)][np.broadcast_to(given.left_out, len(scale))] = 0.0
    return replace(nothing, lower=lower, upper=upper)
