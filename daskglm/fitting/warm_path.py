"""Where a problem with kinks or bounds starts that was solved for a stronger penalty before."""

from __future__ import annotations

import math

from daskglm.fitting.report import Report
from daskglm.fitting.runner import WarmStart
from daskglm.objectives.composite import Composite
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.proximal_newton import SPEC, KeptSet

WHY = "a path, each fit from the point before it"


class WarmPath:
    """Problems of one class and fold, from strong penalties to weak.

    Parameters
    ----------
    of : tuple of (int, int)
        The class and the fold.
    """

    def __init__(self, of: tuple[int, int]) -> None:
        self.of = of
        self.point: Point | None = None  # the last that was evaluated
        self.kept = KeptSet()

    def begin(self, objective: Objective) -> WarmStart | None:
        """Return where to start; None where proximal Newton did not come before."""
        if self.point is None:
            return None
        assert isinstance(objective, Composite)
        point = objective.adopt(self.point)
        return WarmStart(point.w, {"begin": point, "kept": self.kept}, solver=SPEC.name, why=WHY)

    def add(self, point: Point, report: Report) -> None:
        """Take note of the point at which a solve ended."""
        if report.solver != SPEC.name or not math.isfinite(point.value):
            self.point = None
            return
        # that of least squares is known by the products of the columns at another
        self.point = point if point.prediction is None else point.prediction.base
