"""Proximal-point method on the dual of a hinge, for the last digits where coordinate ascent is
slow; every step is solved by Newton's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from daskglm.core.outcome import Reason
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import Point
from daskglm.solvers.line_search import ROUNDING

# Widths of the rounded corner that are tried: 1, 0.1, ... 1e-6.
LEVELS = 7
# Newton steps of a proximal step up to which the next corner is narrower, from which it is wider,
# and after which the step ends. Chosen.
EASY_STEPS, HARD_STEPS, MOST_STEPS = 4, 9, 15
# Share of the gap to which a proximal step is solved. Chosen.
ACCURACY = 0.03
# A proximal step is idle if it leaves more than this share of the gap; so many in turn end the
# method. Chosen.
IDLE_SHARE, IDLE_STEPS = 0.9, 20


def proximal_points(dual: Dual, solver: Callable[..., Any]) -> Generator[Point, None, Reason]:
    """Proximal-point method on the dual of a hinge (Rockafellar 1976), from the dual variables as
    they are, or zero.

    A proximal term around them rounds the corner of the hinge (`losses.smoothed_hinge`); the primal
    of that is solved by `solver`, Newton's method on its generalised Hessian, and its slopes are
    the next dual variables. Narrower corners are longer steps, taken while Newton finds them easy.
    Every point is certified, and the best of all that were. Dual variables that are worse than all
    zero, as an ascent gone astray leaves them, are set to zero. Cost: that of the solver, and 3
    passes a proximal step.
    """
    point = dual.certified_point()
    if dual.reached < 0.0:
        dual.start_again()
        point = dual.certified_point()
    w, gap, level, narrowest, idle = _begin(dual, point), float(point.gap or 0.0), 0, LEVELS - 1, 0
    while idle < IDLE_STEPS:
        smoothed = dual.smoothed(level)
        steps, value = 0, math.inf
        for inner in solver(smoothed, w):
            steps += 1
            level_in_rounding = value - inner.value <= ROUNDING * abs(inner.value)
            if (
                level_in_rounding
                or smoothed.nominal_bound(inner) <= ACCURACY * gap
                or steps > MOST_STEPS
            ):
                break
            value = inner.value
        slope = inner.gradient[: smoothed.n_features]
        # Newton's method is lost: slopes there say nothing
        if level > 0 and not 0.5 * float(slope @ slope) <= gap:
            narrowest, level, idle = level - 1, level - 1, idle + 1
            continue
        w = inner.w
        dual.adopt(smoothed, w)
        found = dual.certified_point(w)
        yield replace(
            found, resume=lambda: {"state": {**dual.state(), "sigma": None}}, save_rows=dual.save
        )
        assert found.gap is not None
        if found.gap >= gap:  # slopes in a narrower corner magnify the rounding of margins more
            narrowest = max(level - 1, 0)
        elif steps <= EASY_STEPS:
            level, narrowest = level + 1, narrowest + 1
        if steps >= HARD_STEPS:
            level -= 1
        level = min(max(level, 0), narrowest, LEVELS - 1)
        idle = idle + 1 if found.gap > IDLE_SHARE * gap else 0
        gap = found.gap
    return Reason.STALLED


def _begin(dual: Dual, point: Point) -> Any:
    """Coefficients where Newton's method starts. From zero coefficients it starts without the best
    intercept too: there all curvatures may vanish.
    """
    return (
        point.w
        if point.w[: dual.objective.n_features].any()
        else dual.objective.xp.zeros(dual.objective.size)
    )
