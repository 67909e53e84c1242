"""The ordinal objective with a penalty that may have kinks, bounds, or a strength for each feature.

The thresholds have no penalty. Bounds are on F(w) = min over t of f(w, t), which is convex, at
thresholds t that cost f(w, t) - F(w) <= e. Let all thresholds move by m_j with w_j: that changes
distances from thresholds by x_ij - m_j, with a curvature of at most L_j, C L sum_i s_i (x_ij -
m_j)^2. Then entry j of the gradient of F is within sqrt(2 L_j e) of the slope of f that way. For f
less its tangent by w_j at the best thresholds is least there, and a step that way lowers it from t
by the square of that difference over 2 L_j.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.objectives.bounds import EXACT
from daskglm.objectives.composite import Composite
from daskglm.objectives.ordinal import OrdinalObjective
from daskglm.objectives.point import Point

# Share of a column's squares by which those of its differences from the mean may be off. It covers
# rounding of sums of 1e9 rows.
CANCELLED = 1e-9


class OrdinalComposite(Composite, OrdinalObjective):
    """Ordinal losses, a quadratic penalty, and kinks and bounds.

    Parameters are those of `OrdinalObjective`, and

    Parameters
    ----------
    terms : NonSmooth
        For vectors of `size` entries.
    """

    @property
    def wants_hessian(self) -> bool:  # type: ignore[override]
        """Whether there are features that only a Hessian of all can bound."""
        return not self.is_held

    @property
    def has_unheld(self) -> bool:
        """Whether points may say how near coefficients are that nothing holds.

        They do not: each knows a bound by its thresholds already.
        """
        return False

    def unheld_features(self, point: Point) -> int:
        """Return the number of features that only `Composite.can_settle` would bound: none."""
        return 0

    def with_near_intercept(self, point: Point) -> Point:
        """Return the point, which knows how near its thresholds are. Cost: nothing."""
        return point

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the thresholds that fit them best.

        Cost: 1 pass, some rounds.
        """
        return self.with_best_thresholds(point)

    # ---- how good a point is
    def bound(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; see `Composite.bound`."""
        if not self.proves:
            return math.nan
        if not math.isfinite(point.value):
            return math.inf
        found = min(point.free_bound, point.excess)
        # features that nothing holds are bounded by the Hessian alone
        if not (self.is_held or found < point.value):
            return math.nan
        return min(found, point.value)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        if self.squares is not None:
            return False
        by_hessian = math.inf
        if point.gram is not None:
            by_hessian = self.rounding.by_thresholds_too(
                point.factor, point.w, point.residual, EXACT
            )
        # what thresholds add is by curvatures, which a survey lowers, too
        nominal = self.nominal_bound(replace(point, near=0.0))
        return min(nominal, by_hessian) <= tol * point.value

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what the thresholds add to the tangent, as if they were the best ones."""
        if not math.isfinite(point.near):
            return gradient, off, math.inf
        if self.squares is None or self.means is None:
            squares = self.total_weight * (self.rounding.columns * np.ones(len(off))) ** 2
        else:
            # means are off by rounding, which squares that are left bound
            squares = self.squares - self.total_weight * self.means**2
            squares = np.maximum(squares, 0.0) + CANCELLED * self.squares
            gradient = gradient + self.means * float(point.gradient[self.n_features :].sum())
            off = off + np.abs(self.means) * constant
        curvatures = self.scale * self.loss.smoothness * squares
        return gradient, off + np.sqrt(2.0 * point.near * curvatures), point.near
