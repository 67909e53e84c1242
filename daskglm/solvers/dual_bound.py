"""Bound a primal solver's error by dual variables, where rounding hides it from the gradient.

Where columns have large means or scales, rounding keeps gradients from falling as far as `tol`
wants, though the point is the optimum. Dual variables balance themselves exactly, so that nothing
of an intercept's gradient is left in their bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace

from daskglm.core.outcome import Reason
from daskglm.core.requests import SDCAConfig
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import SAME_VALUE, Objective, Point

# Points in turn that are level in floating point, after which the dual variables bound them.
LEVEL_POINTS = 3


def with_dual_bound(
    objective: Objective, points: Generator[Point, None, Reason]
) -> Generator[Point, None, Reason]:
    """The points of a primal solver, and one more with the bound of dual variables where values are
    level or the solver makes no more progress.

    Losses without a dual, and objectives without a penalty of strength one, are left as they are.
    Cost: nothing, or 3 passes for such a point.
    """
    loss, penalty = objective.loss, objective.penalty
    if not (loss.has_dual and penalty.is_uniform and penalty.largest == 1.0):
        return (yield from points)
    return (yield from bounded(lambda: _dual_of(objective), next(points), points))


def bounded(
    dual_of: Callable[[], Dual], point: Point, rest: Generator[Point, None, Reason]
) -> Generator[Point, None, Reason]:
    """A solver's points from its first; where values are level, one with the bound of the dual
    variables there, which are made when they are first wanted.
    """
    level = 0
    while True:
        yield point
        if level == LEVEL_POINTS:
            yield _bound_by_dual(dual_of(), point)
        value = point.value
        try:
            point = next(rest)
        except StopIteration as end:
            if level < LEVEL_POINTS and math.isfinite(value):
                yield _bound_by_dual(dual_of(), point)
            reason: Reason = end.value
            return reason
        level = 0 if point.value < value - SAME_VALUE * abs(value) else level + 1


def _dual_of(objective: Objective) -> Dual:
    return Dual(objective, objective.xp.zeros(objective.size), SDCAConfig(), 0)


def _bound_by_dual(dual: Dual, point: Point) -> Point:
    dual.adopt(dual.objective, point.w)
    return replace(dual.certified_point(point.w), by=point.by, resume=point.resume)
