"""Least squares of all folds by the products of one pass, added up by group of the folds."""

from __future__ import annotations

from functools import reduce

import numpy as np

from daskglm.core.batch_requests import EvaluateMany
from daskglm.fitting.shared_paths import SPARSE_FEATURES
from daskglm.objectives.batched import BatchObjective
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.quadratic_model import LossSums, predicted
from daskglm.penalties.descent import minimise
from daskglm.solvers import costs
from daskglm.solvers.linear_systems import newton_step

# Bytes of the products of all groups of folds up to which they are added up: each thread has an
# array of them. Chosen.
MOST_PRODUCTS = 1 << 28
# Share of the first residual that models of least squares may leave: what counts is the gap, which
# is of second order.
LEFT = 1e-9


class FoldSums:
    """Sums of squared losses by group of the folds, and those over the rows of each fold.

    Parameters
    ----------
    groups : list of LossSums
    roles : (groups, folds + 1) array
        See `requests.roles_of`.
    """

    def __init__(self, groups: list[LossSums], roles: np.ndarray) -> None:
        self.groups, self.roles = groups, roles
        self._trained: dict[int, LossSums] = {}

    @classmethod
    def of(cls, rows: BatchObjective) -> FoldSums | None:
        """Add up the losses of a batch; None where their products do not tell all, or are too many.

        Cost: 1 pass, 1 round.
        """
        facts, size, loss = rows.engine.facts, rows.size, rows.loss
        most = SPARSE_FEATURES if facts.sparse else costs.LARGEST_HESSIAN
        suits = loss.is_quadratic and not loss.classifies
        suits = suits and rows.engine.capabilities.device == "cpu"
        many = 8 * len(rows.roles) * size * size > MOST_PRODUCTS
        if not suits or (facts.n_features or 0) > most or many:
            return None
        none, all_rows = np.zeros(1, int), np.array([-1])
        request = EvaluateMany(
            np.zeros((1, size)), none, all_rows, gram=(0,), by_group=True, exact=True
        )
        totals = rows.ask(request)
        parts = zip(totals["values"], totals["gradients"], totals["grams"], strict=True)
        groups = [LossSums(float(value[0]), slope[0], gram[0]) for value, slope, gram in parts]
        return cls(groups, rows.roles)

    def trained(self, fold: int) -> LossSums:
        """Return the sums over the rows that a fold trains on; over all rows for -1."""
        if fold not in self._trained:
            self._trained[fold] = self._over(self.roles[:, fold] == 0)
        return self._trained[fold]

    def held_out(self, fold: int) -> LossSums:
        """Return the sums over the rows that a fold holds out."""
        return self._over(self.roles[:, fold] == 1)

    def _over(self, groups: np.ndarray) -> LossSums:
        return reduce(LossSums.plus, [self.groups[k] for k in np.flatnonzero(groups)])


def least_point(objective: Objective, base: Point, w: np.ndarray, tol: float) -> Point | None:
    """Minimise least squares from w by a point of its sums; None where rounding hides that gap.

    Cost: nothing.
    """
    assert base.hessian is not None
    w = objective.penalty.kinks.clip(w)
    slope, kinks = base.gradient + base.hessian @ (w - base.w), objective.penalty.kinks
    if kinks.is_empty:
        w = w + newton_step(base.hessian, slope)
    else:
        w = minimise(base.hessian, slope, w, kinks, LEFT).w
    point = predicted(base, w)
    return point if point.relative_gap <= tol else None
