"""What bounds ask of the constants of margins, which have no penalty and end each vector.

They are an intercept, intercepts of several classes, or thresholds of ordered ones. Vectors hold
sets of coefficients of the features before them: one, or r of several classes, K - 1 along an
orthonormal basis B of the classes' contrasts or K along the unit vectors, so that norms are those
of all coefficients W. The proofs are in `docs/certificates.md`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from daskglm.certificates.far_columns import apart as apart_from_means
from daskglm.certificates.hessian_factor import FEW, UNIT, HessianFactor, excess, length
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import (
    LOSS,
    barrier_curvature,
    barrier_rate,
    barrier_slope,
    link_of_loss,
)

if TYPE_CHECKING:
    from daskglm.certificates.ball import Ball
    from daskglm.certificates.rounding import Rounding

# For intercepts of classes whose Newton decrement D, times the rate at which their Hessian changes,
# is at most this: their excess is at most so many D^2, and the distance from the best ones in the
# norm of mean Hessians so many D.
NEAR, EXCESS, DISTANCE = 0.25, 0.55, 1.25
# Share of the intercepts' Hessian that rounding leaves, and its least eigenvalue over the largest
# for it to be known so well.
LEFT, DEFINITE = 0.98, 1e-8


@dataclass(frozen=True, eq=False, kw_only=True)
class Constants(ABC):
    """Constants c of margins, with what is the same for all that move one margin alike.

    Arguments that methods share: `slopes` (count,) is the gradient by them, `off` a bound on its
    error, and `near` says of a point how near they are to the best ones: infinite if that is not
    known.

    Parameters
    ----------
    moves : (sets, count) array
        How they move the margin of each set of coefficients.
    start : (count,) array
        Those of a fit without features.
    offset : float, optional
        By how much the best ones may be farther from these, as offsets are; None: by the
        `intercept_radius` of an objective.
    row : int
        Roundings of a margin, beside those with an intercept.
    change : int
        Of these the ones between sets of coefficients and margins.
    term, entry : float
        Other roundings of a term of a sum, and error of an entry of a Hessian.
    has_kernels : bool
        Whether devices have kernels of their own for narrow Grams; else these are cuBLAS's.
    """

    moves: np.ndarray
    start: np.ndarray
    offset: float | None = None
    row: int = 0
    change: int = 0
    term: float = 0.0
    entry: float = 0.0
    has_kernels: bool = False

    @cached_property
    def sets(self) -> int:
        """Sets of coefficients of the features."""
        return self.moves.shape[0]

    @cached_property
    def count(self) -> int:
        """How many constants there are."""
        return self.moves.shape[1]

    # ---- rounding
    def size(self, c: np.ndarray) -> float:
        """Bound what they add to the size of a row's margins."""
        return float(np.abs(c).max(initial=0.0))

    def adding(self, c: np.ndarray) -> float:
        """Bound the error of what is added to the gradient by them, beside sums over rows."""
        return 0.0

    def bending(self, c: np.ndarray, margin: float) -> float:
        """Bound what errors of margins and constants do to curvatures, as a share of these.

        Losses of one margin have errors of margins, of at most `margin`, in those of the gradient.
        """
        return 0.0

    # ---- how near they are to the best ones
    def cost(
        self, apart: np.ndarray, slopes: np.ndarray, off: float, radius: float, farther: float
    ) -> tuple[float, float]:
        """Bound slopes.(c - c*) by a number, and another times the norm of coefficients.

        c* are the best constants for some coefficients, or the optimum's. They are within `radius`
        times the norm of those, and `farther`, of `start`, from which these are `apart`.
        """
        distances = np.abs(apart) + farther
        first = float(np.abs(slopes) @ distances) + off * float(distances.max(initial=0.0))
        return first, radius * self.moved(slopes, off, 0.0)

    def moved(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound the change of all slopes up to the best constants."""
        return float(np.abs(slopes).sum()) + off

    @abstractmethod
    def excess(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound by how much the best constants would lower the objective."""

    @abstractmethod
    def shifts(
        self, slopes: np.ndarray, off: float, near: float, rows: Rounding, mass: float, total: float
    ) -> tuple[np.ndarray | float, np.ndarray]:
        """Return each feature's change of slope up to the best constants, and what that is off by.

        `mass` is C times the largest curvature of a loss, `total` the sum of the rows' weights.
        """

    def reach(
        self, factor: HessianFactor, ball: Ball, n_features: int, c: np.ndarray | None
    ) -> float:
        """Bound the change of a row's margins by a step of norm one in that of the exact Hessian.

        With the constants `c` where that is, the rate counts at which what they add may change.
        """
        if ball.centre is None:
            return math.hypot(ball.radius, float(self.count > 0)) * factor.root_trace
        width, alike = n_features // self.sets, []
        for a in range(self.sets):
            v = np.zeros(len(factor.roots))
            v[a * width : (a + 1) * width] = ball.centre
            v[n_features + a] = 1.0
            alike.append(factor.decrement(v))
        roots = factor.roots[:n_features]
        return ball.radius * length(roots) + math.hypot(*alike)


class Intercept(Constants):
    """One intercept, or none; `near` bounds its distance from the best one."""

    @classmethod
    def of(cls, *, fit_intercept: bool) -> Self:
        """Return those of one margin."""
        m = int(fit_intercept)
        return cls(moves=np.ones((1, m)), start=np.zeros(m), has_kernels=True)

    # one number, without NumPy, whose calls would take as long as a small fit's arithmetic
    def size(self, c: np.ndarray) -> float:
        """Bound what it adds to the size of a row's margin."""
        return abs(float(c[0])) if self.count else 0.0

    def cost(
        self, apart: np.ndarray, slopes: np.ndarray, off: float, radius: float, farther: float
    ) -> tuple[float, float]:
        """Bound slope (c - c*) by a number, and another times the norm of coefficients."""
        slope, distance = abs(float(slopes[0])), abs(float(apart[0])) + farther
        return slope * distance + off * distance, radius * (slope + off)

    def moved(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound the change of all slopes up to the best constant."""
        return (abs(float(slopes[0])) if self.count else 0.0) + off

    def excess(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound it by convexity."""
        return self.moved(slopes, off, near) * near if math.isfinite(near) else math.inf

    def shifts(
        self, slopes: np.ndarray, off: float, near: float, rows: Rounding, mass: float, total: float
    ) -> tuple[float, np.ndarray]:
        """Bound the changes, which have the same direction for the slopes of all rows."""
        found = self.moved(slopes, off, near) * rows.largest
        if rows.squares is not None and math.isfinite(mass):
            most = mass * math.sqrt(total) * near
            found = np.minimum(found, most * np.sqrt(rows.squares))
        return 0.0, found


def contrasts(K: int) -> np.ndarray:
    """Return an orthonormal basis (K, K - 1) of the vectors whose entries sum to zero (Helmert)."""
    basis = np.zeros((K, K - 1))
    for a in range(K - 1):
        basis[: a + 1, a] = 1.0
        basis[a + 1, a] = -(a + 1.0)
        basis[:, a] /= math.sqrt((a + 1.0) * (a + 2.0))
    return basis


@dataclass(frozen=True, eq=False, kw_only=True)
class Intercepts(Constants):
    """Intercepts of K classes, or none; `near` bounds their Newton decrement.

    Slopes of several classes do not all change in one direction, so that without it nothing is
    known of them at the best intercepts.

    Parameters
    ----------
    basis : (K, r) array
        See `contrasts`.
    mass : float
        C times the sum of the rows' weights.
    """

    basis: np.ndarray
    mass: float

    @classmethod
    def of(
        cls,
        basis: np.ndarray,
        shares: np.ndarray,
        *,
        fit_intercept: bool,
        mass: float,
        offset: float,
        own_offsets: bool,
    ) -> Self:
        """Return those of classes with these total weights, (K,).

        `offset` is the largest norm of a row's offsets, and `own_offsets` says whether each class
        has its own.
        """
        K, sets = basis.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(shares / shares.sum())
            start = basis.T @ (logs - logs.mean())
        # margins, and sums of slopes, change between V and W; an offset of its own is added
        change = math.ceil(K**1.5) + own_offsets
        m = sets * fit_intercept
        return cls(
            moves=np.eye(sets, m),
            start=start[:m],
            offset=offset,
            row=change,
            change=change,
            term=K**1.5 + 2 * K,
            # sums over pairs of classes of entries of Grams times products of B
            entry=(K * (K - 1) / 2.0 + FEW) * UNIT,
            basis=basis,
            mass=mass,
        )

    def size(self, c: np.ndarray) -> float:
        """Return the Euclidean norm, as other bounds on the margins of a row are."""
        return float(np.linalg.norm(c))

    def cost(
        self, apart: np.ndarray, slopes: np.ndarray, off: float, radius: float, farther: float
    ) -> tuple[float, float]:
        """Bound slopes.(c - c*) by a number, and another times |W|.

        At the best intercepts each class has as much probability as weight, so differences are
        within sqrt(2) times |W| R, and the largest norm of a row's offsets, of those of the
        classes' log weights.
        """
        fixed = abs(float(slopes @ apart)) + off * float(np.linalg.norm(apart))
        total = float(np.abs(self.basis @ slopes).sum()) + math.sqrt(len(self.basis)) * off
        return fixed + total * farther / math.sqrt(2.0), total * radius / math.sqrt(2.0)

    def moved(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound the change of all slopes up to the best intercepts, by the decrement."""
        return DISTANCE * near * math.sqrt(0.5 * self.mass)

    def excess(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Bound it by the decrement."""
        return EXCESS * near * near

    def shifts(
        self, slopes: np.ndarray, off: float, near: float, rows: Rounding, mass: float, total: float
    ) -> tuple[float, np.ndarray]:
        """Bound the changes by the decrement, of the intercepts and of free features alike."""
        found: np.ndarray = DISTANCE * near * np.sqrt(mass * rows.sums_of_squares(total))
        return 0.0, found

    def near(self, hessian: np.ndarray, slopes: np.ndarray, off: float) -> float:
        """Bound the Newton decrement; infinite if it is not small.

        `hessian` (K - 1, K - 1) and `slopes` (K - 1,) are those along contrasts, computed.
        """
        values = np.linalg.eigvalsh(hessian)
        if not values[0] > DEFINITE * values[-1]:
            return math.inf
        root = math.sqrt(LEFT * float(values[0]))
        decrement = (float(np.linalg.norm(slopes)) + off) / root
        return decrement if math.sqrt(2.0) * decrement / root <= NEAR else math.inf


def thresholds_of(shares: np.ndarray, loss: Loss = LOSS) -> np.ndarray:
    """Return the thresholds (K - 1,) of a fit without features: the link of cumulative shares."""
    below, above = np.cumsum(shares)[:-1], np.cumsum(shares[::-1])[::-1][1:]
    return link_of_loss(loss.name).quantiles(below, above)


def hessian_of_gaps(curvature: np.ndarray) -> np.ndarray:
    """Return the Hessian by thresholds of what has these curvatures (K - 2,) by gaps."""
    m = len(curvature) + 1
    hessian, k = np.zeros((m, m)), np.arange(m - 1)
    hessian[k, k] += curvature
    hessian[k + 1, k + 1] += curvature
    hessian[k, k + 1] -= curvature
    hessian[k + 1, k] -= curvature
    return hessian


@dataclass(frozen=True, eq=False, kw_only=True)
class Thresholds(Constants):
    """Thresholds of K ordered classes, which are taken off the margin.

    `near` bounds the excess itself, over the objective at the best thresholds.

    Parameters
    ----------
    masses : (K - 2,) array
        Weights of the barriers between the thresholds of a class, times C.
    """

    masses: np.ndarray

    @classmethod
    def of(cls, shares: np.ndarray, loss: Loss, C: float, offset: float) -> Self:
        """Return those of classes with these total weights, (K,).

        `offset` is the largest of a row.
        """
        start = thresholds_of(shares, loss)
        moves, masses = -np.ones((1, len(start))), C * shares[1:-1]
        # an offset and a threshold are added to a margin
        return cls(moves=moves, start=start, offset=offset, row=2, masses=masses)

    def adding(self, c: np.ndarray) -> float:
        """Bound the errors of derivatives of barriers.

        They are computed from gaps, and off by so many roundings of a gap as they are steep: in two
        entries.
        """
        gaps = np.diff(c)
        if not (gaps > 0.0).all():
            return 0.0
        slopes = self.masses * np.abs(barrier_slope(gaps))
        return 2.0 * UNIT * float(((FEW + gaps) * slopes).sum())

    def bending(self, c: np.ndarray, margin: float) -> float:
        """Bound what errors of margins and of gaps do to curvatures, as a share of these."""
        return 2.0 * (margin + UNIT * (FEW + float(np.diff(c).max(initial=0.0))))

    def excess(self, slopes: np.ndarray, off: float, near: float) -> float:
        """Return `near`."""
        return near

    def shifts(
        self, slopes: np.ndarray, off: float, near: float, rows: Rounding, mass: float, total: float
    ) -> tuple[np.ndarray | float, np.ndarray]:
        """Return the changes if thresholds move with the means, and bound what these are off by.

        Let thresholds cost f(w, t) - F(w) <= e, F(w) = min over t of f(w, t), and let all of them
        move by m_j with w_j: that changes distances from thresholds by x_ij - m_j, with a curvature
        of at most L_j, C L sum_i s_i (x_ij - m_j)^2. Then entry j of the gradient of F is within
        sqrt(2 L_j e) of the slope of f that way. For f less its tangent by w_j at the best
        thresholds is least there, and a step that way lowers it from t by the square of that
        difference over 2 L_j.
        """
        squares, means = rows.squares, rows.means
        if squares is None or means is None:
            return 0.0, np.sqrt(2.0 * near * (mass * rows.sums_of_squares(total)))
        moved = np.abs(means) * off + np.sqrt(2.0 * near * (mass * apart_from_means(rows, total)))
        return means * float(slopes.sum()), moved

    def near(
        self, c: np.ndarray, curvatures: np.ndarray, slopes: np.ndarray, off: float, entry: float
    ) -> float:
        """Bound f(w, t) - min over t of f(w, t), by the Hessian by thresholds; perhaps infinite.

        `curvatures` (K - 1,) are those of the logistic terms, times C; `entry` bounds the errors of
        the Hessian's entries.
        """
        gaps = np.diff(c)
        hessian = hessian_of_gaps(self.masses * barrier_curvature(gaps)) + np.diag(curvatures)
        if not np.isfinite(hessian).all():
            return math.inf
        factor = HessianFactor.of(hessian, entry)
        if not factor.proves:
            return math.inf
        largest = float(factor.roots.max())
        decrement = factor.decrement(slopes) + off * largest
        return excess(decrement, max(largest, _barrier_reach(factor, gaps, 0)))

    def reach(
        self, factor: HessianFactor, ball: Ball, n_features: int, c: np.ndarray | None
    ) -> float:
        """Bound the change of any z - t by a step of norm one in that of the exact Hessian.

        With thresholds `c` the rate counts at which a barrier's curvature can fall.
        """
        roots, m = factor.roots, self.count
        if ball.centre is None:
            most = float(roots[n_features:].max())
        else:
            vectors = np.concatenate([np.tile(ball.centre, (m, 1)), -np.eye(m)], axis=1)
            most = max(factor.decrement(v) for v in vectors)
        found = ball.radius * length(roots[:n_features]) + most
        return found if c is None else max(found, _barrier_reach(factor, np.diff(c), n_features))


def _barrier_reach(factor: HessianFactor, gaps: np.ndarray, first: int) -> float:
    """Bound the rate at which a barrier's curvature can fall along a step of norm one.

    It is coth(g / 2) times the change of the gap; thresholds are the entries from `first` on.
    """
    found = 0.0
    for k, rate in enumerate(barrier_rate(gaps)):
        v = np.zeros(len(factor.roots))
        v[first + k : first + k + 2] = -1.0, 1.0
        found = max(found, float(rate) * factor.decrement(v))
    return found
