"""Correct dual variables of a loss with corners until sums over some columns are as they should be.

Smoothed losses leave sums X'S a that are off by a small r. With the Gram G = X'S X of those columns
and G u = r, the variables a_i - x_i.u have sums that are right, but leave their box by at most
m = max |x_i.u|; scaled down by 1 + m / h, h the box's least half, they are in it. So a point is
bounded by dual variables that are known to exist and never computed (docs/certificates.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from daskglm.certificates.hessian_factor import GradientError, HessianFactor
from daskglm.certificates.rounding import Rounding
from daskglm.core.device import to_host
from daskglm.losses.base import Loss
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective


def ends_of(loss: Loss) -> tuple[float, ...]:
    """Return the sizes of the ends of the dual variables' box, but for zero, an end of hinges'."""
    if loss.classifies:
        return (1.0,)
    assert loss.dual is not None
    low, high = (loss.dual.into_domain(0.0, end, loss.p1, loss.p2) for end in (-2.0, 2.0))
    return -low, high


class Correction:
    """Changes of dual variables by the columns of some coefficients.

    Parameters
    ----------
    objective : Objective
        Of a loss of numbers, whose box has zero inside of it.
    entries : (k,) int array
        The coefficients, in increasing order; the intercept is the last of all.

    Attributes
    ----------
    features : array
        The entries without the intercept.
    gram : (size, size) array
        X'S X of all columns, with a column of ones for an intercept.
    factor : HessianFactor
        Of the part of these entries.
    """

    def __init__(self, objective: Objective, entries: np.ndarray) -> None:
        """Add up the Gram. Cost: 1 pass."""
        assert not objective.loss.classifies
        squared = LOSSES["squared"]
        squares = Objective(
            objective.engine,
            replace(objective.problem, loss=squared.ref),
            squared,
            C=math.inf,
            fit_intercept=objective.fit_intercept,
        )
        point = squares.at(squares.xp.zeros(objective.size), gram=True, keep=False, exact=True)
        objective.rows.meter.absorb(squares.rows.meter)
        self.objective = objective
        self.entries = entries
        self.features = entries[entries < objective.n_features]
        self.gram = np.asarray(to_host(point.hessian))
        part = self.gram[np.ix_(entries, entries)]
        self.factor = HessianFactor.of(part, squares.rounding.gram(exact=True))

    @property
    def rounding(self) -> Rounding:
        """What is known of these columns by now."""
        found = self.objective.rounding
        if len(self.features) == self.objective.n_features:
            return found
        return found.restricted(self.features)

    @cached_property
    def least(self) -> float:
        """Half the box's size, on the side where it is less."""
        return min(ends_of(self.objective.loss))

    def change(self, left: np.ndarray, rounded: float, beside: float = 0.0) -> tuple[float, float]:
        """Bound the changes that sums `left` want, as shares of the box's least half.

        They are x_i.u: at most the columns' largest values times |u|, or the reach of a step of
        that size, whichever is less.

        Parameters
        ----------
        left : (k,) array
            By how much sums are to be less, as computed.
        rounded, beside : float
            They are off by `rounded` times the largest value of the column, and by a vector of the
            norm `beside`.

        Returns
        -------
        tuple of float
            Bounds on the changes, and on the part of them that is not `step`: infinite where the
            Gram is singular.
        """
        rounding, factor, k = self.rounding, self.factor, len(self.features)
        widest = float((rounding.columns * factor.roots[:k]).sum())
        error = factor.error(GradientError(0.0, 0.0, rounded, beside), k, widest)
        size = factor.decrement(left)
        if not math.isfinite(size + error):
            return math.inf, math.inf
        largest = np.append(np.broadcast_to(rounding.columns, k), np.ones(len(left) - k))
        # the computed step is off by a share `doubt` of its size
        off = error + 2.0 * factor.doubt * size
        unknown = float(largest @ factor.roots) * off
        known = float(largest @ np.abs(self.step(left)))
        most = min(known + unknown, rounding.reach(factor) * (size + error))
        return most / self.least, unknown / self.least

    def step(self, left: np.ndarray) -> np.ndarray:
        """Return u, by which sums are less by `left`."""
        return -self.factor.step(left)[0]

    def lost(self, change: float, value: float) -> float:
        """Bound what changes of that share cost, since they multiply residuals.

        Those are at most the losses over the least slope, and the reach of a kink at zero. The
        losses are at most `value`, that of the objective.
        """
        scale = self.objective.C
        kink = 2.0 * self._kink * self.objective.total_weight
        return scale * (change * self.least * (value / scale / self.least + kink))

    def cost(self, left: np.ndarray, value: float) -> float:
        """Foresee what it costs that sums, times C, are to be less by `left`, at a value.

        Infinite where the Gram is singular.
        """
        change = self.change(left / self.objective.C, 0.0)[0]
        return change * value + self.lost(change, value) if math.isfinite(change) else math.inf

    @cached_property
    def _kink(self) -> float:
        """Half the jump at zero of the conjugate's slope: residuals up to it are free."""
        loss = self.objective.loss
        assert loss.dual is not None
        return float(loss.dual.derivatives(0.0, 1e-300, loss.p1, 0.0)[1])
