"""Dual variables of a loss with corners and any penalty.

Conjugates that are linear but for a kink, as those of a quantile's loss and of the hinge, make

    min C sum_i s_i loss(y_i, x_i.w + b) + P(w)
        = max -C sum_i s_i loss*(-a_i) - P*(v),  v = C X'S a,  sum_i s_i a_i = 0,  a in a box

that contains zero. So dual variables may be scaled down, which multiplies the first term by the
same factor c: the largest bound over c in [0, 1] is taken, as of gradients of smooth losses in
`certificates.free_bound`. For an L1 penalty of strengths l_j, P* is zero where |v_j| <= l_j for all
j, and infinite elsewhere: a linear program.

Where nothing holds a feature, v_j has to be the slope of the penalty's tangent, or on one side of
it where there is a bound. `dual_correction` takes it there, and the intercept's sum to zero, for
losses of numbers: those of classes have zero at an end of their box.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.certificates.free_bound import Tangent, lower_bound
from daskglm.certificates.hessian_factor import UNIT
from daskglm.certificates.rounding import RANDOM_SIGNS
from daskglm.core.device import to_host
from daskglm.core.requests import DualValue, SDCAConfig
from daskglm.objectives.dual import Dual
from daskglm.objectives.dual_correction import DualCorrection
from daskglm.objectives.dual_penalty import DualPenalty, balanced
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.proximal_step import box_of
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.quadratic import Quadratic


@dataclass(frozen=True)
class AnyPenalty(DualPenalty):
    """A penalty of coefficients that are known beside the dual variables.

    Parameters
    ----------
    quadratic : Quadratic
    kinks : Kinks
        For vectors of features, without an intercept.
    """

    quadratic: Quadratic
    kinks: Kinks

    def value(self, w: Any) -> float:
        """Return the penalty of the coefficients (d,) of features."""
        return self.quadratic.value(w) + self.kinks.value(w)


class CornerDual(Dual):
    """Dual variables that proximal points adopt, of an objective with kinks, bounds or factors.

    Attributes
    ----------
    correction : DualCorrection or None
        By the columns of the features that nothing holds, if there are any, and the intercept.
    """

    objective: Objective
    penalty: AnyPenalty

    def __init__(self, objective: Objective, w: np.ndarray, plan: SDCAConfig, seed: int) -> None:
        """Add up a Gram where there is a feature that nothing holds. Cost: 1 pass then."""
        super().__init__(objective, w, plan, seed)
        free = np.flatnonzero(objective.penalty.may_be_unheld)
        entries = np.append(free, np.arange(objective.n_features, objective.size))
        self.correction = DualCorrection(objective, entries) if len(free) else None

    @staticmethod
    def _penalty_of(objective: Objective) -> AnyPenalty:
        """Return the penalty; ValueError for classes with a feature that nothing holds."""
        if objective.loss.classifies and not objective.penalty.is_held:
            raise ValueError("this dual wants a penalty of all features, or bounds on both sides")
        return AnyPenalty(1.0, 0.0, objective.penalty.quadratic, objective.penalty.feature_kinks)

    def left_open(self, inner: Point) -> float:
        """Foresee how much of the gap the gradient that a proximal step has left will make.

        What balancing costs is the share of the dual variables that their sum is. Cost: nothing.
        """
        d, kinks = self.objective.n_features, self.penalty.kinks
        curvature = self.objective.penalty.counted_curvature
        w, gradient = inner.w[:d], np.array(inner.gradient)
        smooth = inner.value - kinks.value(w) - 0.5 * float(curvature @ w**2)
        gradient[:d] -= curvature * w
        if self.correction is None:
            sum_left = float(np.abs(gradient[d:]).sum())
            lost = inner.value * sum_left / (self._mass * min(self._ends))
        else:
            left = self._violation(gradient)
            gradient[self.correction.entries] -= left
            change = self.correction.change(left / self.objective.scale, 0.0)[0]
            lost = change * inner.value + self._cost(change, inner.value)
        if not math.isfinite(lost):
            return math.inf
        tangent = Tangent(smooth, gradient[:d], w, curvature, False, 0.0, np.zeros(d))
        return inner.value - lower_bound(tangent, kinks) + lost

    def is_lost(self, inner: Point, gap: float) -> bool:
        """Return whether a proximal step has left more of a gradient than the gap allows.

        Cost: nothing.
        """
        return not self.left_open(inner) <= gap

    def _value(self, own: np.ndarray, side: np.ndarray, at: np.ndarray, primal: float) -> float:
        """Return the dual value, where the dual variables are made feasible.

        Of a quadratic penalty, what conjugates of single features cannot take is a tangent.
        """
        objective, d = self.objective, self.objective.n_features
        changed: dict[str, float] = {}
        if objective.fit_intercept and self.correction is None:
            own, changed = balanced(own, side, self.bias)
        request: Any = DualValue(self._state(), **changed)
        value = -objective.scale * float(self._ask(request)["value"])
        sums = np.array(to_host(own), dtype=np.float64)

        w, curvature = at[:d], objective.penalty.counted_curvature
        pull = objective.penalty.quadratic.hessian_vector(w) - curvature * w
        error = self._rounded * objective.rounding.columns + np.full(d, self._pull_error(w))
        value -= 0.5 * float(w @ pull)
        tangent = Tangent(value, pull - sums[:d], np.zeros(d), curvature, False, 0.0, error)
        if self.correction is None:
            return lower_bound(tangent, self.penalty.kinks)
        constant = -sums[d : objective.size] / (self.bias or 1.0)
        return self._corrected(self.correction, tangent, constant, at, primal)

    def _corrected(
        self,
        correction: DualCorrection,
        tangent: Tangent,
        constant: np.ndarray,
        at: np.ndarray,
        primal: float,
    ) -> float:
        """Return the dual value of variables that are feasible where nothing holds a feature.

        `constant` is the tangent's slope by the intercept, (1,) or empty; `at` and `primal` are
        those of `_value`.
        """
        objective, kinks, scale = self.objective, self.penalty.kinks, self.objective.scale
        d, entries, free = objective.n_features, correction.entries, correction.features
        gradient = np.append(tangent.gradient, constant)
        left = self._violation(gradient)
        beside = math.sqrt(len(free)) * self._pull_error(at[:d]) / scale
        change, unknown = correction.change(left / scale, self._rounded / scale, beside)
        if not math.isfinite(change):
            return 0.0
        moved = scale * (correction.gram[:, entries] @ correction.step(left / scale))
        value = tangent.value + float(at @ moved) - self._cost(change, primal)
        right = gradient[free] - left[: len(free)]
        gradient = gradient[:d] - moved[:d]
        # changes of all dual variables by this much move sums over a column by at most
        error = tangent.error + self._mass * correction.least * unknown * objective.rounding.columns

        # where a bound is on one side, what is right may be off, and not by its sign
        ends = np.where(np.isfinite(kinks.lower), kinks.lower, kinks.upper)[free]
        loose = float(error[free] @ np.abs(np.where(np.isfinite(ends), ends, 0.0)))
        gradient[free], error[free] = right, 0.0
        share = 1.0 / (1.0 + change)
        return lower_bound(
            tangent._replace(
                value=share * value,
                gradient=share * gradient,
                loose=share * loose,
                error=share * error,
            ),
            kinks,
        )

    def _violation(self, gradient: np.ndarray) -> np.ndarray:
        """Return by how much the slopes of the correction's coefficients are not what they must be.

        On [l, inf) a linear function is bounded from below if it does not fall.
        """
        assert self.correction is not None
        entries, free = self.correction.entries, self.correction.features
        left = gradient[entries].copy()
        below = np.isfinite(self.penalty.kinks.lower[free])
        above = np.isfinite(self.penalty.kinks.upper[free])
        held = left[: len(free)]
        held[below] = np.minimum(held[below], 0.0)
        held[above] = np.maximum(held[above], 0.0)
        return left

    def _cost(self, change: float, primal: float) -> float:
        """Bound what a correction costs, at a value of the objective."""
        assert self.correction is not None
        scale = self.objective.scale
        return scale * self.correction.lost(change, primal / scale)

    @property
    def _rounded(self) -> float:
        """Bound the errors of sums over rows, as multiples of the columns' largest values.

        Roundings have independent signs, as in `Rounding.gap`.
        """
        size = self._mass * max(self._ends)
        return RANDOM_SIGNS * math.sqrt(self.objective.rounding.in_turn) * UNIT * size

    def _pull_error(self, w: np.ndarray) -> float:
        """Bound the error of each entry of the quadratic penalty's tangent."""
        penalty = self.objective.penalty.quadratic
        if penalty.is_diagonal and not self.penalty.kinks.groups:
            return 0.0
        norm = penalty.largest * float(np.linalg.norm(w))
        return RANDOM_SIGNS * math.sqrt(len(w)) * UNIT * norm

    @property
    def _mass(self) -> float:
        """The sum of the weights of all losses."""
        return self.objective.scale * self.objective.total_weight

    @property
    def _ends(self) -> list[float]:
        """Sizes of the ends of the dual variables' box, but for zero, as is one end of hinges."""
        loss = self.objective.loss
        return [1.0] if loss.classifies else [abs(end) for end in box_of(loss)]
