"""The margins of a softmax: z_i = W x_i + b, and the loss log(sum_k exp z_ik) - z_iy.

W has a row for each of K classes. W and W plus the same row for all classes fit equally well, so at
the optimum of a squared penalty the rows of W sum to zero, and intercepts may. Solvers see V = B'W
along an orthonormal basis B of such contrasts, K - 1 sets of coefficients in one vector: the
Hessian is definite there, and norms are those of W. An L1 penalty tells both apart: at its optimum
not means but medians of the classes' coefficients are zero. With kinks B is the identity, and
solvers see all K rows of W. The vector has the features of all sets first, then the intercepts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daskglm.certificates.constants import Intercepts, contrasts
from daskglm.certificates.free import FreeOutputs
from daskglm.certificates.rounding import Rounding
from daskglm.core.facts import DataSummary
from daskglm.core.matrices import mirror_upper, pairs_of
from daskglm.core.requests import Evaluate, EvaluateAlong, Request, Totals, with_vectors
from daskglm.core.summation import SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.objectives.margins import Margins, Sums
from daskglm.penalties.penalty import Penalty

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.primal import Objective

# Steps for the intercepts alone; lengths that are tried of each step of Newton's method, and of one
# by the largest curvature that a softmax can have. That one descends where curvatures underflow.
INTERCEPT_STEPS = 60
LENGTHS, DESCENTS = 0.25 ** np.arange(6.0), 4.0 ** np.arange(5.0)
# Relative fall of the value below which the intercepts are the best ones.
LEVEL = 1e-15


@dataclass(frozen=True, eq=False)
class Softmax(Margins):
    """The margins of K classes.

    Parameters
    ----------
    width : int
    classes : tuple
        Labels, in the order of the rows of W. Other labels must have no weight.
    shares : (K,) array
        Total weights of these classes. With intercepts all must be above zero, since a class
        without weight has no best intercept.
    basis : (K, r) array
        Orthonormal columns, along which solvers see W as r sets of coefficients: `contrasts`, or
        the identity for a penalty with kinks or bounds.
    fit_intercept : bool
    free_entries : int array
        Entries that neither a penalty nor bounds hold: some features', of all sets, and the
        intercepts'. The sets of a feature, and the intercepts, are beside each other.
    """

    classes: tuple[Any, ...]
    shares: np.ndarray
    basis: np.ndarray
    fit_intercept: bool
    free_entries: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    free = FreeOutputs

    @property
    def outputs(self) -> int:
        """K, the number of classes."""
        return len(self.classes)

    @property
    def offsets(self) -> int:
        """One for each class."""
        return self.outputs

    @property
    def sets(self) -> int:
        """r, the sets of coefficients."""
        return int(self.basis.shape[1])

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes."""
        return self.classes

    @property
    def constants(self) -> int:
        """The intercepts, r or none."""
        return self.sets * self.fit_intercept

    @property
    def weight(self) -> float:
        """Total weight of the classes."""
        return float(self.shares.sum())

    @property
    def is_full(self) -> bool:
        """Whether solvers see all rows of W, along some of which the loss is flat."""
        return self.sets == self.outputs

    @property
    def free_features(self) -> int:
        """Number of entries of features that nothing holds."""
        return int((self.free_entries < self.n_features).sum())

    def with_penalty(self, penalty: Penalty) -> Softmax:
        """Return the same, knowing which coefficients a penalty holds."""
        kinks, d = penalty.feature_kinks, self.n_features
        curved = penalty.quadratic.diagonal(d) > 0.0
        held = kinks.is_grouped | (kinks.strengths > 0.0) | curved
        held |= np.isfinite(kinks.lower) | np.isfinite(kinks.upper)
        features = np.flatnonzero(~held.reshape(self.sets, self.width).any(axis=0))
        entries = features[:, None] + self.width * np.arange(self.sets)
        return replace(self, free_entries=np.append(entries.ravel(), np.arange(d, self.size)))

    def rounding(
        self, facts: DataSummary, loss: Loss, penalty: Penalty, C: float, *, on_device: bool
    ) -> Rounding:
        """Return the bounds on rounding errors of an objective's sums."""
        constants = Intercepts.of(
            self.basis,
            self.shares,
            fit_intercept=self.fit_intercept,
            mass=C * self.weight,
            offset=facts.largest_offset,
            own_offsets=facts.offset_columns > 1,
        )
        run = None if facts.sparse else SUMMED_ROWS
        return Rounding(
            facts, loss, constants, on_device=on_device, run=run, penalty=penalty.quadratic
        )

    def only_side(self, objective: Objective) -> float:
        """Return the sign that the last entry has where intercepts predict the only class that has
        weight; 0 where several have.
        """
        if not self.fit_intercept or int((self.shares > 0.0).sum()) != 1:
            return 0.0
        along = self.basis[:, -1]
        return math.copysign(1.0, along[self.shares > 0.0][0] - along.mean())

    # ---- vectors of solvers, and coefficients
    def matrix(self, v: np.ndarray) -> np.ndarray:
        """Return W (K, d) or, with intercepts, (K, d + 1), of a vector of solvers.

        Rows of columns that nothing holds sum to zero, which moves no difference of margins.
        """
        parts = [v[: self.n_features].reshape(self.sets, self.width)]
        if self.fit_intercept:
            parts.append(v[self.n_features :, None])
        W: np.ndarray = self.basis @ np.concatenate(parts, axis=1)
        if self.is_full:
            columns = self.free_entries[:: self.sets].copy()
            columns[self.free_features // self.sets :] = self.width  # of intercepts
            W[:, columns] -= W[:, columns].mean(axis=0)
        return W

    def vector(self, W: np.ndarray) -> np.ndarray:
        """Return the vector of W (K, d) or (K, d + 1); what all rows have in common is left out."""
        return self._joined(self.basis.T @ W)

    def _joined(self, V: np.ndarray) -> np.ndarray:
        """Return the features of all sets, then the intercepts, of V (r, d) or (r, d + 1)."""
        return np.concatenate([V[:, : self.width].ravel(), V[:, self.width :].ravel()])

    def feature_sizes(self, w: np.ndarray) -> np.ndarray:
        """Return the sizes of the coefficients of each feature, over all classes."""
        found: np.ndarray = np.linalg.norm(self.matrix(w)[:, : self.width], axis=0)
        return found

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries, which are of all sets."""
        return columns[: len(columns) // self.sets]

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each feature's coefficients for all of them."""
        return np.tile(values.reshape(self.sets, self.width).max(axis=0), self.sets)

    # ---- requests, and what comes back
    def asked(self, request: Request) -> Request:
        """Return a request about vectors of solvers as rows take it: about W."""
        request = with_vectors(request, self.matrix)
        return replace(request, basis=self.basis) if isinstance(request, Evaluate) else request

    def sums(self, w: np.ndarray, totals: Totals, *, is_sample: bool) -> Sums:
        """Return the sums of a reply at w."""
        grams, diagonal = totals.get("grams"), totals.get("diagonal")
        return Sums(
            totals["value"],
            self.vector(totals["gradient"]),
            None if grams is None else self._blocks(grams),
            None if diagonal is None else self._joined(diagonal),
        )

    def _blocks(self, grams: np.ndarray) -> np.ndarray:
        """Form the Hessian from the Grams of all pairs of classes.

        That of W has the blocks -G_jk, and its rows of blocks sum to zero; so along B it is the sum
        over pairs of (B_j - B_k)(B_j - B_k)' times G_jk.
        """
        for gram in grams:
            mirror_upper(gram)
        first, second = pairs_of(self.outputs)
        between = self.basis[first] - self.basis[second]
        side, sets = grams.shape[-1], self.sets
        factors = (between[:, :, None] * between[:, None, :]).reshape(len(grams), -1)
        blocks = factors.T @ grams.reshape(len(grams), -1)
        whole = blocks.reshape(sets, sets, side, side).transpose(0, 2, 1, 3)
        whole = whole.reshape(sets * side, sets * side)
        # features of all sets first, then intercepts
        order = self._joined(np.arange(sets * side).reshape(sets, side))
        found: np.ndarray = whole[np.ix_(order, order)]
        return found

    def settled(self, hessian: np.ndarray, penalty: Penalty) -> np.ndarray:
        """Return the Hessian of an objective, made definite where it is flat, in place.

        It is flat where the K coefficients of a feature without a penalty, or the K intercepts, all
        move alike. Half the square of their sum, times a number, changes no minimum: no step leads
        there, as the gradient is zero along it. Nor does one lead where bounds fix a coefficient,
        whose curvature may be any number.
        """
        if not self.is_full:
            return hessian
        for entries in self.free_entries.reshape(-1, self.sets):
            hessian[np.ix_(entries, entries)] += hessian[entries, entries].mean() / self.sets
        kinks = penalty.feature_kinks
        fixed = np.flatnonzero(kinks.lower == kinks.upper)
        curvature = hessian[fixed, fixed]
        hessian[fixed, fixed] += np.where(curvature > 0.0, curvature, 1.0)
        return hessian

    def product(self, totals: Totals, point: Point, v: np.ndarray) -> np.ndarray:
        """Return the losses' Hessian at a point times v, without C, of a reply."""
        return self.vector(totals["product"])

    def between(self, objective: Objective, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Return sums of losses at a + t (b - a), without C. Cost: 0 passes, 1 round."""
        coefficients = np.stack([1 - steps, steps], axis=1)
        nothing = np.zeros((len(steps), self.outputs))
        found: np.ndarray = self._along(objective, (a, b), coefficients, nothing)["values"]
        return found

    def _along(
        self,
        objective: Objective,
        points: Sequence[Point],
        coefficients: np.ndarray,
        shifts: np.ndarray,
    ) -> Totals:
        at = tuple((point.token, self.matrix(point.w)) for point in points)
        return objective.ask(EvaluateAlong(at, coefficients, shifts))

    # ---- blocks of the Hessian
    def class_blocks(self, objective: Objective, w: np.ndarray) -> np.ndarray:
        """Return the blocks of each class by itself of the Hessian in W, (K, side, side).

        The penalty is among them. Cost: 1 pass, 1 round.
        """
        how: Any = {"gram": True, "by_class": True, "keep": False}
        request = Evaluate(self.matrix(w), objective.new_token(), **how)
        blocks: np.ndarray = objective.C * objective.ask(request)["grams"]
        for block in blocks:
            mirror_upper(block)
        features = np.arange(self.width)
        blocks[:, features, features] += self._curvature_of_a_set(objective)
        return blocks

    def class_diagonals(self, objective: Objective, w: np.ndarray) -> np.ndarray:
        """Return the diagonals of `class_blocks`, (K, side). Cost: 1 pass, 1 round."""
        request = Evaluate(self.matrix(w), objective.new_token(), diagonal=True, keep=False)
        diagonals: np.ndarray = objective.C * objective.ask(request)["diagonal"]
        diagonals[:, : self.width] += self._curvature_of_a_set(objective)
        return diagonals

    def _curvature_of_a_set(self, objective: Objective) -> np.ndarray:
        """Return the diagonal of the penalty's Hessian by the features of one set, (d,)."""
        found: np.ndarray = objective.penalty.quadratic.diagonal(self.size)[: self.width]
        return found

    # ---- intercepts
    def near_constants(self, objective: Objective, point: Point) -> Point:
        """Bound how far a point's intercepts are from the best ones. Cost: 0 passes, 1 round."""
        nothing = np.zeros((1, self.outputs))
        found = self._along(objective, (point,), np.ones((1, 1)), nothing)
        along = contrasts(self.outputs)
        hessian = objective.C * (along.T @ found["hessians"][0] @ along)
        slopes = along.T @ (self.basis @ point.gradient[self.n_features :])
        constants, off = objective.rounding.constants, point.error.slopes + point.error.adding
        assert isinstance(constants, Intercepts)
        return point.with_near(constants.near(hessian, slopes, off))

    def best_constants(self, objective: Objective, point: Point) -> Point:
        """Evaluate the same coefficients with the intercepts that fit them best.

        By Newton's method on cached margins; as they are, if other coefficients are free, too.
        Cost: 1 pass, some rounds.
        """
        if self.free_features:
            return point
        shift = np.zeros(self.sets)
        one = np.ones((1, 1))
        largest = objective.loss.smoothness * self.weight
        found = self._along(objective, (point,), one, (self.basis @ shift)[None])
        for _ in range(INTERCEPT_STEPS):
            value = float(found["values"][0])
            slope = self.basis.T @ found["slopes"][0]
            hessian = self.basis.T @ found["hessians"][0] @ self.basis
            step = -np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
            descent = -slope / largest
            trials = shift + np.concatenate([LENGTHS[:, None] * step, DESCENTS[:, None] * descent])
            shifts = trials @ self.basis.T
            tried = self._along(objective, (point,), np.repeat(one, len(trials), 0), shifts)
            best = int(np.argmin(tried["values"]))
            # the whole step where values are level: slopes still fall
            level = abs(tried["values"][0] - value) <= LEVEL * abs(value)
            best = 0 if level else best
            if not (level or tried["values"][best] < value):
                break
            shift = trials[best]
            if level:
                break
            found = {name: part[best : best + 1] for name, part in tried.items() if name != "rows"}
        w = point.w.copy()
        w[self.n_features :] += shift
        return objective.at(w)
