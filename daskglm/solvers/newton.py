"""Damped Newton with the explicit Hessian: for up to a few thousand features."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from daskglm.objective import Objective, Point
from daskglm.report import Reason
from daskglm.solvers.linear import backtrack, newton_step


def newton(objective: Objective, w: np.ndarray) -> Generator[Point, None, Reason]:
    """Newton's method on the full (generalised) Hessian X'DX, damped by line search.

    The trial point is evaluated with its Hessian in one fused pass. Cost: an accepted unit step takes 1 pass and
    1 round; a damped one 2 passes.
    """
    point = objective.at(w, gram=True)
    while True:
        yield point
        assert point.gram is not None
        step = newton_step(point.gram, point.gradient)
        if not float(point.gradient @ step) < 0.0:
            return Reason.NO_PROGRESS
        accepted = backtrack(objective, point, objective.at(point.w + step, gram=True), gram=True)
        if accepted is None:
            return Reason.NO_PROGRESS
        point = accepted
