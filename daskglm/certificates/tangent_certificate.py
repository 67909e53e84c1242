"""What the driver calls to bound points by the tangent."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from daskglm.certificates.unheld import can_settle, settle, unproved

if TYPE_CHECKING:
    from daskglm.certificates.tangent import ByTangent
    from daskglm.objectives.point import Point

# Share of the gradient's norm that must be left since coefficients that nothing holds were looked
# at last. Each look takes a few passes. Chosen.
FALLEN = 0.1


class TangentCertificate:
    """Bounds points, and looks at coefficients that nothing holds if only they keep it above `tol`.

    These are the intercept, and features without a penalty.
    """

    def __init__(self, bounds: ByTangent, tol: float) -> None:
        self.bounds, self.tol = bounds, tol
        self.settled = math.inf  # gap at which the best intercept was looked for last
        self.start = math.nan  # norm of the first gradient
        self.looked = math.inf  # and that at which other coefficients were looked at last

    def __call__(self, point: Point) -> tuple[Point, float]:
        """Return the point, or the same with a better bound or intercept, and its gap."""
        bounds = self.bounds
        if math.isnan(self.start):
            self.start = point.gradient_norm
        gap = point.relative_gap
        if gap <= self.tol or point.prediction is not None:
            return point, gap
        if can_settle(bounds, point):
            point, gap = self._with_best_unheld(point, gap)
            if point.unheld is not None or not math.isfinite(gap):
                return point, gap
        if not gap > self.tol:
            return point, gap
        wanted = self.tol * point.value
        if bounds.is_hidden(point, self.tol):
            point, gap = self._surveyed(point)
        looks = gap > self.tol and bounds.has_unheld and math.isinf(point.near)
        # without the intercept's part: is the point near enough?
        if looks and bounds.nominal(replace(point, near=0.0)) <= wanted:
            point = bounds.with_near_intercept(point)
            gap = point.relative_gap
        if not gap > self.tol or math.isinf(point.near) or not gap < 0.5 * self.settled:
            return point, gap
        self.settled = gap
        better = bounds.with_near_intercept(bounds.with_best_intercept(point))
        return (better, better.relative_gap) if better.relative_gap < gap else (point, gap)

    def _surveyed(self, point: Point) -> tuple[Point, float]:
        """Measure the columns; return the point with bounds that know them, and its gap."""
        self.bounds.survey()
        point = replace(point)  # a new point, since the old one caches its bounds
        return point, point.relative_gap

    def _with_best_unheld(self, point: Point, gap: float) -> tuple[Point, float]:
        """Bound a point with features that nothing holds, if it is near the optimum otherwise.

        The gap is nan if nothing can be proved: then the gradient ends the fit.
        """
        bounds, norm = self.bounds, point.gradient_norm
        wanted, small = self.tol * point.value, self.tol * self.start
        near = norm <= small or bounds.nominal(point) <= wanted
        # where the gradient would end the fit a proof is tried once more
        fallen = norm <= FALLEN * self.looked or norm <= small < self.looked
        if not (near and fallen):
            return point, gap
        self.looked = norm
        found = settle(bounds, point, wanted)
        # better bounds on the columns may be all that lacks
        lacks = norm <= small or bounds.nominal(replace(found, near=0.0)) <= wanted
        if lacks and bounds.rounding.squares is None and not found.relative_gap <= self.tol:
            found, known = self._surveyed(found)
            if not known <= self.tol:
                found = settle(bounds, found, wanted)
        if not math.isfinite(found.relative_gap):
            # bounds on one side may hold the features, if nothing else does
            found = point if math.isfinite(gap) else unproved(point)
        return found, found.relative_gap
