"""Foresee how many iterations a solver still needs, from how its error bounds have fallen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs


def iterations_left(errors: Sequence[float], tol: float, window: int = costs.RATE_WINDOW) -> float:
    """Foresee the iterations to `tol`, by the rate of the last `window` errors.

    Infinite if errors do not fall, are too few, or not all known.
    """
    if errors and errors[-1] <= tol:
        return 0.0
    if len(errors) <= window or not 0.0 < errors[-1] < errors[-1 - window] < math.inf:
        return math.inf
    rate = math.log(errors[-1 - window] / errors[-1]) / window
    return math.log(errors[-1] / tol) / rate if tol > 0.0 else math.inf


def relative_error(objective: Objective, point: Point, first: float) -> float:
    """Bound the features' part of a point's relative error.

    The intercept's part does not count, since the driver looks for the best intercept by itself.
    Without a penalty there is no bound: then it is the gradient's norm over the `first` one.
    """
    tiny = float(np.finfo(float).tiny)
    if objective.is_penalised:
        return objective.bounds.of_features(point) / max(abs(point.value), tiny)
    return point.gradient_norm / max(first, tiny)
