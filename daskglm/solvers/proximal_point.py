"""Proximal points of a hinge's dual, each by Newton's method: the last digits where coordinate
ascent crawls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import Point

LEVELS = 7  # widths of the rounded corner: 1, 0.1, ... 1e-6
# Newton steps up to which the next corner is narrower, and from which it is wider
EASY, HARD = 4, 9
NEWTON_STEPS = 15
ACCURACY = 0.03  # of the gap: how exactly a proximal step is solved
# proximal steps that leave more of the gap, and how many in turn end the method
PROGRESS, IDLE = 0.9, 20
ROUNDING = 16 * np.finfo(float).eps


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
    while idle < IDLE:
        smoothed = dual.smoothed(level)
        steps, value = 0, math.inf
        for inner in solver(smoothed, w):
            steps += 1
            level_in_rounding = value - inner.value <= ROUNDING * abs(inner.value)
            if (
                level_in_rounding
                or smoothed.nominal_bound(inner) <= ACCURACY * gap
                or steps > NEWTON_STEPS
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
        elif steps <= EASY:
            level, narrowest = level + 1, narrowest + 1
        if steps >= HARD:
            level -= 1
        level = min(max(level, 0), narrowest, LEVELS - 1)
        idle = idle + 1 if found.gap > PROGRESS * gap else 0
        gap = found.gap
    return Reason.STALLED


def _begin(dual: Dual, point: Point) -> Any:
    """Where Newton's method begins: at zero without the best intercept, which may be where all
    curvatures vanish.
    """
    return (
        point.w
        if point.w[: dual.objective.n_features].any()
        else dual.objective.xp.zeros(dual.objective.size)
    )
