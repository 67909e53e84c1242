"""A point of one objective as one of another with the same rows, where C or the penalty differ."""

from __future__ import annotations

import numpy as np

from daskglm.objectives.composite import Composite
from daskglm.objectives.point import Point


def carried(point: Point, objective: Composite) -> Point:
    """Return a point of an objective with the same rows and loss as one of `objective`.

    C and the penalty may differ. The margins that workers keep are known by the same token, and
    what a survey of the columns found holds here, too. Cost: nothing.
    """
    other, w = point.objective, point.w
    if objective.squares is None and other.squares is not None:
        objective.rounding.take_survey(other.rounding)
        objective.squares = other.squares
    share = objective.scale / other.scale
    value = share * (point.value - other.penalty_value(w)) + objective.penalty_value(w)
    gradient = share * (point.gradient - other.penalty.gradient(w))
    gradient += objective.penalty.gradient(w)
    hessian = None
    if point.gram is not None:
        hessian, known = np.zeros((2, objective.size, objective.size))
        objective.penalty.add_to(hessian)
        other.penalty.add_to(known)
        hessian += share * (point.gram - known)
    return Point(objective, w, value, gradient, point.token, hessian, None, point.exact)
