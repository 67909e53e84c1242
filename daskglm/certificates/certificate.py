"""How good a point is: its bound, and what may be done at once to improve it.

The driver calls this for each point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from daskglm.certificates.bounds import Bounds
    from daskglm.objectives.point import Point


class Certificate:
    """Bounds points, and improves the intercept if only that keeps a bound above `tol`."""

    def __init__(self, bounds: Bounds, tol: float) -> None:
        self.bounds, self.tol = bounds, tol
        objective = bounds.objective
        can_settle = objective.fit_intercept and objective.is_penalised
        can_settle = can_settle and objective.loss.is_bounded
        self.settle_below = 0.5 * tol if can_settle else -1.0

    def __call__(self, point: Point) -> tuple[Point, float]:
        """Return the point, or one with the same features and a better intercept, and its gap."""
        if self.bounds.is_local:
            return self._by_rates(point)
        gap = point.relative_gap
        if not gap > self.tol or point.gap is not None or point.prediction is not None:
            return point, gap
        features = self.bounds.of_features(point) / max(point.value, np.finfo(float).tiny)
        settle = features <= self.settle_below
        if settle:
            # a point that fails with its best intercept is not tried again before the features'
            # part of the bound has fallen tenfold
            self.settle_below = 0.1 * features
            point = self.bounds.with_near_intercept(point)
            gap = point.relative_gap

        if gap > self.tol and self.bounds.is_hidden(point, self.tol):
            self.bounds.survey()
            point = replace(point)  # a new point, since the old one caches its bounds
            gap = point.relative_gap

        if not (settle and gap > self.tol):
            return point, gap
        settled = self.bounds.with_best_intercept(point)
        settled = self.bounds.with_near_intercept(settled)
        better = settled.relative_gap
        return (settled, better) if better < gap else (point, gap)

    def _by_rates(self, point: Point) -> tuple[Point, float]:
        """Bound a point by what its rows say of their curvatures."""
        bounds = self.bounds
        found = bounds.with_rates(point)
        if found.relative_gap > self.tol and bounds.is_hidden(found, self.tol):
            bounds.survey()
            found = bounds.with_rates(point)
        return found, found.relative_gap
