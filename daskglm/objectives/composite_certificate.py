"""What the driver calls to bound the points of an objective with kinks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any


class CompositeCertificate:
    """Bounds points, and looks at the intercept where only that keeps a bound above `tol`."""

    def __init__(self, objective: Any, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.settled = math.inf  # gap at which the best intercept was looked for last

    def __call__(self, point: Any) -> tuple[Any, float]:
        """Return the point, or the same with a better bound or intercept, and its gap."""
        objective = self.objective
        gap = point.relative_gap
        if not gap > self.tol or point.prediction is not None:
            return point, gap
        wanted = self.tol * point.value
        if objective.is_hidden(point, self.tol):
            objective.survey()
            point = replace(point)  # a new point, since the old one caches its bounds
            gap = point.relative_gap
        looks = gap > self.tol and objective.has_unheld and math.isinf(point.near)
        # without the intercept's part: is the point near enough?
        if looks and objective.nominal_bound(replace(point, near=0.0)) <= wanted:
            point = objective.with_near_intercept(point)
            gap = point.relative_gap
        if not gap > self.tol or math.isinf(point.near) or not gap < 0.5 * self.settled:
            return point, gap
        self.settled = gap
        better = objective.with_near_intercept(objective.with_best_intercept(point))
        return (better, better.relative_gap) if better.relative_gap < gap else (point, gap)
