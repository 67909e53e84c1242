"""The multinomial objective with a penalty that may have kinks, bounds, or a strength for each
feature.

An L1 penalty tells W from W plus the same row for all classes: at the optimum not means but medians
of the classes' coefficients are zero. So solvers see all K rows of W where there are kinks, the
features of one class after those of another and the K intercepts last, and K - 1 contrasts, as
`MultinomialObjective` has them, where there are none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from daskglm.objectives.bounds import EXACT, HIDDEN, Ball
from daskglm.objectives.composite import Composite
from daskglm.objectives.hessian_factor import GradientError, HessianFactor
from daskglm.objectives.multinomial import MultinomialObjective
from daskglm.objectives.output_bounds import DISTANCE, EXCESS, NEAR
from daskglm.objectives.point import Point

# Error of a margin, times the loss's self-concordance, up to which curvatures there are those at
# the exact margin but for a share of twice as much. Chosen.
STEADY = 1e-3


class MultinomialComposite(Composite, MultinomialObjective):
    """Softmax losses, a quadratic penalty, and kinks and bounds.

    Parameters are those of `MultinomialObjective`, with `basis` the identity if `terms` are not
    empty, and

    Parameters
    ----------
    terms : NonSmooth
        For vectors of `size` entries, alike for all classes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows_xp = self.engine.capabilities.xp

    # ---- points
    def matrix(self, v: np.ndarray) -> np.ndarray:
        """Return W (K, d) or, with intercepts, (K, d + 1), of a vector of solvers.

        Rows of columns that nothing holds sum to zero, which moves no difference of margins.
        """
        W = super().matrix(v)
        columns = self.unheld[:: self.sets].copy()
        columns[self._features_unheld // self.sets :] = self.width  # of intercepts
        W[:, columns] -= W[:, columns].mean(axis=0)
        return W

    def _blocks(self, grams: np.ndarray) -> np.ndarray:
        """Form the Hessian, as `MultinomialObjective` does, made definite along flat directions.

        The objective is flat where the K coefficients of a feature without a penalty, or the K
        intercepts, all move alike. Half the square of their sum, times a number, changes no
        minimum: no step leads there, as the gradient is zero along it. Nor does one lead where
        bounds fix a coefficient, whose curvature may be any number.
        """
        hessian = super()._blocks(grams)
        if self.sets < self.outputs:
            return hessian
        for entries in self.unheld.reshape(-1, self.sets):
            hessian[np.ix_(entries, entries)] += hessian[entries, entries].mean() / self.sets
        terms = self.feature_terms
        fixed = np.flatnonzero(terms.lower == terms.upper)
        curvature = hessian[fixed, fixed]
        hessian[fixed, fixed] += np.where(curvature > 0.0, curvature, 1.0)
        return hessian

    @cached_property
    def unheld(self) -> np.ndarray:
        """Entries that neither a penalty nor bounds hold: some features', of all sets, intercepts'.

        The sets of a feature, and the intercepts, are beside each other.
        """
        terms, d = self.feature_terms, self.n_features
        held = terms.is_grouped | (terms.strengths > 0.0) | (self.penalty.diagonal(d) > 0.0)
        held |= np.isfinite(terms.lower) | np.isfinite(terms.upper)
        features = np.flatnonzero(~held.reshape(self.sets, self.width).any(axis=0))
        entries = features[:, None] + self.width * np.arange(self.sets)
        return np.append(entries.ravel(), np.arange(d, self.size))

    # ---- how good a point is
    def unheld_features(self, point: Point) -> int:
        """Return the number of features that only `Composite.can_settle` would bound: none."""
        return 0

    @property
    def wants_hessian(self) -> bool:  # type: ignore[override]
        """Whether there are coefficients that only a Hessian of all can bound: of features."""
        return self._features_unheld > 0

    @property
    def has_unheld(self) -> bool:
        """Whether there are coefficients that nothing holds."""
        return len(self.unheld) > 0

    def bound(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; see `Composite.bound`.

        Of features that nothing holds points may be known without a Hessian: see `at_whole`.
        """
        return min(point.free_bound, point.value, point.excess)

    def by_tangent(self, point: Point, error: GradientError) -> float:
        """Bound the distance of a point's value from the optimum by its tangent.

        Where the Hessian is known it says how near coefficients that nothing holds are to the best
        ones.
        """
        bound = super().by_tangent(point, error)
        near = self._nearness(point, error)
        if not near < point.near:
            return bound
        return min(bound, super().by_tangent(replace(point, near=near), error))

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds.

        It does if exact arithmetic would prove it, or a quarter of the bound. Cost: nothing; 1
        round without a Hessian.
        """
        if self.squares is not None:
            return False
        wanted, known = tol * point.value, point.gram is not None
        nominal = self.nominal_bound(point if known else replace(point, near=0.0))
        if not (known or nominal <= wanted):
            return False
        bound = self.bound(self.with_near_intercept(point))
        return bound > wanted and nominal <= max(wanted, HIDDEN * bound)

    def with_near_intercept(self, point: Point) -> Point:
        """Bound how far a point's intercepts are from the best ones, if the Hessian is not known.

        Cost: 0 passes, 1 round; nothing where it is, where there are none, and where features, too,
        are held by nothing.
        """
        looks = self.fit_intercept and point.gram is None and not self._features_unheld
        return super().with_near_intercept(point) if looks else point

    def errors(
        self, point: Point, error: GradientError, value: float
    ) -> tuple[np.ndarray, float, float]:
        """Bound errors as `Composite.errors`, with a Hessian by the curvatures that rows have.

        A margin that is off by e changes the slopes of its row by D e, D the row's curvatures: with
        T the sum of the traces of all D, entry j of the gradient by sqrt(H_jj T) e at most.
        """
        off, constant, of_value = super().errors(point, error, value)
        rounding, d = self.rounding, self.n_features
        known = self.fit_intercept and self.sets == self.outputs
        if error is EXACT or point.gram is None or not known:
            return off, constant, of_value
        margin = rounding.margin_error(point.w)
        if not self.loss.self_concordance * margin <= STEADY:
            return off, constant, of_value
        error = rounding.of_random_signs(error)
        diagonal = np.maximum(point.gram.diagonal(), 0.0)
        trace = (1.0 + 4.0 * STEADY) * float(diagonal[d:].sum())
        moved = margin * np.sqrt((1.0 + 4.0 * STEADY) * diagonal[:d] * trace)
        off = np.minimum(off, moved + error.adding * rounding.columns + error.penalty)
        return off, min(constant, margin * trace + error.adding), of_value

    def _nearness(self, point: Point, error: GradientError) -> float:
        """Bound the Newton decrement of the coefficients that nothing holds.

        It is infinite where it is not small, and where the Hessian is not known.
        """
        features = self._features_unheld
        if point.gram is None or not self.has_unheld:
            return math.inf
        # their part of the Hessian, in which the others are as they are
        block = point.gram[np.ix_(self.unheld, self.unheld)]
        factor = HessianFactor.of(block, self.rounding.gram(exact=point.exact))
        off, constant, _ = self.errors(point, error, point.value)
        off = np.append(off[self.unheld[:features]], np.full(len(block) - features, constant))
        decrement = factor.decrement(point.gradient[self.unheld]) + float(factor.roots @ off)
        if not math.isfinite(decrement):
            return math.inf
        # largest change of a row's margins by a step of norm one
        columns = np.ones(len(block))
        columns[:features] = (self.rounding.columns * np.ones(self.n_features))[
            self.unheld[:features]
        ]
        each = (columns * factor.roots).reshape(-1, self.sets).sum(axis=0)
        reach = math.hypot(self.rounding.radius if features else 0.0, float(self.fit_intercept))
        reach = min(reach * factor.root_trace, float(np.linalg.norm(each)))
        return decrement if self.loss.self_concordance * reach * decrement <= NEAR else math.inf

    @property
    def _features_unheld(self) -> int:
        """Number of entries of features that nothing holds."""
        return int((self.unheld < self.n_features).sum())

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the best intercepts; as they are, if others are free.

        Cost: 1 pass, some rounds.
        """
        return point if self._features_unheld else super().with_best_intercept(point)

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what coefficients that nothing holds add to the tangent; see `Composite._settled`.

        Near their best values it is as if they were there.
        """
        if math.isfinite(point.near):
            squares = self.squares
            if squares is None:
                squares = self.total_weight * (self.rounding.columns * np.ones(len(off))) ** 2
            moved = DISTANCE * point.near * np.sqrt(self.scale * self.loss.smoothness * squares)
            gradient, off = gradient.copy(), off + moved
            features = self.unheld[: self._features_unheld]
            gradient[features] = off[features] = 0.0
            return gradient, off, EXCESS * point.near**2
        if not self.fit_intercept:
            return gradient, off, 0.0
        ball = Ball(None, self.rounding.radius)
        fixed, rate = self.rounding.intercepts(point.w, point.gradient, constant, ball)
        loose = fixed + rate * self._largest_norm(point.value) if rate > 0.0 else fixed
        return gradient, off, loose if math.isfinite(loose) else math.inf

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors. Cost: 2 or 3 passes."""
        super().survey()
        assert self.squares is not None
        assert self.means is not None
        self.squares = np.tile(self.squares, self.sets)
        self.means = np.tile(self.means, self.sets)

    # ---- parts of the rows and of the columns
    def restricted(self, columns: np.ndarray, key: int | None = None) -> Self:
        """Return the objective on some features; `columns` are their entries, of all sets."""
        found = super().restricted(columns, key)
        found.width = len(columns) // self.sets
        return found

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries, which are of all sets."""
        return columns[: len(columns) // self.sets]

    def at_whole(self, point: Point, beside: Point) -> Point:
        """Evaluate the same coefficients among all features; see `Composite.at_whole`.

        Features that nothing holds are all here, and as near to their best values there.
        """
        found = super().at_whole(point, beside)
        self.measure()
        near = self._nearness(point, point.error) if self._features_unheld else math.inf
        return replace(found, near=near)

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each feature's coefficients for all of them."""
        return np.tile(values.reshape(self.sets, self.width).max(axis=0), self.sets)
