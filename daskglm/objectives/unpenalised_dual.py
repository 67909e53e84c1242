"""Dual variables without a penalty: a linear program, bounded from below where they are feasible.

Losses with corners whose conjugate is linear but for a kink, as a quantile's, make a linear
program:

    min sum_i s_i loss(y_i, x_i.w + b) = max -sum_i s_i loss*(-a_i),  X'S a = 0,  a in a box.

The slopes of a smoothed loss at its minimiser are feasible but for a small X'S a, and
`dual_correction` bounds what a point loses by that.
"""

from __future__ import annotations

import math

import numpy as np

from daskglm.certificates.hessian_factor import UNIT
from daskglm.core.device import to_host
from daskglm.core.requests import DualValue, SDCAConfig
from daskglm.objectives.dual import Dual
from daskglm.objectives.dual_correction import DualCorrection
from daskglm.objectives.dual_penalty import DualPenalty
from daskglm.objectives.point import NO_GRADIENT, Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.proximal_step import box_of

# Changes of dual variables, as shares of the box, from which columns are measured. Chosen.
TELLING = 1e-9


class UnpenalisedDual(Dual):
    """Dual variables that proximal points adopt, of an objective without a penalty.

    Attributes
    ----------
    correction : DualCorrection
        By all columns.
    """

    def __init__(self, objective: Objective, w: np.ndarray, plan: SDCAConfig, seed: int) -> None:
        """Add up the Gram. Cost: 1 pass."""
        super().__init__(objective, w, plan, seed)
        self.correction = DualCorrection(objective, np.arange(objective.size))

    @staticmethod
    def _penalty_of(objective: Objective) -> DualPenalty:
        """Return one of strength one, whose v is X'S a; ValueError for an objective with any."""
        if objective.penalty.quadratic.largest != 0.0 or not objective.penalty.is_plain:
            raise ValueError("this dual wants no penalty")
        return DualPenalty(1.0, 0.0)

    def certified_point(self, w: np.ndarray | None = None) -> Point:
        """Evaluate w with the dual variables that `adopt` took there; return the best point so far.

        Without w the value itself is the gap, since no dual is below zero. Cost: a few rounds.
        """
        objective, d = self.objective, self.objective.n_features
        if w is None:
            return self.kept_point()
        assert self.adopted is not None
        # margins are kept without the intercept
        features = np.append(w[:d], w[d:] * 0.0)
        margins = Point(objective, features, math.nan, NO_GRADIENT, self.adopted[1])
        intercept = float(w[-1]) if objective.fit_intercept else 0.0
        value = float(objective.along((margins,), np.array([[1.0, intercept]]))[0][0])
        dual = self._lower_bound(w, value)
        self.met, self.reached = value - dual, dual
        self.lower = max(self.lower, dual)
        if value <= self.value:
            self.kept, self.value = w, value
        gap = max(self.value - self.lower, 0.0) + self._rounding()
        return Point(objective, self.kept, self.value, NO_GRADIENT, -1, gap=gap)

    def left_open(self, inner: Point) -> float:
        """Foresee how much of the gap the gradient that a proximal step has left will make.

        Infinite where the Gram is singular. Cost: nothing.
        """
        change = self.correction.change(to_host(inner.gradient), 0.0)[0]
        if not math.isfinite(change):
            return math.inf
        return self.correction.lost(change, inner.value) + change * inner.value

    def is_lost(self, inner: Point, gap: float) -> bool:
        """Return whether a proximal step has left more of a gradient than the gap allows.

        Cost: nothing.
        """
        return not self.left_open(inner) <= gap

    def _lower_bound(self, w: np.ndarray, value: float) -> float:
        """Return a dual value that is reached near the dual variables; -inf if none is known."""
        objective = self.objective
        left = np.array(to_host(self.v), dtype=np.float64)
        if objective.fit_intercept:
            left[-1] /= self.bias
        left = left[: objective.size]
        # dual variables are exact; their sums are rounded, as in `Rounding.gap`
        rounded = 8.0 * math.sqrt(objective.rounding.in_turn) * UNIT * self._size()
        change = self.correction.change(left, rounded)[0]
        if change > TELLING and not objective.rounding.is_surveyed:
            objective.bounds.survey()
            change = self.correction.change(left, rounded)[0]
        if not math.isfinite(change):
            return -math.inf
        dual = -float(self._ask(DualValue(self._state()))["value"]) - float(left @ to_host(w))
        return (dual - self.correction.lost(change, value)) / (1.0 + change)

    def _size(self) -> float:
        """Bound the weighted sum of the dual variables' sizes."""
        low, high = box_of(self.objective.loss)
        most = self.objective.total_weight * max(high, -low)
        if self.adopted is None or not self.objective.fit_intercept:
            return most
        # twice those above zero less all; a share covers the rounding of these sums
        positive = float(self.adopted[2]["side"][-1])
        return min(most, 1.01 * (2.0 * positive - float(self.v[-1]) / self.bias))
