"""What objectives have in common that have several intercepts, or thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective


class SeveralIntercepts(Objective):
    """An objective with several intercepts, or thresholds, beside the coefficients of features."""

    classes: tuple[Any, ...]

    @property
    def solves_trust_regions(self) -> bool:
        """Whether subproblems of a trust region may be solved where the rows are: not these."""
        return False

    @property
    def can_go_without(self) -> bool:
        """Whether a Hessian alone bounds points, without a penalty: it does."""
        return True

    def along(
        self, points: Sequence[Point], coefficients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Raise NotImplementedError: cached margins of a row have no one constant to move."""
        raise NotImplementedError("an objective with several intercepts is searched by `between`")

    def slopes_between(self, a: Point, b: Point, steps: Sequence[float]) -> np.ndarray:
        """Return slopes along b - a; see `Objective.slopes_between`. Cost: a pass for each."""
        way = b.w - a.w
        return np.array([float(self.at(a.w + t * way, keep=False).gradient @ way) for t in steps])
