"""Bounds on the distance of a value from the optimum, for the softmax: `rounding` with a margin for
each class.

Vectors hold r = K - 1 sets of coefficients V = B'W along an orthonormal basis B of the classes'
contrasts, or r = K along the unit vectors, features first and the r intercepts last, so that norms
are those of W. The proofs are in
`docs/certificates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from daskglm.certificates.hessian_factor import UNIT, GradientError, HessianFactor
from daskglm.certificates.rounding import FEW, RANDOM_SIGNS, Ball, Norms, Rounding, Vector
from daskglm.core.column_requests import ColumnMoments
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Spread, Totals
from daskglm.core.summation import SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.penalties.ridge import Ridge
from daskglm.penalties.tikhonov import Tikhonov

# How often the bound on the norm of the best coefficients is improved. Each time is valid.
IMPROVED = 3
# For intercepts whose Newton decrement D, times the rate at which their Hessian changes, is at most
# this: their excess is at most so many D^2, and the distance from the best ones in the norm of mean
# Hessians so many D.
NEAR, EXCESS, DISTANCE = 0.25, 0.55, 1.25
# Share of the intercepts' Hessian that rounding leaves, and its least eigenvalue over the largest
# for it to be known so well.
LEFT, DEFINITE = 0.98, 1e-8


def contrasts(K: int) -> np.ndarray:
    """Return an orthonormal basis (K, K - 1) of the vectors whose entries sum to zero (Helmert)."""
    basis = np.zeros((K, K - 1))
    for a in range(K - 1):
        basis[: a + 1, a] = 1.0
        basis[a + 1, a] = -(a + 1.0)
        basis[:, a] /= math.sqrt((a + 1.0) * (a + 2.0))
    return basis


class OutputRounding(Rounding):
    """`Rounding` for K margins a row.

    Parameters
    ----------
    facts : DataSummary
    loss : Loss
    basis : (K, r) array
        See `contrasts`.
    shares : (K,) array
        Total weights of the classes, all above zero if there is an intercept.
    fit_intercept : bool
    on_device : bool
        Whether the sums are made on a GPU.
    penalty : Ridge or Tikhonov
        On the coefficients of features, r sets of them.
    mass : float
        C times the sum of the rows' weights.
    """

    def __init__(
        self,
        facts: DataSummary,
        loss: Loss,
        basis: np.ndarray,
        shares: np.ndarray,
        *,
        fit_intercept: bool,
        on_device: bool,
        penalty: Ridge | Tikhonov,
        mass: float,
    ) -> None:
        run = None if facts.sparse else SUMMED_ROWS
        super().__init__(facts, loss, fit_intercept=fit_intercept, on_device=on_device, run=run)
        self.is_narrow = False  # a device's Grams are cuBLAS's, of any width
        K, self.sets = basis.shape
        self.basis, self.width, self.mass = basis, facts.n_features or 0, mass
        self.n_features = self.sets * self.width
        self.strong, self.strongest = penalty.strong_convexity, penalty.largest
        # what the change between V and W adds to roundings of margins and of sums of slopes
        self.changes = math.ceil(K**1.5)
        self.changes += facts.offset_columns > 1  # an offset is added, too
        self.row += self.changes
        self.terms += K**1.5 + 2 * K
        self.pairs = K * (K - 1) / 2.0
        # the intercepts of a fit without features
        self.constants = np.zeros(self.sets)
        if fit_intercept:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(shares / shares.sum())
                self.constants = basis.T @ (logs - logs.mean())

    def survey(self, ask: Callable[[Spread], Totals], facts: DataSummary) -> None:
        """Bound the values of each column, and find a ball around all rows; see `Rounding`."""
        every, self.n_features = self.n_features, self.width
        super().survey(ask, facts)
        self.n_features = every
        self.columns = np.tile(self.columns, self.sets)

    def measure(self, ask: Callable[[ColumnMoments], Totals]) -> None:
        """Measure the columns, alike for all sets; see `Rounding`. Cost: 1 pass, 1 round."""
        super().measure(ask)
        assert self.squares is not None
        assert self.means is not None
        self.squares, self.means = np.tile(self.squares, self.sets), np.tile(self.means, self.sets)

    def restricted(self, columns: np.ndarray) -> OutputRounding:
        """Return the same for some features; `columns` are their entries, of all sets."""
        found = super().restricted(columns)
        assert isinstance(found, OutputRounding)
        found.width = len(columns) // self.sets
        return found

    def margin_errors(self, w: np.ndarray, squares: np.ndarray, weight: float) -> float:
        """Bound the root of the weighted sum of the squared errors of all margins at w.

        As `Rounding.margin_errors`, with Euclidean norms over the classes; `squares` of all sets.
        """
        sizes = np.linalg.norm(self.of_features(w), axis=0)
        size = float(sizes @ np.sqrt(squares[: self.width]))
        size += (float(np.linalg.norm(self.of_intercepts(w))) + self.offset) * math.sqrt(weight)
        terms = min(self.row, int(np.count_nonzero(sizes)) + 3 + self.changes)
        return min(terms, RANDOM_SIGNS * math.sqrt(terms)) * UNIT * size

    # ---- parts of vectors
    def of_features(self, v: Any) -> np.ndarray:
        """Return the coefficients of features as (r, d)."""
        return np.asarray(v[: self.n_features]).reshape(self.sets, self.width)

    def of_intercepts(self, v: Any) -> np.ndarray:
        """Return the intercepts (r,), zeros if there are none."""
        return np.asarray(v[self.n_features :]) if self.fit_intercept else np.zeros(self.sets)

    def size(self, w: Vector) -> float:
        """Bound the Euclidean norm of the sums of the sizes of the terms of any row's margins."""
        features = self.norm(w) * self.radius
        if np.ndim(self.columns):
            lengths = np.linalg.norm(self.of_features(w), axis=0)
            features = min(features, float(lengths @ self.columns[: self.width]))
        return features + float(np.linalg.norm(self.of_intercepts(w))) + self.offset

    def gram(self, *, exact: bool, likely: bool = False) -> float:
        """Bound the error of an entry of a Hessian, as a share; see `Rounding.gram`.

        Entries are sums over pairs of classes of entries of Grams times products of B.
        """
        adding = 0.0 if likely else (self.pairs + FEW) * UNIT
        return super().gram(exact=exact, likely=likely) + adding

    # ---- bounds
    def features(self, gradient: Vector, error: GradientError) -> float:
        """Bound the norm of the exact gradient by the features, of rows less the ball's centre."""
        centre, radius = self.ball
        adding = error.adding * self.radius + error.penalty
        part = self.of_features(gradient)
        if centre is not None:
            part = part - np.outer(self.of_intercepts(gradient), centre)
            adding += error.adding * float(np.linalg.norm(centre))
        return float(np.linalg.norm(part)) + adding + error.slopes * radius

    def steepest(self, gradient: Vector, error: GradientError) -> float:
        """Bound the gradient at best intercepts: infinite with intercepts, of which none is known.

        Unlike the slopes of two classes those of several do not all change in one direction.
        """
        return math.inf if self.fit_intercept else self.features(gradient, error)

    def convex(
        self,
        w: Vector,
        gradient: Vector,
        value: float,
        error: GradientError,
        intercept_radius: float,
        near: float = math.inf,
    ) -> float:
        """Bound the excess at w by strong convexity in W, and by where the best intercepts are.

        f is mu-strongly convex in W, so f - f* <= |g_W|^2 / (2 mu) + g_b.(b - b*). At the optimum
        each class has as much probability as weight, so differences of b* are within sqrt(2) times
        |W*| R, and the largest norm of a row's offsets, of those of the classes' log weights. |W*|
        is at most the root of 2 f / mu; and at most |W| + |W - W*|, whose square times mu is at
        most |g_W| |W - W*| + g_b.(b - b*).

        `near` is a bound on the Newton decrement of the intercepts, by `near_intercepts`, or
        infinite. With one, the excess of the intercepts is quadratic in it, and the gradient by the
        features moves by little up to the best intercepts.
        """
        norm = self.features(gradient, error)
        if not self.fit_intercept or not self.strong:
            return self._fall(norm)
        if not np.isfinite(self.constants).all():
            return math.inf  # a class without weight has no best intercept

        assert not isinstance(w, Norms)
        assert not isinstance(gradient, Norms)
        fixed, rate = self.intercepts(w, gradient, error.slopes + error.adding, self.ball)
        radius = self.ball.radius
        largest = math.sqrt(2.0 * max(value, 0.0) / self.strong)
        for _ in range(IMPROVED):
            rest = 4.0 * self.strong * (fixed + rate * largest)
            moved = (norm + math.sqrt(norm * norm + rest)) / (2.0 * self.strong)
            largest = min(largest, self.norm(w) + moved)
        bound = self._fall(norm) + fixed + rate * largest
        if math.isfinite(near):
            moves = DISTANCE * near * radius * math.sqrt(0.5 * self.mass)
            bound = min(bound, self._fall(norm + moves) + EXCESS * near * near)
        return bound

    def intercepts(
        self, w: np.ndarray, gradient: np.ndarray, off: float, ball: Ball
    ) -> tuple[float, float]:
        """Bound g_b.(b - b*) by a number, plus another times |W*|; see `convex`.

        Parameters
        ----------
        w, gradient : (r d + r,) arrays
        off : float
            Bound on the norm of the error of g_b.
        ball : Ball
            Holds all rows.
        """
        slopes, apart = self.of_intercepts(gradient), self.of_intercepts(w) - self.constants
        if ball.centre is not None:
            apart = apart + self.of_features(w) @ ball.centre
        fixed = abs(float(slopes @ apart)) + off * float(np.linalg.norm(apart))
        total = float(np.abs(self.basis @ slopes).sum()) + math.sqrt(len(self.basis)) * off
        return fixed + total * self.offset / math.sqrt(2.0), total * ball.radius / math.sqrt(2.0)

    def near_intercepts(
        self, hessian: np.ndarray, slopes: np.ndarray, error: GradientError
    ) -> float:
        """Bound the Newton decrement of the intercepts; infinite if it is not small.

        `hessian` (r, r) and `slopes` (r,) are those of the objective, computed.
        """
        values = np.linalg.eigvalsh(hessian)
        if not values[0] > DEFINITE * values[-1]:
            return math.inf
        root = math.sqrt(LEFT * float(values[0]))
        decrement = (float(np.linalg.norm(slopes)) + error.slopes + error.adding) / root
        return decrement if math.sqrt(2.0) * decrement / root <= NEAR else math.inf

    def reach(self, factor: HessianFactor) -> float:
        """Bound the norm of the change of any row's margins by a step of norm one in H."""
        centre, radius = self.ball
        if centre is None:
            return math.hypot(self.radius, float(self.fit_intercept)) * factor.root_trace
        square = 0.0
        for a in range(self.sets):
            v = np.zeros(self.n_features + self.sets)
            v[a * self.width : (a + 1) * self.width] = centre
            v[self.n_features + a] = 1.0
            square += factor.decrement(v) ** 2
        roots = factor.roots[: self.n_features]
        return radius * float(np.linalg.norm(roots)) + math.sqrt(square)
