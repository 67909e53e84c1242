"""Bound a primal solver's error by dual variables, where rounding hides it from the gradient.

If columns have large means or scales, rounding keeps gradients from falling as far as `tol`
demands, even at the optimum. Dual variables are balanced exactly, so that their bound has no part
by the intercept's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from daskglm.core.outcome import Reason
from daskglm.core.requests import SDCAConfig
from daskglm.duals.dual import Dual
from daskglm.objectives.primal import SAME_VALUE, Objective
from daskglm.solvers.iterate import Iterate, Iterates

# Points in turn with values level in floating point after which dual variables bound them.
LEVEL_POINTS = 3


def with_dual_bound(objective: Objective, iterates: Iterates) -> Iterates:
    """Pass on the iterates of a primal solver, and points with bounds by dual variables.

    Such a point follows where values are level, or where the solver makes no more progress. For
    losses without a dual, rows with offsets, objectives without a penalty of strength one and those
    with an L1 penalty there is none. Cost: 3 passes for each.
    """
    penalty = objective.penalty.quadratic
    simple = penalty.is_uniform and penalty.largest == 1.0 and objective.threshold == 0.0
    if not (objective.has_dual and simple):
        return (yield from iterates)
    return (yield from bounded(lambda: _dual_of(objective), next(iterates), iterates))


def bounded(dual_of: Callable[[], Dual], iterate: Iterate, rest: Iterates) -> Iterates:
    """Pass on a solver's iterates from its first, and bounds, as `with_dual_bound` does.

    `dual_of` returns the dual variables, when they are needed.
    """
    level = 0
    while True:
        yield iterate
        if level == LEVEL_POINTS:
            yield _bound_by_dual(dual_of(), iterate)
        value = iterate.point.value
        try:
            iterate = next(rest)
        except StopIteration as end:
            if level < LEVEL_POINTS and math.isfinite(value):
                yield _bound_by_dual(dual_of(), iterate)
            reason: Reason = end.value
            return reason
        level = 0 if iterate.point.value < value - SAME_VALUE * abs(value) else level + 1


def _dual_of(objective: Objective) -> Dual:
    """Make dual variables of zero."""
    return Dual(objective, objective.xp.zeros(objective.size), SDCAConfig(), 0)


def _bound_by_dual(dual: Dual, iterate: Iterate) -> Iterate:
    """Return the iterate with the bound by the dual variables at its coefficients."""
    dual.adopt(dual.objective, iterate.point.w)
    return replace(iterate, point=dual.certified_point(iterate.point.w))
