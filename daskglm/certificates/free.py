"""What points say of the coefficients that neither a penalty nor bounds hold.

How near those are to the best ones is told by the rows, by the Hessian, or by each evaluation: that
depends on the margins, which choose one of these for bounds by the tangent. Proofs are in
`docs/certificates.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from daskglm.certificates.constants import NEAR
from daskglm.certificates.hessian_factor import GradientError, HessianFactor
from daskglm.certificates.rounding import EXACT, HIDDEN

if TYPE_CHECKING:
    from daskglm.certificates.tangent import ByTangent
    from daskglm.objectives.point import Point
    from daskglm.objectives.restriction import Restriction
    from daskglm.objectives.softmax import Softmax

# Gradient by the features, bounds on its errors, and by how much the tangent may lie lower.
Settled = tuple[np.ndarray, np.ndarray, float]

# Error of a margin, times the loss's self-concordance, up to which curvatures there are those at
# the exact margin but for a share of twice as much. Chosen.
STEADY = 1e-3


class Free:
    """Free coefficients of ordered classes: each point knows how near its thresholds are.

    Features that nothing holds are bounded by the Hessian of all alone.

    Parameters
    ----------
    bounds : ByTangent
        Of one objective.
    """

    # whether the bound by the tangent waits until that by the Hessian proves nothing: that one is
    # of second order, and the other lags behind it
    waits: ClassVar[bool] = False

    def __init__(self, bounds: ByTangent) -> None:
        self.bounds, self.objective, self.loss = bounds, bounds.objective, bounds.loss

    @property
    def wants_hessian(self) -> bool:
        """Whether there are coefficients that only a Hessian of all can bound."""
        return not self.objective.penalty.is_held

    def may_prove(self, point: Point) -> bool:
        """Return whether a Hessian may still bound a point, of which it proves nothing so far."""
        return False

    def can_ask(self, point: Point) -> bool:
        """Return whether the rows may say how near constants are to the best ones."""
        return False

    def is_unknown(self, point: Point) -> bool:
        """Return whether there are features of whose Hessian nothing is known yet."""
        return False

    def hides(self, point: Point, wanted: float) -> bool:
        """Return whether a bound is above `wanted`, and a survey may lower it, for rounding alone.

        What thresholds add is by curvatures, which a survey lowers, too.
        """
        return self._exact(self.at_best(point)) <= wanted

    def at_best(self, point: Point) -> Point:
        """Return the point as if all that nothing holds, constants too, were the best there is.

        Where there is nothing of that kind it is the same point, whose bounds are known.
        """
        held = self.objective.size == self.objective.n_features and self.objective.penalty.is_held
        return point if held else point.with_near(0.0)

    def _exact(self, point: Point) -> float:
        """Return the bound of exact arithmetic."""
        nominal = point.nominal_bound
        if point.hessian is None:
            return nominal
        by_hessian = self.bounds.rounding.by_hessian
        return min(nominal, by_hessian(point.factor, point.residual, EXACT, at=point.w))

    def errors(
        self, point: Point, error: GradientError, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, float]:
        """Return better bounds on the gradient's errors, if any: `off` and `constant` are known."""
        return off, constant

    def nearness(self, point: Point, error: GradientError) -> float:
        """Bound how near they are to the best ones as `Point.near` does, by the Hessian."""
        return math.inf

    def settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> Settled | None:
        """Return the tangent as if they were the best ones, but for constants; None: not known.

        Arguments and what is returned are those of `ByTangent._settled`.
        """
        return None

    def of_whole(self, found: Point, point: Point, part: Restriction) -> Point:
        """Return a point of all features with what is known of it as one of some features."""
        return found


class FreeOutputs(Free):
    """Free coefficients of several classes: all in one block of the Hessian, where it is known."""

    @property
    def margins(self) -> Softmax:
        """Those of the objective."""
        found: Any = self.objective.margins
        return found

    @property
    def wants_hessian(self) -> bool:
        """Whether there are features among them, which only a Hessian of all can bound."""
        return self.margins.free_features > 0

    def may_prove(self, point: Point) -> bool:
        """Return True: of features points may be known without a Hessian, see `of_whole`."""
        return True

    def can_ask(self, point: Point) -> bool:
        """Return whether rows may say how near intercepts are: where the Hessian does not."""
        alone = self.objective.fit_intercept and not self.margins.free_features
        return alone and point.hessian is None

    def hides(self, point: Point, wanted: float) -> bool:
        """Return whether a bound is above `wanted`, and a survey may lower it, for rounding.

        So it is if exact arithmetic would prove it, or a quarter of the bound. Cost: nothing; 1
        round without a Hessian.
        """
        bounds, known = self.bounds, point.hessian is not None
        nominal = bounds.nominal(point if known else point.with_near(0.0))
        if not (known or nominal <= wanted):
            return False
        bound = bounds.of(bounds.with_near_constants(point))
        return bound > wanted and nominal <= max(wanted, HIDDEN * bound)

    def errors(
        self, point: Point, error: GradientError, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, float]:
        """Bound errors by the curvatures that rows have, where the Hessian is known.

        A margin that is off by e changes the slopes of its row by D e, D the row's curvatures: with
        T the sum of the traces of all D, entry j of the gradient by sqrt(H_jj T) e at most.
        """
        rounding, d = self.bounds.rounding, self.objective.n_features
        if point.hessian is None or not (self.objective.fit_intercept and self.margins.is_full):
            return off, constant
        margin = rounding.margin_error(point.w)
        if not self.loss.self_concordance * margin <= STEADY:
            return off, constant
        error = rounding.of_random_signs(error)
        diagonal = np.maximum(point.hessian.diagonal(), 0.0)
        trace = (1.0 + 4.0 * STEADY) * float(diagonal[d:].sum())
        moved = margin * np.sqrt((1.0 + 4.0 * STEADY) * diagonal[:d] * trace)
        off = np.minimum(off, moved + error.adding * rounding.columns + error.penalty)
        return off, min(constant, margin * trace + error.adding)

    def nearness(self, point: Point, error: GradientError) -> float:
        """Bound their Newton decrement; infinite where it is not small, or has no Hessian."""
        free, rounding = self.margins.free_entries, self.bounds.rounding
        if point.hessian is None or not len(free):
            return math.inf
        features = self.margins.free_features
        # their part of the Hessian, in which the others are as they are
        block = point.hessian[np.ix_(free, free)]
        factor = HessianFactor.of(block, rounding.gram(exact=point.exact))
        off, constant, _ = self.bounds.errors(point, error, point.value)
        off = np.append(off[free[:features]], np.full(len(block) - features, constant))
        decrement = factor.decrement(point.gradient[free]) + float(factor.roots @ off)
        if not math.isfinite(decrement):
            return math.inf
        # largest change of a row's margins by a step of norm one
        columns = np.ones(len(block))
        columns[:features] = rounding.largest[free[:features]]
        each = (columns * factor.roots).reshape(-1, self.margins.sets).sum(axis=0)
        reach = math.hypot(rounding.radius if features else 0.0, self.objective.fit_intercept)
        reach = min(reach * factor.root_trace, float(np.linalg.norm(each)))
        return decrement if self.loss.self_concordance * reach * decrement <= NEAR else math.inf

    def settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> Settled | None:
        """Return the tangent as if all were the best ones, where points say how near those are."""
        features = self.margins.free_entries[: self.margins.free_features]
        if not (math.isfinite(point.near) and len(features)):
            return None
        gradient, off, loose = self.bounds.at_best_constants(point, gradient, off, constant)
        gradient[features] = off[features] = 0.0
        return gradient, off, loose

    def of_whole(self, found: Point, point: Point, part: Restriction) -> Point:
        """Return a point of all features with what is known of it as one of some features.

        Features that nothing holds are all here, and as near to their best values there.
        """
        self.objective.rounding = part.whole.rounding.restricted(part.columns)
        return replace(
            found, near=self.nearness(point, point.error) if self.wants_hessian else math.inf
        )
