"""Bounds by the tangent for softmax losses, whose intercepts and free features are many."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daskglm.certificates.hessian_factor import GradientError, HessianFactor
from daskglm.certificates.rounding import EXACT, HIDDEN, Ball
from daskglm.certificates.softmax_rounding import DISTANCE, EXCESS, NEAR, OutputRounding
from daskglm.certificates.tangent import ByTangent

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.restriction import Restriction
    from daskglm.objectives.softmax import Softmax

# Error of a margin, times the loss's self-concordance, up to which curvatures there are those at
# the exact margin but for a share of twice as much. Chosen.
STEADY = 1e-3


class SoftmaxByTangent(ByTangent):
    """Bounds on points of an objective of several classes with any penalty."""

    @property
    def margins(self) -> Softmax:
        """Those of the objective."""
        found: Any = self.objective.margins
        return found

    @property
    def rounding(self) -> OutputRounding:
        """Bounds on the rounding errors of the objective's sums."""
        found: Any = self.objective.rounding
        return found

    def unheld_features(self, point: Point) -> int:
        """Return the number of features that only `unheld.can_settle` would bound: none."""
        return 0

    @property
    def wants_hessian(self) -> bool:
        """Whether there are coefficients that only a Hessian of all can bound: of features."""
        return self.margins.features_unheld > 0

    @property
    def has_unheld(self) -> bool:
        """Whether there are coefficients that nothing holds."""
        return len(self.margins.unheld) > 0

    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; see `ByTangent.of`.

        Of features that nothing holds points may be known without a Hessian: see `of_whole`.
        """
        return min(point.free_bound, point.value, point.excess)

    def by_tangent(self, point: Point, error: GradientError) -> float:
        """Bound the distance of a point's value from the optimum by its tangent.

        Where the Hessian is known it says how near coefficients that nothing holds are to the best
        ones.
        """
        bound = super().by_tangent(point, error)
        near = self._nearness(point, error)
        if not near < point.near:
            return bound
        return min(bound, super().by_tangent(replace(point, near=near), error))

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds.

        It does if exact arithmetic would prove it, or a quarter of the bound. Cost: nothing; 1
        round without a Hessian.
        """
        if self.rounding.squares is not None:
            return False
        wanted, known = tol * point.value, point.hessian is not None
        nominal = self.nominal(point if known else replace(point, near=0.0))
        if not (known or nominal <= wanted):
            return False
        bound = self.of(self.with_near_intercept(point))
        return bound > wanted and nominal <= max(wanted, HIDDEN * bound)

    def with_near_intercept(self, point: Point) -> Point:
        """Bound how far a point's intercepts are from the best ones, if the Hessian is not known.

        Cost: 0 passes, 1 round; nothing where it is, where there are none, and where features, too,
        are held by nothing.
        """
        looks = (
            self.objective.fit_intercept
            and point.hessian is None
            and not self.margins.features_unheld
        )
        return super().with_near_intercept(point) if looks else point

    def errors(
        self, point: Point, error: GradientError, value: float
    ) -> tuple[np.ndarray, float, float]:
        """Bound errors as `ByTangent.errors`, with a Hessian by the curvatures that rows have.

        A margin that is off by e changes the slopes of its row by D e, D the row's curvatures: with
        T the sum of the traces of all D, entry j of the gradient by sqrt(H_jj T) e at most.
        """
        off, constant, of_value = super().errors(point, error, value)
        rounding, d = self.rounding, self.objective.n_features
        known = self.objective.fit_intercept and self.margins.is_full
        if error is EXACT or point.hessian is None or not known:
            return off, constant, of_value
        margin = rounding.margin_error(point.w)
        if not self.loss.self_concordance * margin <= STEADY:
            return off, constant, of_value
        error = rounding.of_random_signs(error)
        diagonal = np.maximum(point.hessian.diagonal(), 0.0)
        trace = (1.0 + 4.0 * STEADY) * float(diagonal[d:].sum())
        moved = margin * np.sqrt((1.0 + 4.0 * STEADY) * diagonal[:d] * trace)
        off = np.minimum(off, moved + error.adding * rounding.columns + error.penalty)
        return off, min(constant, margin * trace + error.adding), of_value

    def _nearness(self, point: Point, error: GradientError) -> float:
        """Bound the Newton decrement of the coefficients that nothing holds.

        It is infinite where it is not small, and where the Hessian is not known.
        """
        objective, unheld = self.objective, self.margins.unheld
        if point.hessian is None or not self.has_unheld:
            return math.inf
        features, rounding = self.margins.features_unheld, self.rounding
        # their part of the Hessian, in which the others are as they are
        block = point.hessian[np.ix_(unheld, unheld)]
        factor = HessianFactor.of(block, rounding.gram(exact=point.exact))
        off, constant, _ = self.errors(point, error, point.value)
        off = np.append(off[unheld[:features]], np.full(len(block) - features, constant))
        decrement = factor.decrement(point.gradient[unheld]) + float(factor.roots @ off)
        if not math.isfinite(decrement):
            return math.inf
        # largest change of a row's margins by a step of norm one
        columns = np.ones(len(block))
        largest = np.broadcast_to(rounding.columns, objective.n_features)
        columns[:features] = largest[unheld[:features]]
        each = (columns * factor.roots).reshape(-1, self.margins.sets).sum(axis=0)
        reach = math.hypot(rounding.radius if features else 0.0, objective.fit_intercept)
        reach = min(reach * factor.root_trace, float(np.linalg.norm(each)))
        return decrement if self.loss.self_concordance * reach * decrement <= NEAR else math.inf

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the best intercepts; as they are, if others are free.

        Cost: 1 pass, some rounds.
        """
        return point if self.margins.features_unheld else super().with_best_intercept(point)

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what coefficients that nothing holds add to the tangent; see `ByTangent._settled`.

        Near their best values it is as if they were there.
        """
        objective, rounding = self.objective, self.rounding
        if math.isfinite(point.near):
            squares = rounding.squares
            if squares is None:
                columns = rounding.columns * np.ones(len(off))
                squares = objective.total_weight * columns**2
            moved = (
                DISTANCE * point.near * np.sqrt(objective.scale * self.loss.smoothness * squares)
            )
            gradient, off = gradient.copy(), off + moved
            features = self.margins.unheld[: self.margins.features_unheld]
            gradient[features] = off[features] = 0.0
            return gradient, off, EXCESS * point.near**2
        if not objective.fit_intercept:
            return gradient, off, 0.0
        ball = Ball(None, rounding.radius)
        fixed, rate = rounding.intercepts(point.w, point.gradient, constant, ball)
        loose = fixed + rate * self._largest_norm(point.value) if rate > 0.0 else fixed
        return gradient, off, loose if math.isfinite(loose) else math.inf

    def of_whole(self, found: Point, point: Point, part: Restriction) -> Point:
        """Return a point of all features with what is known of it as one of some features.

        Features that nothing holds are all here, and as near to their best values there.
        """
        self.objective.rounding = part.whole.rounding.restricted(part.columns)
        near = math.inf
        if self.margins.features_unheld:
            near = self._nearness(point, point.error)
        return replace(found, near=near)
