"""Dual variables without a penalty: a linear program, bounded from below where they are feasible.

Losses with corners whose conjugate is linear but for a kink, as a quantile's, make a linear
program:

    min sum_i s_i loss(y_i, x_i.w + b) = max -sum_i s_i loss*(-a_i),  X'S a = 0,  a in a box.

The slopes of a smoothed loss at its minimiser are feasible but for a small g = X'S a. With the Gram
G = X'S X and G u = g, the variables a_i - x_i.u are feasible but for the box, which they leave by
at most m = max |x_i.u|; scaled down by 1 + m / h, h the box's least half, they are in it. So a
point is bounded by dual variables that are known to exist and never computed
(docs/certificates.md).
"""

from __future__ import annotations

import math

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import DualValue, Problem, SDCAConfig
from daskglm.losses.table import LOSSES
from daskglm.objectives.dual import Dual
from daskglm.objectives.dual_penalty import DualPenalty
from daskglm.objectives.hessian_factor import UNIT, GradientError, HessianFactor
from daskglm.objectives.point import NO_GRADIENT, Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.proximal_step import box_of

# Changes of dual variables, as shares of the box, from which columns are measured. Chosen.
TELLING = 1e-9


class UnpenalisedDual(Dual):
    """Dual variables that proximal points adopt, of an objective without a penalty.

    Attributes
    ----------
    gram : (size, size) array
        X'S X, with a column of ones for an intercept.
    """

    def __init__(self, objective: Objective, w: np.ndarray, plan: SDCAConfig, seed: int) -> None:
        """Add up the Gram. Cost: 1 pass."""
        super().__init__(objective, w, plan, seed)
        squared, problem = LOSSES["squared"], objective.problem
        squares = Objective(
            objective.engine,
            Problem(squared.ref, problem.positive, problem.class_weight),
            squared,
            C=math.inf,
            fit_intercept=objective.fit_intercept,
        )
        point = squares.at(objective.xp.zeros(objective.size), gram=True, keep=False, exact=True)
        objective.passes += squares.passes
        self.gram = np.asarray(to_host(point.gram))
        self.factor = HessianFactor.of(self.gram, squares.rounding.gram(exact=True))

    @staticmethod
    def _penalty_of(objective: Objective) -> DualPenalty:
        """Return one of strength one, whose v is X'S a; ValueError for an objective with any."""
        if objective.penalty.largest != 0.0 or objective.threshold != 0.0:
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
        change = self._change(to_host(inner.gradient), 0.0)
        if not math.isfinite(change):
            return math.inf
        return self._lost(change, inner.value) + change * inner.value

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
        change = self._change(left, rounded)
        if change > TELLING and not objective.rounding.is_surveyed:
            objective.survey()
            change = self._change(left, rounded)
        if not math.isfinite(change):
            return -math.inf
        dual = -float(self._ask(DualValue(self._state()))["value"]) - float(left @ to_host(w))
        return (dual - self._lost(change, value)) / (1.0 + change)

    def _size(self) -> float:
        """Bound the weighted sum of the dual variables' sizes."""
        low, high = box_of(self.objective.loss)
        most = self.objective.total_weight * max(high, -low)
        if self.adopted is None or not self.objective.fit_intercept:
            return most
        # twice those above zero less all; a share covers the rounding of these sums
        positive = float(self.adopted[2]["side"][-1])
        return min(most, 1.01 * (2.0 * positive - float(self.v[-1]) / self.bias))

    def _change(self, left: np.ndarray, rounded: float) -> float:
        """Bound the changes that make dual variables feasible, as shares of the box's least half.

        `left` is X'S a as computed, off by `rounded` times the largest value of the column. The
        changes are x_i.u for G u = left: at most the column's largest values times |u|, or the
        reach of a step of that size, whichever is less.
        """
        rounding, factor, d = self.objective.rounding, self.factor, self.objective.n_features
        error = factor.error(GradientError(0.0, 0.0, rounded, 0.0), d, rounding.columns)
        size = factor.decrement(left)
        if not math.isfinite(size + error):
            return math.inf
        largest = np.append(np.broadcast_to(rounding.columns, d), np.ones(len(left) - d))
        # the computed step is off by a share `doubt` of its size
        off = error + 2.0 * factor.doubt * size
        by_column = float(largest @ (np.abs(factor.step(left)[0]) + factor.roots * off))
        low, high = box_of(self.objective.loss)
        return min(by_column, rounding.reach(factor) * (size + error)) / min(-low, high)

    def _lost(self, change: float, value: float) -> float:
        """Bound what changes of that share cost, since they multiply residuals.

        Those are at most the losses over the least slope, and the reach of a kink at zero.
        """
        low, high = box_of(self.objective.loss)
        least = min(-low, high)
        kink = 2.0 * self._kink() * self.objective.total_weight
        return change * least * (value / least + kink)

    def _kink(self) -> float:
        """Return half the jump at zero of the conjugate's slope: residuals up to it are free."""
        loss = self.objective.loss
        assert loss.dual is not None
        return float(loss.dual.derivatives(0.0, 1e-300, loss.p1, 0.0)[1])
