"""Bounds by the tangent and by the Hessian: for any penalty, with kinks, bounds, many strengths.

Where the Hessian is known the shortest subgradient is all that is wanted of the penalty; the
tangent wants its conjugate, see `lower_bound`. `docs/certificates.md` has the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates.ball import Ball
from daskglm.certificates.bounds import Bounds, Certify
from daskglm.certificates.certificate import Certificate, TangentCertificate
from daskglm.certificates.constants import Intercept
from daskglm.certificates.far_columns import apart as apart_from_means
from daskglm.certificates.far_columns import are_far
from daskglm.certificates.far_columns import centred as centred_rows
from daskglm.certificates.free import Free, Settled
from daskglm.certificates.hessian_factor import FAR_OUT, FEW, UNIT, GradientError
from daskglm.certificates.lower_bound import Tangent, largest_norm, lower_bound
from daskglm.certificates.rounding import EXACT, RANDOM_SIGNS, Rounding

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.restriction import Restriction


class ByTangent(Bounds):
    """Bounds on points of an objective with any penalty."""

    any_penalty = True

    @property
    def free(self) -> Free:
        """What points say of the coefficients that nothing holds."""
        return self.objective.margins.free(self)

    @property
    def proves(self) -> bool:
        """Whether points can be bounded."""
        return self.loss.is_bounded

    @property
    def wants_hessian(self) -> bool:
        """Whether there are coefficients that only a Hessian of all can bound."""
        return self.free.wants_hessian

    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve."""
        return Certificate(self, tol) if self.is_local else TangentCertificate(self, tol)

    @FAR_OUT
    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        By the Hessian and the shortest subgradient, and by the gradient alone (see `lower_bound`),
        which cannot bound coefficients that nothing holds. The value is a bound itself, since
        losses are not negative. Cost: nothing.
        """
        if self.is_local:
            return self._by_rates(point)
        if not self.proves:
            return math.nan
        found, is_held = point.excess, self.penalty.is_held
        if not (self.free.waits and math.isfinite(found)):
            found = min(found, point.tangent_bound)
        # where nothing but the Hessian can bound features, and that cannot: only the gradient tells
        if not (found < point.value or is_held or self.free.may_prove(point)):
            return math.nan
        # losses of separable classes vanish as coefficients grow: a bound of zero has underflown
        if found == 0.0 and point.value > 0.0 and not is_held:
            return math.nan
        return min(found, point.value)

    def nominal(self, point: Point) -> float:
        """Bound by the gradient as if arithmetic were exact: it steers, and proves nothing.

        Coefficients that nothing holds, of whose Hessian nothing is known, count as the best ones.
        """
        unknown = self.free.is_unknown(point)
        return self.by_tangent(point.with_near(0.0) if unknown else point, EXACT)

    def of_features(self, point: Point) -> float:
        """Return the bound by the gradient as if arithmetic were exact."""
        return self.nominal(point)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        if self.is_local:
            return self._hides_rates(point, tol * point.value)
        return self.rounding.squares is None and self.free.hides(point, tol * point.value)

    @FAR_OUT
    def by_tangent(self, point: Point, error: GradientError) -> float:
        """Bound the distance of a point's value from the optimum by its tangent.

        Where the Hessian is known it may say how near coefficients that nothing holds are to the
        best ones. Where means are known to be far from zero the tangent is that of centred columns:
        their slopes do not change with the intercept's.
        """
        found = self._by_tangent(point, error, centred=self._centres)
        near = self.free.nearness(point, error)
        if not near < point.near:
            return found
        return min(found, self._by_tangent(point.with_near(near), error))

    def centred(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient's part by features, by centred columns where means are far from zero.

        Columns are as they are until means are known. Cost: nothing.
        """
        features = gradient[: self.objective.n_features]
        if not self._centres:
            return features
        assert self.rounding.means is not None
        found: np.ndarray = features - self.rounding.means * float(gradient[-1])
        return found

    def residual_of_features(self, point: Point) -> np.ndarray:
        """Return the shortest subgradient by features, of `centred` columns. Cost: nothing."""
        d = self.objective.n_features
        gradient = self.centred(point.gradient)
        return self.penalty.feature_kinks.residual(point.w[:d], gradient)

    @property
    def _centres(self) -> bool:
        """Whether columns have means far from zero, and an intercept centres them."""
        rounding = self.rounding
        alone = isinstance(rounding.constants, Intercept) and rounding.constants.count > 0
        return alone and self.penalty.is_held and are_far(rounding, self.objective.total_weight)

    def _by_tangent(self, point: Point, error: GradientError, *, centred: bool = False) -> float:
        """Bound the distance from the optimum with what a point knows of free coefficients.

        With `centred` columns the intercept is another, and the same otherwise.
        """
        d = self.objective.n_features
        features, gradient = point.w[:d], point.gradient[:d]
        curvature = self.penalty.counted_curvature
        value = point.value - self.penalty.kinks.value(point.w)
        if self.penalty.has_counted_curvature:
            value -= 0.5 * float(curvature @ features**2)
            gradient = gradient - curvature * features
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return math.inf

        off, constant, loose = self.errors(point, error, value, centred=centred)
        rows = None
        if centred:
            assert self.rounding.means is not None
            moved = self.rounding.means * float(point.gradient[-1])
            gradient = gradient - moved
            off = off + 4.0 * UNIT * (np.abs(moved) + np.abs(gradient))
            rows = centred_rows(self.rounding, self.objective.total_weight)
        gradient, off, more = self._settled(point, gradient, off, constant, rows)
        loose += more
        if not (math.isfinite(loose) and np.isfinite(off).all()):
            return math.inf
        quadratic = self.loss.is_quadratic
        tangent = Tangent(value, gradient, features, curvature, quadratic, loose, off)
        return point.value - lower_bound(tangent, self.penalty.feature_kinks)

    def _settled(
        self,
        point: Point,
        gradient: np.ndarray,
        off: np.ndarray,
        constant: float,
        rows: Rounding | None = None,
    ) -> Settled:
        """Bound what the coefficients without any penalty add to the tangent.

        Parameters
        ----------
        gradient, off : (n_features,) arrays
            By the features, and bounds on its errors.
        constant : float
            Bound on the error of the gradient by the constants.
        rows : Rounding, optional
            Of the columns that the gradient is by; default: of those as they are.

        Returns
        -------
        tuple of (n_features,) array, (n_features,) array, float
            Gradient and errors to take instead, and by how much the tangent may lie lower.
        """
        found = self.free.settled(point, gradient, off, constant)
        if found is not None:
            return found
        objective, rounding = self.objective, self.rounding
        if not rounding.constants.count:
            return gradient, off, 0.0
        if math.isfinite(point.near):
            return self.at_best_constants(point, gradient, off, constant, rows)
        ball, radius = Ball(None, rounding.radius), objective.intercept_radius
        if rows is not None and rows.means is not None:
            ball = Ball(rows.means, rounding.radius + float(np.linalg.norm(rows.means)))
        slopes = rounding.of_constants(point.gradient)
        first, second = rounding.cost(point.w, slopes, constant, ball, radius)
        penalty = self.penalty
        if second > 0.0:
            largest = largest_norm(penalty.feature_kinks, penalty.counted_curvature, point.value)
            first += second * largest
        return gradient, off, first if math.isfinite(first) else math.inf

    def at_best_constants(
        self,
        point: Point,
        gradient: np.ndarray,
        off: np.ndarray,
        constant: float,
        rows: Rounding | None = None,
    ) -> Settled:
        """Return the tangent as if at the constants that a point is near to; see `_settled`."""
        objective, constants = self.objective, self.rounding.constants
        slopes = self.rounding.of_constants(point.gradient)
        mass = objective.C * self.loss.smoothness
        moves, more = constants.shifts(
            slopes, constant, point.near, rows or self.rounding, mass, objective.total_weight
        )
        return gradient + moves, off + more, constants.excess(slopes, constant, point.near)

    def errors(
        self, point: Point, error: GradientError, value: float, *, centred: bool = False
    ) -> tuple[np.ndarray, float, float]:
        """Bound errors: of the gradient by features and the intercept, and of the smooth value.

        `error` is that of the gradient, `value` that of the smooth part. With `centred` columns
        errors of slopes are multiplied by what rows differ from the means by, roundings of sums by
        all of a column twice.
        """
        objective, rounding = self.objective, self.rounding
        d, squares = objective.n_features, rounding.squares
        if error is EXACT:
            return np.broadcast_to(0.0, d), 0.0, 0.0
        # losses are added up as slopes are, and are off by errors of margins
        slopes = error.adding / (rounding.terms * UNIT)
        given, error = error, rounding.of_random_signs(error)
        of_value = error.adding / max(slopes, 1e-300) * abs(value)
        of_value += slopes * rounding.margin_error(point.w)
        constant = error.adding + error.slopes
        # where one number bounds all columns it is stored once
        off = np.broadcast_to((2.0 * constant if centred else constant) * rounding.columns, d)
        evaluated = point.prediction is None
        if squares is not None and evaluated and math.isfinite(self.loss.smoothness):
            # by Cauchy and Schwarz, with sums of squares of columns, margins' errors, slopes
            square = objective.C * self.loss.smoothness
            spread = rounding.margin_errors(point.w, squares, objective.total_weight)
            slope = math.sqrt(2.0 * square * max(value, 0.0))
            share = min(1.0, RANDOM_SIGNS / math.sqrt(rounding.terms)) * rounding.terms * UNIT
            each = square * spread + share * slope
            if centred:
                means = rounding.means
                assert means is not None
                apart = apart_from_means(rounding, objective.total_weight)
                sizes = np.sqrt(squares) + math.sqrt(objective.total_weight) * np.abs(means)
                off = np.minimum(off, square * spread * np.sqrt(apart) + share * slope * sizes)
            else:
                off = np.minimum(off, each * np.sqrt(squares))
            constant = min(constant, each * math.sqrt(objective.total_weight))
        if error.penalty > 0.0:
            # each entry of the penalty's gradient has errors of its own, if no others are in it
            own = np.full(d, error.penalty)
            if self.penalty.quadratic.is_diagonal:
                pull = self.penalty.quadratic.diagonal(d) * np.abs(point.w[:d])
                own = np.minimum(own, FEW * UNIT * pull)
            off = off + own
        return *self.free.errors(point, given, off, constant), of_value

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors. Cost: 2 or 3 passes."""
        objective = self.objective
        if not objective.rounding.is_surveyed:
            super().survey()
        objective.rounding.measure(objective.ask)

    def with_near_constants(self, point: Point) -> Point:
        """Bound how far a point's constants are from the best ones, if rows may say so."""
        return super().with_near_constants(point) if self.free.can_ask(point) else point

    def of_whole(self, found: Point, point: Point, part: Restriction) -> Point:
        """Return a point of all features with what is known of it as one of some features."""
        return self.free.of_whole(found, point, part)
