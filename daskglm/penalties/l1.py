"""The L1 penalty: a strength times |w_j| for each feature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskglm.penalties.kinks import Kinks
from daskglm.penalties.resolved import ResolvedPenalty


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float, size: int) -> Kinks:
    """Return strength rho v_j scale_j |w_j| of the features; nothing for groups."""
    nothing = Kinks.nothing(size)
    if given.groups is not None:
        return nothing
    factors = 1.0 if given.finite_factors is None else given.finite_factors
    strengths = np.zeros(size)
    strengths[: len(scale)] = strength * given.l1_ratio * factors * scale
    return replace(nothing, strengths=strengths)
