"""Dual variables of a loss with corners and an L1 penalty: a linear program.

Conjugates that are linear but for a kink, as those of a quantile's loss and of the hinge, make

    min C sum_i s_i loss(y_i, x_i.w + b) + sum_j l_j |w_j|
        = max -C sum_i s_i loss*(-a_i),  |v_j| <= l_j,  v = C X'S a,  sum_i s_i a_i = 0,  a in a box

that contains zero. Dual variables are scaled down until they meet |v_j| <= l_j, which changes the
value by the same factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import DualValue
from daskglm.objectives.bounds import RANDOM_SIGNS
from daskglm.objectives.composite import Composite
from daskglm.objectives.dual import Dual
from daskglm.objectives.dual_penalty import DualPenalty, balanced
from daskglm.objectives.hessian_factor import UNIT
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.proximal_step import box_of


@dataclass(frozen=True)
class LassoPenalty(DualPenalty):
    """sum_j l_j |w_j|, whose dual variables have no coefficients of their own.

    Parameters
    ----------
    strengths : (d,) array
        l_j, all above zero.
    """

    strengths: np.ndarray

    def value(self, w: Any) -> float:
        """Return the penalty of the coefficients (d,) of features."""
        return float(self.strengths @ np.abs(to_host(w)))


class LassoDual(Dual):
    """Dual variables that proximal points adopt, of an objective with an L1 penalty alone."""

    objective: Composite
    penalty: LassoPenalty

    @staticmethod
    def _penalty_of(objective: Objective) -> LassoPenalty:
        """Return the penalty; ValueError for one that is not an L1 penalty of all features."""
        assert isinstance(objective, Composite)
        terms = objective.feature_terms
        held = bool((terms.strengths > 0.0).all()) and not (terms.is_bounded or terms.groups)
        if objective.penalty.largest != 0.0 or not held:
            raise ValueError("this dual wants an L1 penalty of all features, and no other")
        return LassoPenalty(1.0, 0.0, terms.strengths)

    def left_open(self, inner: Point) -> float:
        """Foresee how much of the gap the gradient that a proximal step has left will make.

        What balancing costs is the share of the dual variables that their sum is. Cost: nothing.
        """
        features: float = inner.objective.nominal_bound(replace(inner, near=0.0))
        if not self.objective.fit_intercept:
            return features
        sum_left = abs(float(inner.gradient[-1]))
        return features + inner.value * sum_left / (self._mass * min(self._ends))

    def is_lost(self, inner: Point, gap: float) -> bool:
        """Return whether a proximal step has left more of a gradient than the gap allows.

        Cost: nothing.
        """
        return not self.left_open(inner) <= gap

    def _value(self, own: np.ndarray, side: np.ndarray) -> float:
        """Return the dual value, where the dual variables are balanced and scaled down."""
        fit_intercept = self.objective.fit_intercept
        u, changed = balanced(own, side, self.bias) if fit_intercept else (own, {})
        request: Any = DualValue(self._state(), **changed)
        value = -self.objective.scale * float(self._ask(request)["value"])
        return max(value, 0.0) * self._share(to_host(u)[: self.objective.n_features])

    def _share(self, v: np.ndarray) -> float:
        """Return by what dual variables with these sums are multiplied to be feasible.

        Sums are off by roundings of independent signs, as in `Rounding.gap`.
        """
        rounding, size = self.objective.rounding, self._mass * max(self._ends)
        off = RANDOM_SIGNS * math.sqrt(rounding.in_turn) * UNIT * size * rounding.columns
        most = np.abs(v) + off
        over = most > self.penalty.strengths
        return float((self.penalty.strengths[over] / most[over]).min(initial=1.0))

    @property
    def _mass(self) -> float:
        """The sum of the weights of all losses."""
        return self.objective.scale * self.objective.total_weight

    @property
    def _ends(self) -> list[float]:
        """Sizes of the ends of the dual variables' box, but for zero, as is one end of hinges."""
        loss = self.objective.loss
        return [1.0] if loss.classifies else [abs(end) for end in box_of(loss)]
