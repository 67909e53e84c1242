"""How good a point is: its bound, and what may be done at once to improve it.

The driver calls one of these for each point.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates.free_block import can_settle, settle, unproved

if TYPE_CHECKING:
    from daskglm.certificates.bounds import Bounds
    from daskglm.certificates.tangent import ByTangent
    from daskglm.objectives.point import Point

# Share of the gradient's norm that must be left since coefficients that nothing holds were looked
# at last. Each look takes a few passes. Chosen.
FALLEN = 0.1


def with_best_constants(bounds: Bounds, point: Point, gap: float) -> tuple[Point, float]:
    """Evaluate the same coefficients with the best constants; return the better point, its gap."""
    objective = bounds.objective
    better = bounds.with_near_constants(objective.margins.best_constants(objective, point))
    return (better, better.relative_gap) if better.relative_gap < gap else (point, gap)


class Certificate:
    """Bounds points, and improves the constants if only those keep a bound above `tol`."""

    def __init__(self, bounds: Bounds, tol: float) -> None:
        self.bounds, self.tol = bounds, tol
        objective = bounds.objective
        can_settle = objective.fit_intercept and objective.is_penalised
        can_settle = can_settle and objective.loss.is_bounded
        self.settle_below = 0.5 * tol if can_settle else -1.0

    def __call__(self, point: Point) -> tuple[Point, float]:
        """Return the point, or one with the same features and better constants, and its gap."""
        bounds = self.bounds
        if bounds.is_local:
            return self._by_rates(point)
        gap = point.relative_gap
        if not gap > self.tol or point.gap is not None or point.prediction is not None:
            return point, gap
        features = bounds.of_features(point) / max(point.value, np.finfo(float).tiny)
        settle = features <= self.settle_below
        if settle:
            # a point that fails with its best constants is not tried again before the features'
            # part of the bound has fallen tenfold
            self.settle_below = 0.1 * features
            point = bounds.with_near_constants(point)
            gap = point.relative_gap

        if gap > self.tol and bounds.is_hidden(point, self.tol):
            point = bounds.surveyed(point)
            gap = point.relative_gap

        return (
            with_best_constants(bounds, point, gap) if settle and gap > self.tol else (point, gap)
        )

    def _by_rates(self, point: Point) -> tuple[Point, float]:
        """Bound a point by what its rows say of their curvatures."""
        bounds = self.bounds
        found = bounds.with_rates(point)
        if found.relative_gap > self.tol and bounds.is_hidden(found, self.tol):
            bounds.survey()
            found = bounds.with_rates(point)
        return found, found.relative_gap


class TangentCertificate:
    """Bounds points, and looks at coefficients that nothing holds if only they keep it above `tol`.

    These are constants, and features without a penalty.
    """

    def __init__(self, bounds: ByTangent, tol: float) -> None:
        self.bounds, self.tol = bounds, tol
        self.settled = math.inf  # gap at which the best constants were looked for last
        self.start = math.nan  # norm of the first gradient
        self.looked = math.inf  # and that at which other coefficients were looked at last

    def __call__(self, point: Point) -> tuple[Point, float]:
        """Return the point, or the same with a better bound or constants, and its gap."""
        bounds = self.bounds
        if math.isnan(self.start):
            self.start = point.gradient_norm
        gap = point.relative_gap
        if gap <= self.tol or point.prediction is not None:
            return point, gap
        if can_settle(bounds, point):
            point, gap = self._with_best_free(point, gap)
            if point.free_hessian is not None or not math.isfinite(gap):
                return point, gap
        if not gap > self.tol:
            return point, gap
        if bounds.is_hidden(point, self.tol):
            point = bounds.surveyed(point)
            gap = point.relative_gap
        looks = gap > self.tol and math.isinf(point.near)
        # without the constants' part: is the point near enough?
        if looks and bounds.free.at_best(point).nominal_bound <= self.tol * point.value:
            point = bounds.with_near_constants(point)
            gap = point.relative_gap
        if not gap > self.tol or math.isinf(point.near) or not gap < 0.5 * self.settled:
            return point, gap
        self.settled = gap
        return with_best_constants(bounds, point, gap)

    def _with_best_free(self, point: Point, gap: float) -> tuple[Point, float]:
        """Bound a point with features that nothing holds, if it is near the optimum otherwise.

        The gap is nan if nothing can be proved: then the gradient ends the fit.
        """
        bounds, norm = self.bounds, point.gradient_norm
        wanted, small = self.tol * point.value, self.tol * self.start
        near = norm <= small or point.nominal_bound <= wanted
        # where the gradient would end the fit a proof is tried once more
        fallen = norm <= FALLEN * self.looked or norm <= small < self.looked
        if not (near and fallen):
            return point, gap
        self.looked = norm
        found = settle(bounds, point, wanted)
        # better bounds on the columns may be all that lacks
        lacks = norm <= small or bounds.nominal(replace(found, near=0.0)) <= wanted
        if lacks and bounds.rounding.squares is None and not found.relative_gap <= self.tol:
            found = bounds.surveyed(found)
            if not found.relative_gap <= self.tol:
                found = settle(bounds, found, wanted)
        if not math.isfinite(found.relative_gap):
            # bounds on one side may hold the features, if nothing else does
            found = point if math.isfinite(gap) else unproved(point)
        return found, found.relative_gap
