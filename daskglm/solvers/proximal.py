"""Proximal points of a hinge's dual, each by Newton's method: the last digits where coordinate ascent crawls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from daskglm.dual import Dual
from daskglm.objective import Point
from daskglm.report import Reason

LEVELS = 7  # widths of the rounded corner: 1, 0.1, ... 1e-6
EASY, HARD = 4, 9  # Newton steps up to which the next corner is narrower, and from which it is wider
NEWTON_STEPS = 15
ACCURACY = 0.03  # of the gap: how exactly a proximal step is solved
IDLE = 20  # proximal steps without a lower gap after which no more is expected


def proximal_points(dual: Dual, point: Point, solver: Callable[..., Any]) -> Generator[Point, None, Reason]:
    """Proximal-point method on the dual of a hinge (Rockafellar 1976), from the dual variables as they are.

    A proximal term around them rounds the corner of the hinge (`losses.smoothed_hinge`); the primal of that is solved
    by `solver`, Newton's method on its generalised Hessian, and its slopes are the next dual variables. Narrower
    corners are longer steps, taken while Newton finds them easy. Every point is certified. Cost: that of the solver,
    and 3 passes a proximal step.
    """
    w, gap, level, idle = point.w, float(point.gap or 0.0), 0, 0
    while idle < IDLE:
        smoothed = dual.smoothed(level)
        steps = 0
        for inner in solver(smoothed, w):
            steps += 1
            if smoothed.bound(inner) <= ACCURACY * gap or steps > NEWTON_STEPS:
                break
        w = inner.w
        dual.adopt(smoothed, w)
        found = dual.certified_point(w)
        yield replace(found, resume=lambda: {"state": {**dual.state(), "sigma": None}}, save_rows=dual.save)
        assert found.gap is not None
        idle = idle + 1 if found.gap >= gap else 0
        gap = min(gap, found.gap)
        if steps <= EASY:
            level = min(level + 1, LEVELS - 1)
        elif steps >= HARD:
            level = max(level - 1, 0)
    return Reason.NO_PROGRESS
