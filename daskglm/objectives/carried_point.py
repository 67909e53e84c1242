"""A point of one objective as one of another with the same rows, where C or the penalty differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.block_hessian import BlockHessian
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective


def carried(point: Point, objective: Objective) -> Point:
    """Return a point of an objective with the same rows and loss as one of `objective`.

    C and the penalty may differ. The margins that workers keep are known by the same token, and
    what a survey of the columns found holds here, too. Cost: nothing.
    """
    other, w = point.objective, point.w
    if objective.rounding.squares is None and other.rounding.squares is not None:
        objective.rounding.take_survey(other.rounding)
    share = objective.C / other.C
    value = share * (point.value - other.penalty.value(w)) + objective.penalty.value(w)
    gradient = share * (point.gradient - other.penalty.quadratic.gradient(w))
    gradient += objective.penalty.quadratic.gradient(w)
    hessian: Any = None
    if isinstance(point.hessian, BlockHessian):
        own, others = (each.penalty.quadratic.diagonal(each.size) for each in (objective, other))
        hessian = point.hessian.times(share).plus_diagonal(own - share * others)
    elif point.hessian is not None:
        hessian, known = np.zeros((2, objective.size, objective.size))
        objective.penalty.quadratic.add_to(hessian)
        other.penalty.quadratic.add_to(known)
        hessian += share * (point.hessian - known)
    return Point(objective, w, value, gradient, point.token, hessian, None, point.exact)
