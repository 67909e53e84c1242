"""Bounds by the tangent and by the Hessian: for any penalty, with kinks, bounds, many strengths.

Where the Hessian is known the shortest subgradient is all that is wanted of the penalty; the
tangent wants its conjugate, see `free_bound`. `docs/certificates.md` has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates import unheld
from daskglm.certificates.bounds import Bounds, Certify
from daskglm.certificates.certificate import Certificate
from daskglm.certificates.free_bound import Tangent, largest_norm, lower_bound
from daskglm.certificates.hessian_factor import UNIT, GradientError
from daskglm.certificates.rounding import EXACT, FEW, RANDOM_SIGNS
from daskglm.certificates.tangent_certificate import TangentCertificate

if TYPE_CHECKING:
    from daskglm.objectives.point import Point


class ByTangent(Bounds):
    """Bounds on points of an objective with any penalty of one margin."""

    any_penalty = True

    @property
    def proves(self) -> bool:
        """Whether points can be bounded."""
        return self.loss.is_bounded

    @property
    def has_unheld(self) -> bool:
        """Whether there is a coefficient that nothing holds, of which points may say how near its
        best value it is: the intercept.
        """
        return self.objective.fit_intercept

    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve."""
        return Certificate(self, tol) if self.is_local else TangentCertificate(self, tol)

    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        By the Hessian and the shortest subgradient; where that proves nothing by the gradient alone
        (see `free_bound`), which cannot bound coefficients that nothing holds. The value is a bound
        itself, since losses are not negative. Cost: nothing.
        """
        if self.is_local:
            return self._by_rates(point)
        if not self.proves:
            return math.nan
        # a finite bound by the Hessian is of second order, and the other one lags behind it
        found = point.excess if math.isfinite(point.excess) else point.free_bound
        # where nothing but the Hessian can bound features, and that cannot: only the gradient tells
        curved = point.hessian is not None and math.isfinite(self.loss.self_concordance)
        curved = curved or unheld.can_settle(self, point)
        if not (found < point.value or self.penalty.is_held or curved):
            return math.nan
        # losses of separable classes vanish as coefficients grow: a bound of zero has underflown
        if found == 0.0 and point.value > 0.0 and not self.penalty.is_held:
            return math.nan
        return min(found, point.value)

    def nominal(self, point: Point) -> float:
        """Bound by the gradient as if arithmetic were exact: it steers, and proves nothing.

        Coefficients that nothing holds, of whose Hessian nothing is known, count as the best ones.
        """
        if self.unheld_features(point) and unheld.block_of(point) is None:
            point = replace(point, near=0.0)
        return self.by_tangent(point, EXACT)

    def unheld_features(self, point: Point) -> int:
        """Return the number of features that nothing holds at a point."""
        if self.penalty.is_held:
            return 0
        return len(unheld.features_of(self.objective, point.w))

    def of_features(self, point: Point) -> float:
        """Return the bound by the gradient as if arithmetic were exact."""
        return self.nominal(point)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        if self.is_local:
            return self._hides_rates(point, tol * point.value)
        unknown = self.unheld_features(point) and unheld.block_of(point) is None
        if self.rounding.squares is not None or unknown:
            return False
        by_hessian = math.inf
        if point.hessian is not None:
            by_hessian = self.rounding.by_hessian(point.factor, point.residual, EXACT)
        return min(self.nominal(point), by_hessian) <= tol * point.value

    def by_tangent(self, point: Point, error: GradientError) -> float:
        """Bound the distance of a point's value from the optimum by its tangent."""
        d = self.objective.n_features
        features, gradient = point.w[:d], point.gradient[:d]
        curvature = self.penalty.counted_curvature
        with np.errstate(over="ignore", invalid="ignore"):
            value = point.value - self.penalty.kinks.value(point.w)
            if self.penalty.has_counted_curvature:
                value -= 0.5 * float(curvature @ features**2)
                gradient = gradient - curvature * features
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return math.inf

        off, constant, loose = self.errors(point, error, value)
        gradient, off, more = self._settled(point, gradient, off, constant)
        loose += more
        if not (math.isfinite(loose) and np.isfinite(off).all()):
            return math.inf
        quadratic = self.loss.is_quadratic
        tangent = Tangent(value, gradient, features, curvature, quadratic, loose, off)
        return point.value - lower_bound(tangent, self.penalty.feature_kinks)

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what the coefficients without any penalty add to the tangent.

        Parameters
        ----------
        gradient, off : (n_features,) arrays
            By the features, and bounds on its errors.
        constant : float
            Bound on the error of the gradient by the intercept.

        Returns
        -------
        tuple of (n_features,) array, (n_features,) array, float
            Gradient and errors to take instead, and by how much the tangent may lie lower.
        """
        if self.unheld_features(point):
            found = unheld.settled(self, point, gradient, off, constant)
            if found is not None:
                return found
        if not self.objective.fit_intercept:
            return gradient, off, 0.0
        objective, squares = self.objective, self.rounding.squares
        slope = abs(float(point.gradient[-1])) + constant
        if math.isfinite(point.near):
            # as if at the best intercept, where every slope has changed in the same direction
            changed = np.full(objective.n_features, slope) * self.rounding.columns
            if squares is not None and math.isfinite(self.loss.smoothness):
                mass = objective.scale * self.loss.smoothness * math.sqrt(objective.total_weight)
                changed = np.minimum(changed, mass * point.near * np.sqrt(squares))
            return gradient, off + changed, slope * point.near
        if not slope > 0.0:
            return gradient, off, 0.0
        reach = self.rounding.radius * self._largest_norm(point.value) + objective.intercept_radius
        return gradient, off, slope * (abs(float(point.w[-1])) + reach)

    def errors(
        self, point: Point, error: GradientError, value: float
    ) -> tuple[np.ndarray, float, float]:
        """Bound errors: of the gradient by features and the intercept, and of the smooth value.

        `error` is that of the gradient, `value` that of the smooth part.
        """
        objective, rounding = self.objective, self.rounding
        d, squares = objective.n_features, rounding.squares
        if error is EXACT:
            return np.zeros(d), 0.0, 0.0
        # losses are added up as slopes are, and are off by errors of margins
        slopes = error.adding / (rounding.terms * UNIT)
        error = rounding.of_random_signs(error)
        of_value = error.adding / max(slopes, 1e-300) * abs(value)
        of_value += slopes * rounding.margin_error(point.w)
        constant = error.adding + error.slopes
        off = np.full(d, constant) * rounding.columns
        evaluated = point.prediction is None
        if squares is not None and evaluated and math.isfinite(self.loss.smoothness):
            # by Cauchy and Schwarz, with sums of squares of columns, margins' errors, slopes
            square = objective.scale * self.loss.smoothness
            spread = rounding.margin_errors(point.w, squares, objective.total_weight)
            slope = math.sqrt(2.0 * square * max(value, 0.0))
            share = min(1.0, RANDOM_SIGNS / math.sqrt(rounding.terms)) * rounding.terms * UNIT
            each = square * spread + share * slope
            off = np.minimum(off, each * np.sqrt(squares))
            constant = min(constant, each * math.sqrt(objective.total_weight))
        if error.penalty > 0.0:
            # each entry of the penalty's gradient has errors of its own, if no others are in it
            own = np.full(d, error.penalty)
            if self.penalty.quadratic.is_diagonal:
                pull = self.penalty.quadratic.diagonal(d) * np.abs(point.w[:d])
                own = np.minimum(own, FEW * UNIT * pull)
            off = off + own
        return off, constant, of_value

    def _largest_norm(self, value: float) -> float:
        """Bound the norm of the features' coefficients of the optimum, whose value is no larger."""
        penalty = self.penalty
        return largest_norm(penalty.feature_kinks, penalty.counted_curvature, value)

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors. Cost: 2 or 3 passes."""
        objective = self.objective
        if not objective.rounding.is_surveyed:
            super().survey()
        objective.rounding.measure(objective.ask)
