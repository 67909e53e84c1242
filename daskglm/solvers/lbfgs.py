"""Limited-memory BFGS (Nocedal & Wright, chapter 7): one pass over the rows an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.limited_memory import LimitedMemory
from daskglm.solvers.line_search import backtrack


def lbfgs(
    objective: Objective, w: np.ndarray, *, start: Point | None = None, **state: Any
) -> Iterates:
    """L-BFGS around the inverse diagonal of the Hessian, which is formed anew at times.

    The objective is convex, so Armijo's rule is enough, and its search takes cached margins. Cost:
    1 pass and 1 round per accepted unit step, 2 passes for a shortened one.

    Parameters
    ----------
    objective : Objective
    w : (size,) array
        Where to start.
    start : Point, optional
        The point there, with its diagonal, if it is known.
    **state
        Of a solve to resume: keywords of `LimitedMemory`.
    """
    point = start or objective.at(w, diagonal=not state)
    model = LimitedMemory(objective, point, **state)
    while True:
        yield Iterate(point, resume=model.state, rough=True)
        step = -model.times(point.gradient)
        slope = float(point.gradient @ step)
        if not slope < 0.0:
            return Reason.NO_PROGRESS

        trial = objective.at(point.w + step, diagonal=model.is_due, beside=point)
        accepted = backtrack(objective, point, trial, slope=slope)
        if accepted is None:
            # a stale model of the curvature may be all that is wrong
            if not model.forget():
                return Reason.NO_PROGRESS
            continue
        model.update(point, accepted)
        point = accepted
