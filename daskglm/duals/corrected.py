"""Dual variables of a loss with corners and any penalty, or none.

Conjugates that are linear but for a kink, as those of a quantile's loss and of the hinge, make

    min C sum_i s_i loss(y_i, x_i.w + b) + P(w)
        = max -C sum_i s_i loss*(-a_i) - P*(v),  v = C X'S a,  sum_i s_i a_i = 0,  a in a box

that contains zero. So dual variables may be scaled down, which multiplies the first term by the
same factor c: the largest bound over c in [0, 1] is taken, as of gradients of smooth losses in
`certificates.lower_bound`. For an L1 penalty of strengths l_j, P* is zero where |v_j| <= l_j for
all j, and infinite elsewhere: a linear program.

Where nothing holds a feature, v_j has to be the slope of the penalty's tangent, or on one side of
it where there is a bound. `correction` takes it there, and the intercept's sum to zero, for
losses of numbers: those of classes have zero at an end of their box. Without a penalty that is all
there is to do: the slopes of a smoothed loss at its minimiser are feasible but for a small X'S a.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskglm.certificates.hessian_factor import UNIT
from daskglm.certificates.lower_bound import Tangent, lower_bound
from daskglm.certificates.rounding import RANDOM_SIGNS
from daskglm.core.device import to_host
from daskglm.duals.correction import Correction, ends_of
from daskglm.duals.penalty import DualPenalty, Sums
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Changes of dual variables, as shares of the box, from which columns are measured. Chosen.
TELLING = 1e-9
# Mean loss, as a share of the largest target, below which no corner is rounded over less. Chosen.
SMALLEST = 1e-12


class Corrected:
    """What dual variables prove of an objective with kinks, bounds or factors, or no penalty.

    It takes the place of a `DualPenalty` there.

    Parameters
    ----------
    objective : Objective
        ValueError for classes with a feature that nothing holds.

    Attributes
    ----------
    correction : Correction or None
        By the columns of the features that nothing holds and the intercept, if there are any of
        the former, or there is no penalty.
    keeps_points : bool
        Whether there is no penalty. Then values are proved at points as they are, and the columns
        are measured where changes of dual variables are large, not where rounding hides a gap.
    """

    penalty = DualPenalty(1.0, 0.0)  # so that v is C X'S a

    def __init__(self, objective: Objective) -> None:
        """Add up a Gram where there is a `correction`. Cost: 1 pass then."""
        if objective.loss.classifies and not objective.penalty.is_held:
            raise ValueError("this dual wants a penalty of all features, or bounds on both sides")
        free = np.flatnonzero(objective.penalty.may_be_free)
        entries = np.append(free, np.arange(objective.n_features, objective.size))
        self.objective = objective
        self.kinks = objective.penalty.feature_kinks
        self.keeps_points = not (objective.is_penalised or objective.bounds.any_penalty)
        corrects = self.keeps_points or len(free) > 0
        self.correction = Correction(objective, entries) if corrects else None
        self.balances = self.correction is None
        # the sums of the losses' weights and, at most, of the dual variables' sizes
        self.mass = objective.C * objective.total_weight
        self.most = self.mass * max(ends_of(objective.loss))

    def value(self, w: Any) -> float:
        """Return the penalty of the coefficients (d,) of features."""
        return self.objective.penalty.quadratic.value(w) + self.value_of_kinks(w)

    def value_of_kinks(self, w: Any) -> float:
        """Return the part of that which has kinks."""
        return self.kinks.value(w)

    def left_open(self, inner: Point) -> float:
        """Return what the tangent leaves open, and what makes the dual variables feasible costs.

        What balancing costs is the share of the dual variables that their sum is.
        """
        objective, d = self.objective, self.objective.n_features
        curvature = objective.penalty.counted_curvature
        w, gradient = to_host(inner.w)[:d], np.array(to_host(inner.gradient))
        smooth = inner.value - self.kinks.value(w)
        if objective.penalty.has_counted_curvature:
            smooth -= 0.5 * float(curvature @ w**2)
            gradient[:d] -= curvature * w
        if self.correction is None:
            sum_left = float(np.abs(gradient[d:]).sum())
            gradient[:d] = objective.bounds.centred(gradient)  # balanced ones have a sum of zero
            lost = inner.value * sum_left / (self.mass * min(ends_of(objective.loss)))
        else:
            left = self._violation(self.correction, gradient)
            gradient[self.correction.entries] -= left
            lost = self.correction.cost(left, inner.value)
        if not math.isfinite(lost):
            return math.inf
        tangent = Tangent(smooth, gradient[:d], w, curvature, False, 0.0, np.zeros(d))
        return inner.value - lower_bound(tangent, self.kinks) + lost

    def is_lost(self, inner: Point, gap: float) -> bool:
        """Return whether that is more than the gap."""
        return not self.left_open(inner) <= gap

    def proved(self, sums: Sums, w: Any, primal: float) -> float:
        """Return the dual value, where the dual variables are made feasible.

        Of a quadratic penalty, what conjugates of single features cannot take is a tangent. `w`
        (size,) are the coefficients that were evaluated, `primal` is the value there. Cost: 1
        round.
        """
        if self.keeps_points:
            return self._of_program(sums, w, primal)
        objective, d = self.objective, self.objective.n_features
        own, value = sums.balanced() if self.balances else (sums.own, sums.losses())
        own = np.array(to_host(own), dtype=np.float64)

        at, curvature = w[:d], objective.penalty.counted_curvature
        pull = objective.penalty.quadratic.hessian_vector(at) - curvature * at
        error = self._rounded(self.most) * objective.rounding.columns
        error = error + np.full(d, self._pull_error(at))
        value -= 0.5 * float(at @ pull)
        tangent = Tangent(value, pull - own[:d], np.zeros(d), curvature, False, 0.0, error)
        if self.correction is None:
            return lower_bound(tangent, self.kinks)
        constant = -own[d : objective.size] / (sums.bias or 1.0)
        return self._corrected(self.correction, tangent, constant, w, primal)

    def _corrected(
        self,
        correction: Correction,
        tangent: Tangent,
        constant: np.ndarray,
        w: np.ndarray,
        primal: float,
    ) -> float:
        """Return the dual value of variables that are feasible where nothing holds a feature.

        `constant` is the tangent's slope by the intercept, (1,) or empty; `w` and `primal` are
        those of `proved`.
        """
        objective, kinks, scale = self.objective, self.kinks, self.objective.C
        d, entries, free = objective.n_features, correction.entries, correction.features
        gradient = np.append(tangent.gradient, constant)
        left = self._violation(correction, gradient)
        beside = math.sqrt(len(free)) * self._pull_error(w[:d]) / scale
        change, unknown = correction.change(left / scale, self._rounded(self.most) / scale, beside)
        if not math.isfinite(change):
            return 0.0
        moved = scale * (correction.gram[:, entries] @ correction.step(left / scale))
        value = tangent.value + float(w @ moved) - correction.lost(change, primal)
        right = gradient[free] - left[: len(free)]
        gradient = gradient[:d] - moved[:d]
        # changes of all dual variables by this much move sums over a column by at most
        error = tangent.error + self.mass * correction.least * unknown * objective.rounding.columns

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

    def _violation(self, correction: Correction, gradient: np.ndarray) -> np.ndarray:
        """Return by how much the slopes of the correction's coefficients are not what they must be.

        On [l, inf) a linear function is bounded from below if it does not fall.
        """
        left, free = gradient[correction.entries].copy(), correction.features
        below, above = np.isfinite(self.kinks.lower[free]), np.isfinite(self.kinks.upper[free])
        held = left[: len(free)]
        held[below] = np.minimum(held[below], 0.0)
        held[above] = np.maximum(held[above], 0.0)
        return left

    def _of_program(self, sums: Sums, w: Any, primal: float) -> float:
        """Return a dual value that is reached near the variables of a fit without a penalty.

        -inf if none is known.
        """
        objective, correction = self.objective, self.correction
        assert correction is not None
        left, size = np.array(to_host(sums.own), dtype=np.float64), self.most
        if sums.bias:
            left[-1] /= sums.bias
            # sizes are twice those above zero less all; a share covers the rounding of these sums
            size = min(size, 1.01 * (2.0 * float(sums.side[-1]) - float(left[-1])))
        left = left[: objective.size]
        # dual variables are exact, their sums are not
        change = correction.change(left, self._rounded(size))[0]
        if change > TELLING and not objective.rounding.is_surveyed:
            objective.bounds.survey()
            change = correction.change(left, self._rounded(size))[0]
        if not math.isfinite(change):
            return -math.inf
        dual = sums.losses() - float(left @ to_host(w))
        return (dual - correction.lost(change, primal)) / (1.0 + change)

    def _rounded(self, size: float) -> float:
        """Bound the errors of sums over rows, as multiples of the columns' largest values.

        Roundings have independent signs, as in `Rounding.gap`. `size` bounds the sum of the dual
        variables' sizes, times weights.
        """
        return RANDOM_SIGNS * math.sqrt(self.objective.rounding.in_turn) * UNIT * size

    def _pull_error(self, w: np.ndarray) -> float:
        """Bound the error of each entry of the quadratic penalty's tangent."""
        penalty = self.objective.penalty.quadratic
        if penalty.is_diagonal and not self.kinks.groups:
            return 0.0
        norm = penalty.largest * float(np.linalg.norm(w))
        return RANDOM_SIGNS * math.sqrt(len(w)) * UNIT * norm


def residual_unit(objective: Objective, value: float) -> float:
    """Return the size of residuals that widths are measured by, at a value of the objective.

    It is one for labels, the distance of a hinge's corner from zero. For numbers it is the mean
    loss, and more for slopes of unlike sizes, as of a quantile near one: the mean loss is small
    then beside residuals.
    """
    loss = objective.loss
    if loss.classifies:
        return 1.0
    largest = objective.engine.facts.largest_target
    mean = value / (objective.C * objective.total_weight)
    below, above = ends_of(loss)
    size = mean * (above + below) ** 2 / (4.0 * below * above)
    return min(max(size, SMALLEST * largest), largest) or 1.0
