"""Proximal-point method on the dual of a hinge, for the last digits, where dual ascent is slow.

Every proximal step is solved by Newton's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import Objective, Point
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING

# Widths of the rounded corner that are tried: 1, 0.1, ... 1e-6.
LEVELS = 7


def proximal_points(dual: Dual, solver: Callable[..., Any]) -> Iterates:
    """Proximal-point method on the dual of a hinge (Rockafellar 1976).

    A proximal term around the dual variables rounds the corner of the hinge
    (`losses.smoothed_hinge`). `solver`, Newton's method on the generalised Hessian, solves the
    primal of that, and its slopes are the next dual variables. Narrower corners are longer steps,
    taken while Newton's method needs few iterations.

    Every point is certified, and is the best of all that were. The method starts from the dual
    variables as they are, or from zero if they are worse, as an ascent gone astray leaves them.
    Cost: that of the solver, and 3 passes a proximal step.
    """
    point = dual.certified_point()
    if dual.reached < 0.0:
        dual.start_again()
        point = dual.certified_point()
    w, gap = _start(dual, point), float(point.gap or 0.0)

    level, narrowest = 0, LEVELS - 1
    idle = 0  # proximal steps in turn that left more than 0.9 of the gap
    while idle < 20:
        smoothed = dual.smoothed(level)
        inner, steps = _solve(solver, smoothed, w, 0.03 * gap)

        # Newton's method is lost where slopes are larger than the gap allows
        slope = inner.gradient[: smoothed.n_features]
        if level > 0 and not 0.5 * float(slope @ slope) <= gap:
            narrowest = level - 1
            level = level - 1
            idle = idle + 1
            continue

        w = inner.w
        dual.adopt(smoothed, w)
        found = dual.certified_point(w)
        yield Iterate(
            found, resume=lambda: {"state": {**dual.state(), "sigma": None}}, save_rows=dual.save
        )

        # up to 4 iterations were easy, 9 or more were hard. Chosen.
        assert found.gap is not None
        if found.gap >= gap:  # slopes in a narrower corner magnify the rounding of margins more
            narrowest = max(level - 1, 0)
        elif steps <= 4:
            level, narrowest = level + 1, narrowest + 1
        if steps >= 9:
            level -= 1
        level = min(max(level, 0), narrowest, LEVELS - 1)
        idle = idle + 1 if found.gap > 0.9 * gap else 0
        gap = found.gap
    return Reason.STALLED


def _solve(
    solver: Callable[..., Any], smoothed: Objective, w: np.ndarray, accuracy: float
) -> tuple[Point, int]:
    """Solve a proximal step to a bound of `accuracy`; return the point and the iterations."""
    steps, value = 0, math.inf
    for iterate in solver(smoothed, w):
        inner = iterate.point
        steps += 1
        level = value - inner.value <= ROUNDING * abs(inner.value)
        # more than 15 iterations are better spent with a wider corner. Chosen.
        if level or smoothed.nominal_bound(inner) <= accuracy or steps > 15:
            break
        value = inner.value
    return inner, steps


def _start(dual: Dual, point: Point) -> Any:
    """Return where Newton's method starts.

    From zero coefficients it starts without the best intercept, since all curvatures may vanish
    there.
    """
    if point.w[: dual.objective.n_features].any():
        return point.w
    return dual.objective.xp.zeros(dual.objective.size)
