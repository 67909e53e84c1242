"""Foresee how many iterations a solver still needs, from how its error bounds have fallen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from daskglm.objectives.primal import Objective, Point
from daskglm.solvers import costs


def iterations_left(errors: Sequence[float], tol: float) -> float:
    """Iterations to `tol` if errors go on falling at the rate of the last `costs.RATE_WINDOW`;
    infinite where they do not fall, or are too few.
    """
    window = costs.RATE_WINDOW
    if errors and errors[-1] <= tol:
        return 0.0
    if len(errors) <= window or not 0.0 < errors[-1] < errors[-1 - window]:
        return math.inf
    rate = math.log(errors[-1 - window] / errors[-1]) / window
    return math.log(errors[-1] / tol) / rate if tol > 0.0 else math.inf


def relative_error(objective: Objective, point: Point, first: float) -> float:
    """Bound on a point's relative error that is due to features, since the driver looks for the
    best intercept by itself; without a penalty the gradient's norm over the `first` one.
    """
    tiny = float(np.finfo(float).tiny)
    if objective.is_penalised:
        return objective.feature_bound(point) / max(abs(point.value), tiny)
    return point.gradient_norm / max(first, tiny)
