"""The least point of a convex function of one number, from its values and derivatives where they
are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

MOST = 200  # questions: steps to a bracket grow fourfold, and a bracket is at least halved
FAR = 4.0  # growth of steps
PRECISION = 1e-15  # of the point, relative to 1 + its size
LEVEL = 1e-14  # of the value of a kinked function: less is lost in the rounding of sums


class Seen(NamedTuple):
    """A point, and value, slope and curvature of the function there."""

    at: float
    value: float
    slope: float
    curvature: float


Ask = Callable[[list[float]], list[Seen]]


def least_point(ask: Ask, start: float, *, smooth: bool) -> float:
    """Where a convex function is least, to rounding.

    Outside of a bracket steps grow fourfold at most: a slope that hardly changes says nothing of
    how far the least point is. Within one, Newton's method for a smooth function, safeguarded by
    bisection; for a kinked one the point where the tangents at both ends meet (Kelley's cutting
    planes), and the middle besides.

    Parameters
    ----------
    ask : callable
        From points to what is seen at each.
    start : float
    smooth : bool
    """
    low, high, stride, points = Seen(-math.inf, 0, 0, 0), Seen(math.inf, 0, 0, 0), 1.0, [start]
    last = start
    for _ in range(MOST):
        for seen in ask(points):
            if seen.slope == 0.0 or not math.isfinite(seen.slope):
                return seen.at
            if seen.slope < 0.0 and seen.at > low.at:
                low = seen
            elif seen.slope > 0.0 and seen.at < high.at:
                high = seen
            latest = seen
        if math.isinf(low.at) or math.isinf(high.at):
            step = (
                -latest.slope / latest.curvature if smooth and latest.curvature > 0.0 else math.inf
            )
            points = [latest.at + math.copysign(min(abs(step), stride), -latest.slope)]
            stride *= FAR
        else:
            points = _newton(low, high, latest) if smooth else _tangents(low, high)
        if not points:
            break
        if not math.isfinite(points[0]):
            return latest.at
        if smooth and abs(points[0] - last) <= PRECISION * (1.0 + abs(points[0])):
            return points[0]
        last = points[0]
    if math.isinf(high.at):
        return low.at
    return high.at if math.isinf(low.at) or high.value < low.value else low.at


def _newton(low: Seen, high: Seen, seen: Seen) -> list[float]:
    step = seen.at - seen.slope / seen.curvature if seen.curvature > 0.0 else math.nan
    return [step if low.at < step < high.at else 0.5 * (low.at + high.at)]


def _tangents(low: Seen, high: Seen) -> list[float]:
    """Points to ask next within a bracket of a kinked function; none where no lower value is left
    between its ends.
    """
    width = high.at - low.at
    meet = low.at + (high.value - low.value - high.slope * width) / (low.slope - high.slope)
    floor = low.value + low.slope * (meet - low.at)
    middle = 0.5 * (low.at + high.at)
    if min(low.value, high.value) - floor <= LEVEL * abs(floor) or width <= PRECISION * (
        1.0 + abs(middle)
    ):
        return []
    return [meet, middle] if low.at < meet < high.at else [middle]
