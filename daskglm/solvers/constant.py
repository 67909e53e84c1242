"""Problems in which all rows of one class have zero weight: a constant is the optimum."""

from __future__ import annotations

from collections.abc import Generator

from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective, Point


def constant(objective: Objective) -> Generator[Point, None, Reason]:
    """Yield zero coefficients with an intercept that predicts the class that has weight.

    The hinge losses are zero there, so it is an optimum. The logistic loss has none: it falls for
    ever as the intercept grows, and has fallen to 2e-16 a row at the log-odds of 36 that are taken.
    Cost: 1 pass.
    """
    w = objective.xp.zeros(objective.size)
    w[-1] = objective.only_side * objective.loss.rest_margin
    yield objective.at(w)
    return Reason.ONE_SIDE
