"""Begin with L-BFGS, and go on with it where rows are so easy that it ends in a few passes."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.forecast import relative_error
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.workload import Workload


def opened(
    objective: Objective, w: np.ndarray, workload: Workload, foreseen: float
) -> Generator[Iterate, None, tuple[np.ndarray, Point | None]]:
    """Pass on the iterates of L-BFGS while their errors say that it ends soon.

    How hard rows are is told by the largest eigenvalue of their Hessian over the penalty, of which
    only a bound is known beforehand. Where it is small, the error at zero is less than the value
    there, and soon much less: then L-BFGS takes fewer passes than the products of TRON, and each
    costs less than an epoch of dual ascent. `foreseen` is the cost of the other solver. Cost: a
    pass where a bound says that this may be so.

    Returns where another solver may go on, and the point there, with diagonal and curvatures, if
    rows have been at no other since.
    """
    if w[: objective.n_features].any() or not may_be_easy(workload, foreseen):
        return w, None
    first = last = objective.at(w, diagonal=True, curved=True)
    errors = [relative_error(objective, last, math.inf)]
    steps = lbfgs(objective, w, start=last)
    while errors[-1] <= _most(len(errors)):
        try:
            iterate = next(steps)
        except StopIteration:
            break
        if iterate.point is not last:
            last = iterate.point
            errors.append(relative_error(objective, last, math.inf))
        # another solver resumes from the coefficients
        yield replace(iterate, resume=dict, by="lbfgs")
    steps.close()
    return last.w, last if last is first else None


def may_be_easy(workload: Workload, foreseen: float) -> bool:
    """Return whether L-BFGS may end before another solver, of which so many passes are foreseen.

    The error at zero grows with the curvature of a row, and few iterations may cost much, too,
    where vectors are long.
    """
    alike = workload.outputs == 1 and workload.smooth and not workload.kinked
    easy = workload.penalised and workload.curvature_ratio <= costs.EASY_RATIO
    iteration = 1.0 + costs.EASY_SHARE * (workload.lbfgs_iteration - 1.0)
    return alike and easy and costs.EASY_PASSES * iteration <= foreseen


def _most(points: int) -> float:
    """Return up to which relative error L-BFGS goes on after so many points."""
    if points > costs.EASY_POINTS:
        return 0.0
    return costs.EASY_ERRORS[min(points, len(costs.EASY_ERRORS)) - 1]
