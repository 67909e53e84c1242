"""Minimise a function of one number, from its value and derivatives at points asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

# Differences of points that are rounding, relative to 1 + the point's size.
PRECISION = 1e-15
# Where lower points of a function that is not convex are looked for, on both sides of one that is
# least nearby, in units of margins: from the width of the narrowest dip that matters. Chosen.
AWAY = [1e-4 * 1.5**k for k in range(31)]  # to 19
# Fall of the value below which it is rounding. Chosen.
SAME = 1e-12
# Distances on both sides of where a kinked function may be least, from the longest on: shares of a
# bracket's width, and before there is one, of a margin of one. Of steps of 4, 8 and 16, and one to
# four of them, these took the fewest rounds for the points of two a round: 2.6 for 8.7, over random
# quantiles, hinges and tubes of 4,000 and 30,000 rows (2026-11-28).
NEAR = (1 / 8, 1 / 64)


class Seen(NamedTuple):
    """A point with the value, slope and curvature of the function there."""

    at: float
    value: float
    slope: float
    curvature: float


Ask = Callable[[list[float]], list[Seen]]


def least_point(ask: Ask, start: float, *, smooth: bool, enough: float = 0.0) -> Seen:
    """Find where a convex function is least, to rounding, among the points that were asked for.

    The function may be infinite on either side of an interval, in which `start` lies.

    Outside of a bracket steps grow fourfold at most: a slope that hardly changes says nothing of
    how far the least point is. Within one, Newton's method for a smooth function, safeguarded by
    bisection; for a kinked one several points in each question, see `_tangents`.

    Parameters
    ----------
    ask : callable
        Takes a list of points; returns a `Seen` for each.
    start : float
        First point to ask for.
    smooth : bool
        Whether the slope is continuous.
    enough : float
        Fall of a smooth function, relative to its value, that Newton's step may leave where only
        the least value is wanted: half of the digits of the point come without those of the value.
    """
    low = Seen(-math.inf, 0, 0, 0)
    high = Seen(math.inf, 0, 0, 0)
    points, last = first_points(start, smooth=smooth), start
    latest: Seen | None = None
    stride = 1.0  # longest step towards a bracket

    # strides to a bracket grow fourfold and a bracket is at least halved: 200 questions are plenty
    for _ in range(200):
        for seen in ask(points):
            if seen.slope == 0.0 or (latest is None and not math.isfinite(seen.slope)):
                return seen
            if not math.isfinite(seen.value + seen.slope):
                # outside of the domain: the least point is on the inner side
                assert latest is not None
                low, high = _with_wall(low, high, latest.at, seen.at)
                continue
            if seen.slope < 0.0 and seen.at > low.at:
                low = seen
            elif seen.slope > 0.0 and seen.at < high.at:
                high = seen
            latest = seen

        assert latest is not None
        left = latest.slope * latest.slope  # no power, which raises where it overflows
        if smooth and left <= 2.0 * latest.curvature * enough * abs(latest.value):
            return latest
        # a step that rounds to the point itself, an end of the bracket, would be taken for one
        # outside of it, and the bracket halved twenty times
        same = PRECISION * (1.0 + abs(latest.at)) * latest.curvature
        if smooth and abs(latest.slope) <= same:
            return latest
        if math.isinf(low.at) or math.isinf(high.at):
            step = math.inf
            if smooth and latest.curvature > 0.0:
                step = -latest.slope / latest.curvature
            step = math.copysign(min(abs(step), stride), -latest.slope)
            points = [latest.at + step] if smooth else [latest.at + step, latest.at + 4.0 * step]
            stride *= 4.0 ** len(points)
        elif smooth or math.isinf(low.value + high.value):
            points = _newton(low, high, latest)
        else:
            points = _tangents(low, high)

        if not points:
            break
        rests = smooth and abs(points[0] - last) <= PRECISION * (1.0 + abs(points[0]))
        if rests or not math.isfinite(points[0]):
            return latest
        last = points[0]

    # without a bracket the farthest point asked for is the best one known
    if math.isinf(high.at):
        return low
    if math.isinf(low.at) or high.value < low.value:
        return high
    return low


def first_points(start: float, *, smooth: bool) -> list[float]:
    """Return the points that `least_point` asks for first."""
    return [start] if smooth else [start, *_around(start, 1.0)]


def least_of_several(
    ask: Ask, start: float, *, smooth: bool, convex: bool, enough: float = 0.0
) -> Seen:
    """Find where a function is least, as far as a scan sees where it is not convex."""
    here = least_point(ask, start, smooth=smooth, enough=enough)
    if convex:
        return here
    others = ask([here.at + sign * away for away in AWAY for sign in (-1.0, 1.0)])
    lower = min(others, key=lambda each: each.value if each.value == each.value else math.inf)
    is_lower = lower.value < here.value - SAME * abs(here.value)
    return least_point(ask, lower.at, smooth=smooth, enough=enough) if is_lower else here


def _with_wall(low: Seen, high: Seen, inside: float, at: float) -> tuple[Seen, Seen]:
    """Return the bracket without what is beyond a point outside of the domain."""
    beyond = Seen(at, math.inf, 0.0, 0.0)
    is_end_below, is_end_above = low.at < at < inside, inside < at < high.at
    return (beyond if is_end_below else low), (beyond if is_end_above else high)


def _newton(low: Seen, high: Seen, seen: Seen) -> list[float]:
    """Return the point of Newton's step, or the middle of the bracket if that lies outside."""
    if seen.curvature > 0.0:
        point = seen.at - seen.slope / seen.curvature
        if low.at < point < high.at:
            return [point]
    return [0.5 * (low.at + high.at)]


def _tangents(low: Seen, high: Seen) -> list[float]:
    """Return the points to ask next within the bracket of a kinked function.

    There are none if no value between the ends can be lower. Else the point where the tangents at
    both ends meet (Kelley's cutting planes), which is the least one where both are next to it; the
    middle; and, as sums over many rows hardly differ from a smooth function, the zero of the
    secant of the slopes, with points on both sides that bracket the least one closely where the
    secant comes near.
    """
    width = high.at - low.at
    meet = low.at + (high.value - low.value - high.slope * width) / (low.slope - high.slope)
    middle = 0.5 * (low.at + high.at)

    # the function is nowhere below its tangents; a fall of less than 1e-14 is lost in sums
    floor = low.value + low.slope * (meet - low.at)
    fall = min(low.value, high.value) - floor
    if fall <= 1e-14 * abs(floor) or width <= PRECISION * (1.0 + abs(middle)):
        return []
    secant = low.at - low.slope * width / (high.slope - low.slope)
    points = dict.fromkeys([middle, meet, secant, *_around(secant, width)])
    return [point for point in points if low.at < point < high.at]


def _around(centre: float, width: float) -> list[float]:
    """Return points on both sides of another, the farthest first."""
    return [centre + sign * share * width for share in NEAR for sign in (-1.0, 1.0)]


def distance_to_best(
    derivatives: Callable[[Sequence[float]], tuple[np.ndarray, np.ndarray]],
    error: float,
    known: tuple[float, float] | None = None,
) -> float | None:
    """Bound how far zero is from the minimum of a convex function of one number.

    Slopes rise: the minimum lies between two places where they differ in sign beyond rounding.

    Parameters
    ----------
    derivatives : callable
        Slopes and curvatures at some places. It is called once, and before that for those at zero
        if they are not known.
    error : float
        Bound on the error of any slope.
    known : tuple of (float, float), optional
        Slope and curvature at zero, which tell where to look: they prove nothing.

    Returns
    -------
    float or None
        None: no two such places were found.
    """
    if known is None:
        slopes, curvatures = derivatives([0.0])
        known = float(slopes[0]), float(curvatures[0])
    slope, curvature = abs(known[0]), known[1]
    if not curvature > 0.0:
        return None
    # twice Newton's step, and wider ones where the curvature falls
    steps = 2.0 * (slope + error) / curvature * 4.0 ** np.arange(4)
    if not np.isfinite(steps).all():  # next to no curvature is left
        return None
    slopes, _ = derivatives([*steps, *-steps])
    sure = np.flatnonzero((slopes[:4] > error) & (slopes[4:] < -error))
    return float(steps[sure[0]]) if len(sure) else None
