"""Gaps relative to the optimum."""

from __future__ import annotations

import math


def relative_gap(bound: float, value: float, zero: float = 0.0) -> float:
    """Bound (value - optimum) / optimum by a bound on value - optimum; nan where that is nan.

    A value of at most `zero` counts as zero, below which no objective falls.
    """
    if bound == 0.0 or value <= zero:
        return 0.0
    least = value - bound
    return bound / least if least > 0.0 or math.isnan(least) else math.inf
