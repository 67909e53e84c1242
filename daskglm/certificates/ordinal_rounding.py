"""Bounds on the distance of a value from the optimum, for the ordinal loss: `rounding` with
thresholds.

Vectors hold the d coefficients of features, then the K - 1 thresholds. The proofs are in
`docs/certificates.md`.
"""

from __future__ import annotations

import math

import numpy as np

from daskglm.certificates.hessian_factor import UNIT, GradientError, HessianFactor
from daskglm.certificates.rounding import FEW, Norms, Rounding, Vector, excess
from daskglm.core.facts import DataSummary
from daskglm.core.summation import SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import (
    LOSS,
    barrier_curvature,
    barrier_rate,
    barrier_slope,
    link_of_loss,
)
from daskglm.penalties.ridge import Ridge
from daskglm.penalties.tikhonov import Tikhonov


def constants_of(shares: np.ndarray, loss: Loss = LOSS) -> np.ndarray:
    """Return the thresholds (K - 1,) of a fit without features: the link of cumulative shares."""
    below, above = np.cumsum(shares)[:-1], np.cumsum(shares[::-1])[::-1][1:]
    return link_of_loss(loss.name).quantiles(below, above)


def barrier_hessian(gaps: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Return the Hessian by thresholds of barriers with these weights, (K - 1, K - 1)."""
    return hessian_of_gaps(masses * barrier_curvature(gaps))


def hessian_of_gaps(curvature: np.ndarray) -> np.ndarray:
    """Return the Hessian by thresholds of what has these curvatures (K - 2,) by gaps."""
    m = len(curvature) + 1
    hessian, k = np.zeros((m, m)), np.arange(m - 1)
    hessian[k, k] += curvature
    hessian[k + 1, k + 1] += curvature
    hessian[k, k + 1] -= curvature
    hessian[k + 1, k] -= curvature
    return hessian


class OrdinalRounding(Rounding):
    """`Rounding` with thresholds in the place of the intercept.

    Parameters
    ----------
    facts : DataSummary
    loss : Loss
    shares : (K,) array
        Total weights of the classes, all above zero.
    scale : float
        C.
    penalty : Ridge or Tikhonov
    on_device : bool
        Whether the sums are made on a GPU.
    """

    def __init__(
        self,
        facts: DataSummary,
        loss: Loss,
        shares: np.ndarray,
        scale: float,
        penalty: Ridge | Tikhonov,
        *,
        on_device: bool,
    ) -> None:
        super().__init__(
            facts,
            loss,
            fit_intercept=True,
            on_device=on_device,
            run=None if facts.sparse else SUMMED_ROWS,
            penalty=penalty,
        )
        self.is_narrow = False  # a device's Grams are cuBLAS's, of any width
        self.row += 2  # an offset and a threshold are added to a margin
        self.constants = constants_of(shares, loss)
        # weights of the barriers between the thresholds of a class
        self.masses = scale * shares[1:-1]

    # ---- parts of vectors
    def thresholds(self, v: Vector) -> np.ndarray:
        """Return the part of a vector by thresholds, (K - 1,)."""
        assert not isinstance(v, Norms)
        return np.asarray(v[self.n_features :])

    def size(self, w: Vector) -> float:
        """Bound the sum of the sizes of the terms of any row's margin from a threshold."""
        largest = float(np.abs(self.thresholds(w)).max(initial=0.0))
        return self._margin(w) + self.offset + largest

    def _margin(self, w: Vector) -> float:
        """Bound the sum of the sizes of the terms of any x.w."""
        features = self.norm(w) * self.radius
        if np.ndim(self.columns):
            features = min(features, float(np.abs(w[: self.n_features]) @ self.columns))
        return features

    # ---- errors
    def margin_errors(self, w: np.ndarray, squares: np.ndarray, weight: float) -> float:
        """Bound the root of the weighted sum of the squared errors of all distances of margins from
        thresholds; see `Rounding.margin_errors`.
        """
        largest = float(np.abs(self.thresholds(w)).max(initial=0.0))
        return super().margin_errors(np.append(w[: self.n_features], largest), squares, weight)

    def gradient(self, w: Vector, value: float, *, scale: float, weight: float) -> GradientError:
        """Bound the error of the gradient at w; see `Rounding.gradient`.

        The derivative of a barrier is computed from its gap, and off by so many roundings of the
        gap as it is steep: in two entries.
        """
        error = super().gradient(w, value, scale=scale, weight=weight)
        gaps = np.diff(self.thresholds(w))
        if not (gaps > 0.0).all():
            return error
        slopes = self.masses * np.abs(barrier_slope(gaps))
        off = 2.0 * UNIT * float(((FEW + gaps) * slopes).sum())
        return error._replace(adding=error.adding + off)

    def hessian(self, w: Vector, *, exact: bool) -> float:
        """Bound the error of an entry (j, k) of a Hessian as a share of sqrt(H_jj H_kk).

        To `gram` it adds what roundings of margins and of gaps do to curvatures.
        """
        found = self.gram(exact=exact)
        gap = float(np.diff(self.thresholds(w)).max(initial=0.0))
        return found + 2.0 * UNIT * (self.row * self.size(w) + FEW + gap)

    # ---- bounds
    def features(self, gradient: Vector, error: GradientError) -> float:
        """Bound the norm of the exact gradient by the features, of rows less the ball's centre."""
        centre, radius = self.ball
        adding = error.adding * self.radius + error.penalty
        if centre is None:
            norm = self.norm(gradient)
        else:
            assert not isinstance(gradient, Norms)
            # the slopes of all rows add up to minus those of the thresholds
            total = -float(self.thresholds(gradient).sum())
            norm = self.norm(gradient[: self.n_features] - total * centre)
            adding += error.adding * float(np.linalg.norm(centre))
        return norm + adding + error.slopes * radius

    def steepest(self, gradient: Vector, error: GradientError) -> float:
        """Bound |grad F|, the exact gradient by the features at their best thresholds: `convex`."""
        slopes = float(np.abs(self.thresholds(gradient)).sum()) + error.slopes + error.adding
        return self.features(gradient, error) + self.ball.radius * slopes

    def convex(
        self,
        w: Vector,
        gradient: Vector,
        value: float,
        error: GradientError,
        intercept_radius: float,
        near: float = math.inf,
    ) -> float:
        """Bound the excess at w by strong convexity of F(w) = min over t of f(w, t).

        f(w, t) - F(w) is at most sum_k |g_k| |t_k - t_k(w)|, where the best threshold t_k(w) is
        within radius |w| and the largest offset of that of a fit without features, on rows less the
        centre; or at most `near`, of `near_thresholds`. F(w) - min F is at most |grad F|^2 /
        (2 mu), and grad F within radius |g_t|_1 of the gradient by w at t. Or, without grad F:
        |g_w|^2 / (2 mu) bounds the excess at the thresholds as they are, and the best ones are
        bounded in the same way with mu |w*|^2 / 2 at most the objective. `intercept_radius` is not
        used.
        """
        if not self.strong:
            return math.inf
        assert not isinstance(w, Norms)
        centre, radius = self.ball
        slopes = np.abs(self.thresholds(gradient))
        off = error.slopes + error.adding
        apart = self.thresholds(w) - self.constants
        if centre is not None:
            apart = apart - float(centre @ w[: self.n_features])
        apart = np.abs(apart)

        def cost(reach: float) -> float:
            """Bound the cost of thresholds if margins of centred rows are within `reach`."""
            distance = apart + reach + self.offset
            return float(slopes @ distance) + off * float(distance.max(initial=0.0))

        here = cost(radius * self.norm(w))
        bound = self._fall(self.steepest(gradient, error)) + min(here, near)
        largest = math.sqrt(2.0 * max(value, 0.0) / self.strong)
        return min(bound, self._fall(self.features(gradient, error)) + cost(radius * largest))

    def hides(
        self,
        wanted: float,
        w: np.ndarray,
        value: float,
        error: GradientError,
        intercept_radius: float,
        near: float = math.inf,
    ) -> bool:
        """Return whether a gradient of zero would not prove a wanted bound; see `Rounding`.

        `near` is not used, since it is by the gradient as it is.
        """
        return super().hides(wanted, w, value, error, intercept_radius)

    def near_thresholds(
        self, w: np.ndarray, curvatures: np.ndarray, gradient: np.ndarray, error: GradientError
    ) -> float:
        """Bound f(w, t) - min over t of f(w, t), by the Hessian by thresholds; perhaps infinite.

        `curvatures` (K - 1,) are those of the logistic terms, times C.
        """
        t = self.thresholds(w)
        gaps = np.diff(t)
        hessian = barrier_hessian(gaps, self.masses) + np.diag(curvatures)
        if not np.isfinite(hessian).all():
            return math.inf
        entries = self.terms * UNIT + self.hessian(w, exact=True)
        factor = HessianFactor.of(hessian, entries)
        if not factor.proves:
            return math.inf
        decrement = factor.decrement(self.thresholds(gradient))
        decrement += (error.slopes + error.adding) * float(factor.roots.max())
        reach = max(float(factor.roots.max()), self._barrier_reach(factor, gaps, 0))
        return excess(decrement, reach)

    def by_own_hessian(
        self, factor: HessianFactor, w: Vector, gradient: np.ndarray, error: GradientError
    ) -> float:
        """Bound the excess at w by the whole Hessian there: `rounding.excess`; perhaps infinite."""
        if not (factor.proves and self.loss.is_bounded):
            return math.inf
        decrement = factor.decrement(gradient)
        decrement += factor.error(error, self.n_features, self.columns)
        gaps = np.diff(self.thresholds(w))
        reach = max(self.reach(factor), self._barrier_reach(factor, gaps, self.n_features))
        return excess(decrement, reach)

    def reach(self, factor: HessianFactor) -> float:
        """Bound the change of any z - t by a step of norm one in that of the exact Hessian."""
        d, m = self.n_features, len(self.constants)
        centre, radius = self.ball
        rows = radius * float(np.linalg.norm(factor.roots[:d]))
        if centre is None:
            return rows + float(factor.roots[d:].max())
        vectors = np.concatenate([np.tile(centre, (m, 1)), -np.eye(m)], axis=1)
        return rows + max(factor.decrement(v) for v in vectors)

    def _barrier_reach(self, factor: HessianFactor, gaps: np.ndarray, first: int) -> float:
        """Bound the rate at which a barrier's curvature can fall along a step of norm one.

        It is coth(g / 2) times the change of the gap; thresholds are the entries from `first` on.
        """
        found = 0.0
        for k, rate in enumerate(barrier_rate(gaps)):
            v = np.zeros(len(factor.roots))
            v[first + k : first + k + 2] = -1.0, 1.0
            found = max(found, float(rate) * factor.decrement(v))
        return found
