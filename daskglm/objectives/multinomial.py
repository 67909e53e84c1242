"""The objective 1/2 |W|^2 + C sum_i s_i (log(sum_k exp z_ik) - z_iy), with z_i = W x_i + b.

W has a row for each of K classes. W and W plus the same row for all classes fit equally well, so at
the optimum the rows of W sum to zero, and intercepts may. Solvers see V = B'W along an orthonormal
basis B of such contrasts, K - 1 sets of coefficients in one vector: the Hessian is definite there,
and norms are those of W. The vector has the features of all sets first, then the K - 1 intercepts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from daskglm.certificates.bounds import Bounds
from daskglm.certificates.convexity import ByConvexity
from daskglm.certificates.softmax_rounding import OutputRounding, contrasts
from daskglm.core.engine import Engine
from daskglm.core.matrices import mirror_upper
from daskglm.core.output_requests import EvaluateOutputs, OutputsAlong, OutputsHessianVector
from daskglm.core.requests import Problem, Totals
from daskglm.losses.base import Loss
from daskglm.objectives.point import Point
from daskglm.objectives.primal import tokens
from daskglm.objectives.several_intercepts import SeveralIntercepts
from daskglm.penalties.penalty import Penalty

# Steps for the intercepts alone; lengths that are tried of each step of Newton's method, and of one
# by the largest curvature that a softmax can have. That one descends where curvatures underflow.
INTERCEPT_STEPS = 60
LENGTHS, DESCENTS = 0.25 ** np.arange(6.0), 4.0 ** np.arange(5.0)
# Relative fall of the value below which the intercepts are the best ones.
LEVEL = 1e-15


class MultinomialObjective(SeveralIntercepts):
    """Penalty plus C times the sum of softmax losses, over the rows of an engine.

    Parameters
    ----------
    engine : Engine
    problem : Problem
        Its `positive` is None.
    loss : Loss
        `losses.multinomial.LOSS`.
    classes : tuple
        Labels, in the order of the rows of W. Other labels must have no weight.
    weights : sequence of float
        Total weights of these classes. With an intercept all must be above zero, since a class
        without weight has no best intercept.
    C : float
        Weight of the losses; infinity means no penalty.
    fit_intercept : bool
    basis : (K, r) array, optional
        Orthonormal columns, along which solvers see W as r sets of coefficients. Default: K - 1
        contrasts.
    penalty : Penalty, optional
        On the coefficients of features, of all sets. Default: a ridge of strength one, or none
        where C is infinite. One with kinks or bounds wants the identity as `basis`.
    bounded : callable, default ByConvexity
        As of `Objective`.

    Attributes
    ----------
    outputs : int
        K, the number of classes.
    sets : int
        r.
    width : int
        d, the number of features. `n_features` counts those of all sets.
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        loss: Loss,
        *,
        classes: tuple[Any, ...],
        weights: Sequence[float],
        C: float,
        fit_intercept: bool,
        basis: np.ndarray | None = None,
        penalty: Penalty | None = None,
        bounded: type[Bounds] = ByConvexity,
    ) -> None:
        problem = replace(problem, classes=classes)
        self.basis = contrasts(len(classes)) if basis is None else basis
        how: Any = {"C": C, "fit_intercept": fit_intercept, "bounded": bounded}
        super().__init__(engine, problem, loss, penalty=penalty, **how)
        self.classes = classes
        self.outputs = len(classes)
        self.width = self.n_features
        self.sets = self.basis.shape[1]
        self.n_features = self.sets * self.width
        self.size = self.sets * (self.width + self.fit_intercept)
        self.penalty = penalty or self._ridge(C)
        self.xp = np  # the change between V and W is made here, wherever the rows are
        self.shares = np.asarray(weights, float)
        self.total_weight = float(self.shares.sum())
        self.rounding: OutputRounding = OutputRounding(
            engine.facts,
            loss,
            self.basis,
            self.shares,
            fit_intercept=self.fit_intercept,
            on_device=engine.capabilities.device != "cpu",
            penalty=self.penalty.quadratic,
            mass=self.scale * self.total_weight,
        )

    @property
    def only_side(self) -> float:
        """Sign that the last entry of vectors has where intercepts predict the only class that has
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
        if self.sets == self.outputs:
            columns = self.unheld[:: self.sets].copy()
            columns[self.features_unheld // self.sets :] = self.width  # of intercepts
            W[:, columns] -= W[:, columns].mean(axis=0)
        return W

    @cached_property
    def unheld(self) -> np.ndarray:
        """Entries that neither a penalty nor bounds hold: some features', of all sets, intercepts'.

        The sets of a feature, and the intercepts, are beside each other.
        """
        kinks, d = self.penalty.feature_kinks, self.n_features
        curved = self.penalty.quadratic.diagonal(d) > 0.0
        held = kinks.is_grouped | (kinks.strengths > 0.0) | curved
        held |= np.isfinite(kinks.lower) | np.isfinite(kinks.upper)
        features = np.flatnonzero(~held.reshape(self.sets, self.width).any(axis=0))
        entries = features[:, None] + self.width * np.arange(self.sets)
        return np.append(entries.ravel(), np.arange(d, self.size))

    @property
    def features_unheld(self) -> int:
        """Number of entries of features that nothing holds."""
        return int((self.unheld < self.n_features).sum())

    def vector(self, W: np.ndarray) -> np.ndarray:
        """Return the vector of W (K, d) or (K, d + 1); what all rows have in common is left out."""
        V = self.basis.T @ W
        return np.concatenate([V[:, : self.width].ravel(), V[:, self.width :].ravel()])

    # ---- parts of the columns
    def on_columns(self, columns: np.ndarray, key: int) -> Self:
        """Return the objective on some features; `columns` are their entries, of all sets."""
        found = super().on_columns(columns, key)
        found.width = len(columns) // self.sets
        return found

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries, which are of all sets."""
        return columns[: len(columns) // self.sets]

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each feature's coefficients for all of them."""
        return np.tile(values.reshape(self.sets, self.width).max(axis=0), self.sets)

    def feature_sizes(self, w: np.ndarray) -> np.ndarray:
        """Return the sizes of the coefficients of each feature, over all classes."""
        found: np.ndarray = np.linalg.norm(self.matrix(w)[:, : self.width], axis=0)
        return found

    # ---- points
    def at(
        self,
        w: np.ndarray,
        *,
        gram: bool = False,
        diagonal: bool = False,
        keep: bool = True,
        curved: bool = False,
        beside: Point | None = None,
        exact: bool = False,
    ) -> Point:
        """Evaluate the objective and its gradient at w; see `Objective.at`. Cost: 1 pass, 1 round.

        `curved` is without effect: curvatures are made anew from margins.
        """
        token, w = next(tokens), self.penalty.kinks.clip(w)
        exact = gram and (exact or self.rounding.is_exact)
        other = beside.token if beside else None
        basis = self.basis if diagonal else None
        totals = self.ask(EvaluateOutputs(self.matrix(w), token, gram, basis, keep, other, exact))
        quadratic, kinks = self.penalty.quadratic, self.penalty.kinks
        penalty, pull = quadratic.value_and_gradient(w)
        curvatures = None
        if diagonal:
            found = totals["diagonal"]
            found = np.concatenate([found[:, : self.width].ravel(), found[:, self.width :].ravel()])
            curvatures = self.scale * found + quadratic.diagonal(self.size)
        return Point(
            self,
            w,
            self.scale * float(totals["value"]) + penalty + kinks.value(w),
            self.scale * self.vector(totals["gradient"]) + pull,
            token,
            self._blocks(totals["grams"]) if gram else None,
            curvatures,
            exact,
        )

    def _blocks(self, grams: np.ndarray) -> np.ndarray:
        """Form the Hessian of the objective from the Grams of all pairs of classes.

        That of W has the blocks -G_jk, and its rows of blocks sum to zero; so along B it is the sum
        over pairs of (B_j - B_k)(B_j - B_k)' times G_jk.

        With K sets the objective is flat where the coefficients of a feature without a penalty, or
        the intercepts, all move alike. Half the square of their sum, times a number, changes no
        minimum: no step leads there, as the gradient is zero along it. Nor does one lead where
        bounds fix a coefficient, whose curvature may be any number.
        """
        for gram in grams:
            mirror_upper(gram)
        first, second = np.triu_indices(self.outputs, 1)
        between = self.basis[first] - self.basis[second]
        side, sets = grams.shape[-1], self.sets
        factors = (between[:, :, None] * between[:, None, :]).reshape(len(grams), -1)
        blocks = (self.scale * factors.T) @ grams.reshape(len(grams), -1)
        whole = blocks.reshape(sets, sets, side, side).transpose(0, 2, 1, 3)
        whole = whole.reshape(sets * side, sets * side)
        # features of all sets first, then intercepts
        order = np.arange(sets * side).reshape(sets, side)
        order = np.concatenate([order[:, : self.width].ravel(), order[:, self.width :].ravel()])
        hessian: np.ndarray = whole[np.ix_(order, order)]
        self.penalty.quadratic.add_to(hessian)
        if self.sets < self.outputs:
            return hessian
        for entries in self.unheld.reshape(-1, self.sets):
            hessian[np.ix_(entries, entries)] += hessian[entries, entries].mean() / self.sets
        kinks = self.penalty.feature_kinks
        fixed = np.flatnonzero(kinks.lower == kinks.upper)
        curvature = hessian[fixed, fixed]
        hessian[fixed, fixed] += np.where(curvature > 0.0, curvature, 1.0)
        return hessian

    def hessian_vector(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian at an evaluated point. Cost: 1 pass, 1 round."""
        at = point.token, self.matrix(point.w)
        product = self.ask(OutputsHessianVector(self.matrix(v), at))["product"]
        return self.scale * self.vector(product) + self.penalty.quadratic.hessian_vector(v)

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Evaluate a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        coefficients = np.stack([1 - steps, steps], axis=1)
        totals = self._along((a, b), coefficients, np.zeros((len(steps), self.outputs)))
        penalties = [self.penalty.value(a.w + t * (b.w - a.w)) for t in steps]
        values: np.ndarray = self.scale * totals["values"] + penalties
        return values

    def _along(
        self, points: Sequence[Point], coefficients: np.ndarray, shifts: np.ndarray
    ) -> Totals:
        at = tuple((point.token, self.matrix(point.w)) for point in points)
        return self.ask(OutputsAlong(at, coefficients, shifts))

    # ---- how good a point is
    def class_blocks(self, w: np.ndarray) -> np.ndarray:
        """Return the blocks of each class by itself of the Hessian in W, (K, size, size).

        The penalty is among them. Cost: 1 pass, 1 round.
        """
        request = EvaluateOutputs(
            self.matrix(w), next(tokens), gram=True, by_class=True, keep=False
        )
        blocks: np.ndarray = self.scale * self.ask(request)["grams"]
        for block in blocks:
            mirror_upper(block)
        features = np.arange(self.width)
        blocks[:, features, features] += self._curvature_of_a_set
        return blocks

    def class_diagonals(self, w: np.ndarray) -> np.ndarray:
        """Return the diagonals of `class_blocks`, (K, size). Cost: 1 pass, 1 round."""
        basis = np.eye(self.outputs)
        request = EvaluateOutputs(self.matrix(w), next(tokens), basis=basis, keep=False)
        diagonals: np.ndarray = self.scale * self.ask(request)["diagonal"]
        diagonals[:, : self.width] += self._curvature_of_a_set
        return diagonals

    @property
    def _curvature_of_a_set(self) -> np.ndarray:
        """The diagonal of the penalty's Hessian by the features of one set, (d,)."""
        found: np.ndarray = self.penalty.quadratic.diagonal(self.size)[: self.width]
        return found

    def with_near_intercept(self, point: Point) -> Point:
        """Bound how far a point's intercepts are from the best ones. Cost: 0 passes, 1 round."""
        found = self._along((point,), np.ones((1, 1)), np.zeros((1, self.outputs)))
        along = contrasts(self.outputs)
        hessian = self.scale * (along.T @ found["hessians"][0] @ along)
        slopes = along.T @ (self.basis @ point.gradient[self.n_features :])
        return replace(point, near=self.rounding.near_intercepts(hessian, slopes, point.error))

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the intercepts that fit them best.

        By Newton's method on cached margins. Cost: 1 pass, some rounds.
        """
        shift = np.zeros(self.sets)
        one = np.ones((1, 1))
        found = self._along((point,), one, (self.basis @ shift)[None])
        for _ in range(INTERCEPT_STEPS):
            value = float(found["values"][0])
            slope = self.basis.T @ found["slopes"][0]
            hessian = self.basis.T @ found["hessians"][0] @ self.basis
            step = -np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
            descent = -slope / (self.loss.smoothness * self.total_weight)
            trials = shift + np.concatenate([LENGTHS[:, None] * step, DESCENTS[:, None] * descent])
            tried = self._along((point,), np.repeat(one, len(trials), 0), trials @ self.basis.T)
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
        return self.at(w)
