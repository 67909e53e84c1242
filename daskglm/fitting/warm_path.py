"""Where a problem with kinks or bounds starts that was solved for a stronger penalty before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskglm.fitting.runner import WarmStart
from daskglm.objectives.carried_point import carried
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.proximal_newton import SPEC
from daskglm.solvers.working_sets import KeptSet

WHY = "a path, each fit from the point before it"


class WarmPath:
    """Problems of one class and fold, from strong penalties to weak.

    Parameters
    ----------
    of : tuple of (int, int)
        The class and the fold.
    """

    def __init__(self, of: tuple[int, int] = (0, -1)) -> None:
        self.of = of
        self.point: Point | None = None  # the last that was evaluated
        self.kept = KeptSet()

    def begin(self, objective: Objective) -> WarmStart | None:
        """Return where to start; None where there is no point to start at."""
        if self.point is None:
            return None
        w = objective.penalty.kinks.clip(self.point.w)
        state: dict[str, Any] = {"kept": self.kept}
        if (w == self.point.w).all():
            state["begin"] = carried(self.point, objective)
        return WarmStart(w, state, solver=SPEC.name, why=WHY)

    def add(self, point: Point | None, solver: str = SPEC.name) -> None:
        """Take note of the point at which a solve ended; those of other solvers are no start."""
        self.point = None
        if point is None or solver != SPEC.name or point.gap is not None:  # of dual ascent
            return
        if math.isfinite(point.value):
            # that of least squares is known by the products of the columns at another
            self.point = point if point.prediction is None else point.prediction.base


def selected_alone(objective: Objective, w: np.ndarray) -> tuple[Objective, WarmStart]:
    """Return the objective with the features at zero that are zero in w, and where it starts."""
    out = w == 0.0
    out[objective.n_features :] = False
    why = "features that were selected, without the penalty"
    return objective.held(out), WarmStart(w, solver=SPEC.name, why=why)
