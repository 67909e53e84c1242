"""Bounds for ordered classes, whose thresholds have no penalty.

Bounds are on F(w) = min over t of f(w, t), which is convex, at thresholds t that cost
f(w, t) - F(w) <= e. Let all thresholds move by m_j with w_j: that changes distances from thresholds
by x_ij - m_j, with a curvature of at most L_j, C L sum_i s_i (x_ij - m_j)^2. Then entry j of the
gradient of F is within sqrt(2 L_j e) of the slope of f that way. For f less its tangent by w_j at
the best thresholds is least there, and a step that way lowers it from t by the square of that
difference over 2 L_j.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates.bounds import Certify
from daskglm.certificates.convexity import ByConvexity
from daskglm.certificates.rounding import EXACT
from daskglm.certificates.tangent import ByTangent

if TYPE_CHECKING:
    from daskglm.objectives.point import Point

# Share of a column's squares by which those of its differences from the mean may be off. It covers
# rounding of sums of 1e9 rows.
CANCELLED = 1e-9


class OrdinalByConvexity(ByConvexity):
    """Bounds for ordered classes where the penalty is a ridge of one strength."""

    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve."""
        return OrdinalCertificate(self, tol)


class OrdinalByTangent(ByTangent):
    """Bounds for ordered classes with any penalty."""

    @property
    def wants_hessian(self) -> bool:
        """Whether there are features that only a Hessian of all can bound."""
        return not self.penalty.is_held

    @property
    def has_unheld(self) -> bool:
        """Whether points may say how near coefficients are that nothing holds.

        They do not: each knows a bound by its thresholds already.
        """
        return False

    def unheld_features(self, point: Point) -> int:
        """Return the number of features that only `unheld.can_settle` would bound: none."""
        return 0

    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; see `ByTangent.of`."""
        if not self.proves:
            return math.nan
        if not math.isfinite(point.value):
            return math.inf
        found = min(point.free_bound, point.excess)
        # features that nothing holds are bounded by the Hessian alone
        if not (self.penalty.is_held or found < point.value):
            return math.nan
        return min(found, point.value)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        if self.rounding.squares is not None:
            return False
        by_hessian = math.inf
        if point.hessian is not None:
            by_hessian = self.rounding.by_own_hessian(point.factor, point.w, point.residual, EXACT)
        # what thresholds add is by curvatures, which a survey lowers, too
        nominal = self.nominal(replace(point, near=0.0))
        return min(nominal, by_hessian) <= tol * point.value

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what the thresholds add to the tangent, as if they were the best ones."""
        if not math.isfinite(point.near):
            return gradient, off, math.inf
        objective, columns = self.objective, self.rounding.columns
        squares, means = self.rounding.squares, self.rounding.means
        if squares is None or means is None:
            apart = objective.total_weight * (columns * np.ones(len(off))) ** 2
        else:
            # means are off by rounding, which squares that are left bound
            apart = np.maximum(squares - objective.total_weight * means**2, 0.0)
            apart = apart + CANCELLED * squares
            gradient = gradient + means * float(point.gradient[objective.n_features :].sum())
            off = off + np.abs(means) * constant
        curvatures = objective.scale * self.loss.smoothness * apart
        return gradient, off + np.sqrt(2.0 * point.near * curvatures), point.near


class OrdinalCertificate:
    """Bounds points, and improves the thresholds if only those keep a bound above `tol`."""

    def __init__(self, bounds: OrdinalByConvexity, tol: float) -> None:
        self.bounds, self.tol = bounds, tol
        self.settle_below = 0.5 * tol if bounds.objective.is_penalised else -1.0

    def __call__(self, point: Point) -> tuple[Point, float]:
        """Return the point, or one with the same features and better thresholds, and its gap."""
        gap = point.relative_gap
        if not gap > self.tol or not math.isfinite(point.value):
            return point, gap
        bounds, objective = self.bounds, self.bounds.objective
        if bounds.is_hidden(point, self.tol):
            bounds.survey()
            # a new point, since the old one caches its bounds
            point = objective.margins.known(objective, replace(point))
            gap = point.relative_gap

        features = bounds.of_features(point) / max(point.value, np.finfo(float).tiny)
        if not (gap > self.tol and features <= self.settle_below):
            return point, gap
        # a point that fails with its best thresholds is not tried again before the features' part
        # of the bound has fallen tenfold
        self.settle_below = 0.1 * features
        settled = bounds.with_best_intercept(point)
        better = settled.relative_gap
        return (settled, better) if better < gap else (point, gap)
