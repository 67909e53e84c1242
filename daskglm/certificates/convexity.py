"""Bounds by strong convexity and by the Hessian, for smooth penalties of one strength, or none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates.bounds import Bounds, Certify
from daskglm.certificates.certificate import Certificate
from daskglm.certificates.rounding import EXACT, HIDDEN

if TYPE_CHECKING:
    from daskglm.objectives.point import Point

# Share of the value of least squares without a penalty that rounding may hide for a bound to count:
# targets that are fitted to nearly all digits have none. Chosen.
MOST_HIDDEN = 1e-9


class ByConvexity(Bounds):
    """Bounds on points of an objective whose penalty is a ridge of one strength, or nothing."""

    @property
    def proves(self) -> bool:
        """Whether points can be bounded: of families and least squares even without a penalty."""
        objective = self.objective
        can = objective.is_penalised or objective.can_go_without
        return self.loss.is_bounded and can

    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve; see `Certificate`."""
        return Certificate(self, tol)

    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        That is so without a penalty, but for families and least squares at points with a Hessian,
        and for losses of which too little is known (see `Loss.is_bounded`); those that have a
        `Loss.local_rate` are bounded at points by `with_rates`. The least of three bounds, all of
        which allow for rounding in the gradient and the Hessian (see `rounding`): by strong
        convexity, by the Hessian where it is known, and the value itself, since losses are not
        negative. Cost: nothing.
        """
        objective = self.objective
        if not (self.proves or self.is_local):
            return math.nan
        if self.is_local or not objective.is_penalised:
            return math.nan if self._is_exact_fit(point) else self._by_rates(point)
        convex = self.rounding.convex(
            *point.vectors, point.value, point.error, objective.intercept_radius, point.near
        )
        return min(convex, point.value, point.excess)

    def _is_exact_fit(self, point: Point) -> bool:
        """Return whether rounding hides how well least squares without a penalty fit a point."""
        objective = self.objective
        if not self.loss.is_quadratic or objective.is_penalised or point.hessian is None:
            return False
        hidden = self._by_rounding(point)
        return self.rounding.is_surveyed and not hidden <= MOST_HIDDEN * point.value

    def _by_rounding(self, point: Point) -> float:
        """Return the bound by the Hessian if the computed gradient were zero."""
        nothing = np.zeros(self.objective.size)
        return self.rounding.by_hessian(point.factor, nothing, point.error)

    def nominal(self, point: Point) -> float:
        """Bound by strong convexity as if arithmetic were exact: it steers, and proves nothing.

        Cost: nothing.
        """
        objective = self.objective
        return self.rounding.convex(
            *point.vectors, point.value, EXACT, objective.intercept_radius, point.near
        )

    def of_features(self, point: Point) -> float:
        """Return the features' part of the bound by strong convexity: |g_w|^2 / (2 mu).

        Of losses of which too little is known for a bound, it is an estimate.
        """
        objective = self.objective
        if not objective.is_penalised:
            return math.nan
        error = point.error if self.loss.is_bounded else EXACT
        norm = self.rounding.features(point.vectors[1], error)
        return norm * norm / (2.0 * self.penalty.quadratic.strong_convexity)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        objective, wanted = self.objective, tol * point.value
        if self.is_local:
            return self._hides_rates(point, wanted)
        if self.loss.is_quadratic and not objective.is_penalised and point.hessian is not None:
            surveyed = self.rounding.is_surveyed
            return not surveyed and self._by_rounding(point) > HIDDEN * wanted
        if not (objective.is_penalised and self.loss.is_bounded):
            return False
        return self.rounding.hides(
            wanted, point.w, point.value, point.error, objective.intercept_radius, point.near
        )
