"""An objective with another weight of the losses, and its points as those of the other."""

from __future__ import annotations

import copy

import numpy as np

from daskglm.objectives.margins import Sums
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective


def weighted(objective: Objective, C: float) -> Objective:
    """Return the objective with losses of the weight C."""
    found = copy.copy(objective)
    found.C = C
    return found


def reweighted(point: Point, objective: Objective) -> Point:
    """Return the point of an objective that differs from the point's own in C alone.

    Both have a smooth penalty, and the point no norms of vectors on a device. A diagonal of the
    Hessian is left out. Cost: nothing.
    """
    own, quadratic = point.objective, point.objective.penalty.quadratic
    penalty, slope = quadratic.value_and_gradient(point.w)
    gram = None
    if point.hessian is not None:
        gram = np.zeros_like(point.hessian)
        quadratic.add_to(gram)
        np.subtract(point.hessian, gram, out=gram)
        gram /= own.C
    value, gradient = (point.value - penalty) / own.C, (point.gradient - slope) / own.C
    losses = Sums(value, gradient, gram)
    return objective.point_of(losses, point.w, point.token, exact=point.exact)
