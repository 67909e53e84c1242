"""Cholesky factors of computed Hessians, and what they say of the exact ones in spite of rounding.

`docs/certificates.md` has the proofs; `rounding` uses the factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from daskglm.certificates.two_factors import TwoFactors
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.cross import Cross

Hessian = np.ndarray | BlockHessian

# For what bounds points, wherever it is asked from: far out, what has overflowed proves nothing.
FAR_OUT = np.errstate(over="ignore", invalid="ignore")
# Unit roundoff of float64.
UNIT = 2.0**-53
# Roundings of one term of a sum before it is added: of a root, a product, a slope.
FEW = 8
# Share of a scaled Hessian's least eigenvalue that may be in doubt for it to prove anything.
MOST_CHANGED = 0.5
# Share of a diagonal entry that the last coefficient explains from which a Hessian is factorised
# less that, too: columns with means of three times what they vary by have as much. Chosen.
FAR = 0.9
# Levels whose rows are solved for at a time, so that they stay in a cache. Chosen.
LEVELS_AT_ONCE = 2048


class GradientError(NamedTuple):
    """Bounds on the error of a computed gradient.

    Parameters
    ----------
    margins : float
        In the norm of the inverse Hessian: what errors of the margins do, for losses whose
        curvature varies slowly.
    slopes : float
        Sum of the errors of the slopes, by errors of the margins.
    adding : float
        Of the intercept's entry, from adding up; that of a feature's is so many times the column's
        largest value.
    penalty : float
        Norm of that from the penalty's part.
    """

    margins: float
    slopes: float
    adding: float
    penalty: float


class Triangle(NamedTuple):
    """A lower triangle (n, n) by which systems are solved."""

    lower: np.ndarray

    def forward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse."""
        return scipy.linalg.lapack.dtrtrs(self.lower, v, lower=1)[0]

    def backward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of the transpose."""
        return scipy.linalg.lapack.dtrtrs(self.lower, v, lower=1, trans=1)[0]

    def times(self, root: float) -> Triangle:
        """Return the triangle times a number."""
        return Triangle(root * self.lower)


class CentredTriangle(NamedTuple):
    """The factor of a Hessian whose last coefficient takes its best value: H = S'LL'S.

    S changes a vector (v, b) to (v, b + means.v): of an intercept b that centres the columns. L has
    no entries between b and others.

    Parameters
    ----------
    lower : (n, n) array
        L.
    means : (n - 1,) array
    """

    lower: np.ndarray
    means: np.ndarray

    def forward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of S'L."""
        centred = np.append(v[:-1] - self.means * v[-1], v[-1])
        return scipy.linalg.lapack.dtrtrs(self.lower, centred, lower=1)[0]

    def backward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of L'S."""
        found = scipy.linalg.lapack.dtrtrs(self.lower, v, lower=1, trans=1)[0]
        return np.append(found[:-1], found[-1] - self.means @ found[:-1])

    def times(self, root: float) -> CentredTriangle:
        """Return the triangle times a number."""
        return CentredTriangle(root * self.lower, self.means)


class BlockTriangle(NamedTuple):
    """The factor of a `BlockHessian`, by which systems are solved: the levels go first.

    It is [[E, 0], [F', L]] with E the roots of D, F = E^-1 B and LL' the Schur complement. Vectors
    that `forward` returns are in that order.

    Parameters
    ----------
    start : int
        Of the Hessian.
    roots : (m,) array
    cross : Cross
    lower : (q, q) array
    """

    start: int
    roots: np.ndarray
    cross: Cross
    lower: np.ndarray

    def forward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse."""
        m, start = len(self.roots), self.start
        levels = v[start : start + m] / self.roots
        rest = np.concatenate([v[:start], v[start + m :]]) - self.cross.transposed_times(levels)
        return np.append(levels, scipy.linalg.lapack.dtrtrs(self.lower, rest, lower=1)[0])

    def backward(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the inverse of the transpose."""
        m, start = len(self.roots), self.start
        rest = scipy.linalg.lapack.dtrtrs(self.lower, v[m:], lower=1, trans=1)[0]
        levels = (v[:m] - self.cross @ rest) / self.roots
        return np.concatenate([rest[:start], levels, rest[start:]])

    def times(self, root: float) -> BlockTriangle:
        """Return the triangle times a number."""
        cross = self.cross.scaled(root)
        return BlockTriangle(self.start, root * self.roots, cross, root * self.lower)


@dataclass(frozen=True)
class HessianFactor:
    """Cholesky factor L of a computed Hessian, with bounds on the inverse of the exact one.

    Parameters
    ----------
    factor : Triangle, CentredTriangle, BlockTriangle or TwoFactors
        The last is no factor, but says as much; rounding is in what it says.
    norm : float
        Bound on the norm of the inverse of the Hessian scaled to a unit diagonal, of a centred one
        if that is factorised; infinite for a singular one.
    doubt : float
        Share of the scaled Hessian's least eigenvalue that rounding may have made.
    roots : (n,) array
        Bounds on the roots of the diagonal of the inverse of the exact Hessian.
    at : (n,) array, optional
        The coefficients where the Hessian was summed, if it is used elsewhere.
    width : int, optional
        Columns over which errors of entries add up, at most; default: all.
    spread : float
        By how many times the errors of entries are larger where the Hessian is centred.
    """

    factor: Triangle | CentredTriangle | BlockTriangle | TwoFactors
    norm: float
    doubt: float
    roots: np.ndarray
    at: np.ndarray | None = None
    width: int | None = None
    spread: float = 1.0

    @classmethod
    def for_steps(cls, hessian: Hessian, error: float, at: np.ndarray) -> HessianFactor:
        """Factorise the Hessian at a point; if it is singular, with more on its diagonal.

        A changed Hessian is good enough for steps, but proves nothing.
        """
        for ridge in (0.0, 1e-10, 1e-6, 1e-2):  # shares of the diagonal
            more = ridge * hessian.diagonal()
            if isinstance(hessian, BlockHessian):
                found = cls.of(hessian.plus_diagonal(more), error)
            else:
                found = cls.of(hessian + np.diag(more), error)
            if math.isfinite(found.norm):
                break
        return replace(found, at=at, doubt=found.doubt if ridge == 0.0 else math.inf)

    @classmethod
    def of(cls, hessian: Hessian, error: float) -> HessianFactor:
        """Factorise a Hessian.

        Its entries (j, k) are known to `error` times sqrt(H_jj H_kk); see `Rounding.gram`. One that
        is singular, or has overflowed, proves nothing.
        """
        if isinstance(hessian, BlockHessian):
            return cls._of_block(hessian, error)
        n = len(hessian)
        if not np.isfinite(hessian).all():
            return cls(Triangle(np.eye(n)), math.inf, math.inf, np.full(n, math.inf))
        means = _means(hessian)
        plain = cls._of_dense(hessian, error)
        if means is None:
            return plain
        centred = cls._of_dense(hessian, error, means)
        return centred if centred.doubt < plain.doubt else plain

    @classmethod
    @FAR_OUT
    def _of_dense(
        cls, hessian: np.ndarray, error: float, means: np.ndarray | None = None
    ) -> HessianFactor:
        """Factorise a Hessian, with `means` that of columns less their means."""
        n = len(hessian)
        sizes = root = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        if means is not None:
            hessian = _centred(hessian, means)
            sizes = np.append(root[:-1] + np.abs(means) * root[-1], root[-1])
            root = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
            error += FEW * UNIT
        # LAPACK's own names: SciPy's checks would take longer than matrices of 30 rows
        L, failed = scipy.linalg.lapack.dpotrf(hessian / root[:, None] / root, lower=1)
        if failed or not np.isfinite(L).all():
            return cls(Triangle(np.diag(root)), math.inf, math.inf, np.full(n, math.inf))

        # the Frobenius norm of the whole inverse, from its lower triangle; the other one is zero
        inverse = scipy.linalg.lapack.dpotri(L, lower=1)[0]
        diagonal = inverse.diagonal()
        norm = math.sqrt(2.0 * float((inverse * inverse).sum()) - float(diagonal @ diagonal))

        # factorisation and solves change a matrix with a unit diagonal by 4 n (n + 2) roundoffs,
        # errors of entries by at most the sum of (sizes / root)^2 of them
        spread = float(np.square(sizes / root).sum()) / n
        doubt = 2.0 * n * (error * spread + 4 * (n + 2) * UNIT) * norm
        roots = np.sqrt(_growth(doubt) * diagonal) / root
        doubt = doubt if math.isfinite(doubt) else math.inf
        if means is None:
            return cls(Triangle(L * root[:, None]), norm, doubt, roots)
        triangle = CentredTriangle(L * root[:, None], means)
        last = triangle.forward(np.append(np.zeros(n - 1), 1.0))
        roots[-1] = math.sqrt(_growth(doubt)) * length(last)
        return cls(triangle, norm, doubt, roots, spread=spread)

    @classmethod
    def _of_block(cls, hessian: BlockHessian, error: float) -> HessianFactor:
        """Factorise a Hessian with a diagonal block; `docs/certificates.md` has the bounds."""
        m, q = hessian.cross.shape
        unknown = np.full(m + q, math.inf)
        if hessian.is_nested:
            # what is left has no triangle that would be small
            flows = TwoFactors.below(hessian, error)
            if flows is None:
                return cls(Triangle(np.empty((0, 0))), math.inf, math.inf, unknown, None, q + 1)
            roots = flows.roots()
            return cls(flows, float(hessian.diagonal() @ np.square(roots)), 0.0, roots)
        if not hessian.is_finite:
            ones = BlockTriangle(hessian.start, np.ones(m), Cross.zeros(m, q), np.eye(q))
            return cls(ones, math.inf, math.inf, unknown, None, q + 1)
        top, cross, complement = hessian.schur
        root = np.sqrt(np.maximum(hessian.rest.diagonal(), 1e-300))
        L, failed = scipy.linalg.lapack.dpotrf(complement / root[:, None] / root, lower=1)
        if failed or not (hessian.levels > 0.0).all() or not np.isfinite(L).all():
            alone = BlockTriangle(hessian.start, top, Cross.zeros(m, q), np.diag(root))
            return cls(alone, math.inf, math.inf, unknown, None, q + 1)

        # the inverse is diag(1, 0) + VV' with V = [F; -1] L^-T, whose norm is that of V'V, and F'F
        # is what the Schur complement S lacks of the others' part A: V'V = L^-1 (A + 1) L^-T - 1,
        # whose squares' sum is a trace of powers of S^-1 (A + 1)
        inverse = scipy.linalg.lapack.dpotri(L, lower=1)[0]
        inverse += np.tril(inverse, -1).T
        product = inverse @ (hessian.rest / root[:, None] / root) + inverse
        square = float((product * product.T).sum()) - 2.0 * float(np.trace(product)) + q
        norm = 1.0 + math.sqrt(max(square, 0.0))
        doubt = 2.0 * ((q + 1) * error + 4.0 * (q + 1) * (m + q + 2 + FEW) * UNIT) * norm
        if cross.is_sparse.any():
            # rows of F L^-T one by one would be as many numbers as a dense F has
            squares = length(inverse) * cross.row_squares(1.0 / root)
        else:
            squares = np.empty(m)
            for lo in range(0, m, LEVELS_AT_ONCE):
                some = slice(lo, lo + LEVELS_AT_ONCE)
                F = scipy.linalg.blas.dtrsm(1.0, L, (cross.dense[some] / root).T, lower=1)
                squares[some] = np.square(F, out=F).sum(axis=0)
        of_levels = np.sqrt(_growth(doubt) * (1.0 + squares)) / top
        of_rest = np.sqrt(_growth(doubt) * inverse.diagonal()) / root
        roots = hessian.joined(of_levels, of_rest)
        triangle = BlockTriangle(hessian.start, top, cross, L * root[:, None])
        return cls(triangle, norm, doubt if math.isfinite(doubt) else math.inf, roots, None, q + 1)

    def times(self, scale: float) -> HessianFactor:
        """Return the factor of the Hessian times a positive number."""
        assert not isinstance(self.factor, TwoFactors)  # of matrices with all entries alone
        root = math.sqrt(scale)
        return replace(self, factor=self.factor.times(root), roots=self.roots / root)

    @property
    def proves(self) -> bool:
        """Whether the exact Hessian is known well enough for a bound."""
        return self.doubt <= MOST_CHANGED

    @property
    def root_trace(self) -> float:
        """Bound on the root of the trace of the inverse of the exact Hessian."""
        # by BLAS's nrm2, which does not overflow where squares do
        return length(self.roots)

    def is_doubtful(self, likely: float) -> bool:
        """Return whether a step by this Hessian may lead elsewhere, if entries are off by `likely`.

        Such errors have random signs: more than a quarter of the least eigenvalue is too much.
        """
        width = len(self.roots) if self.width is None else self.width
        return not math.sqrt(width) * self.spread * likely * self.norm <= 0.25

    def step(self, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Newton's step, and the square of its decrement, gradient' H^-1 gradient."""
        if isinstance(self.factor, TwoFactors):
            return self.factor.step(gradient)
        half = self.factor.forward(gradient)
        return -self.factor.backward(half), float(half @ half)

    def decrement(self, gradient: np.ndarray) -> float:
        """Bound the decrement of an exact gradient by the exact Hessian.

        The bound is infinite where nothing is proved.
        """
        if not self.proves:
            return math.inf
        if isinstance(self.factor, TwoFactors):
            return self.factor.length(gradient)
        half = self.factor.forward(gradient)
        with np.errstate(over="ignore"):  # an infinite bound proves nothing
            return math.sqrt(float(half @ half) / (1.0 - self.doubt))

    def error(self, error: GradientError, n_features: int, widest: float) -> float:
        """Bound a gradient's error in the norm of the inverse Hessian.

        `widest` is `Rounding.widest` of the features' roots.
        """
        features = self.roots[:n_features]
        adding = widest + float(self.roots[n_features:].sum())
        penalty = error.penalty * float(features.max(initial=0.0))
        return error.margins + error.adding * adding + penalty


def _means(hessian: np.ndarray) -> np.ndarray | None:
    """Return what the last coefficient is to change by with each of the others; None: not at all.

    Of an intercept these are weighted means of the columns. Where they are far from zero the
    Hessian is nearly singular, and one of centred columns is not.
    """
    diagonal, beside = hessian.diagonal(), hessian[:-1, -1]
    if not (len(beside) and diagonal[-1] > 0.0):
        return None
    means: np.ndarray = beside / diagonal[-1]
    return means if (means * beside > FAR * diagonal[:-1]).any() else None


def _centred(hessian: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the Hessian by centred columns, with S^-1 H S^-1' of `CentredTriangle`."""
    found = hessian.copy()
    found[:-1, :-1] -= np.outer(means, hessian[:-1, -1])
    found[:-1, -1] = found[-1, :-1] = 0.0
    return found


def length(values: np.ndarray) -> float:
    """Return the Euclidean norm of numbers whose squares may overflow; Frobenius' of a matrix."""
    return float(scipy.linalg.norm(values, check_finite=False))


def _growth(doubt: float) -> float:
    """Bound by how many times the inverse of the exact Hessian may be larger."""
    return 1.0 / (1.0 - doubt) if doubt <= MOST_CHANGED else math.inf


def excess(decrement: float, reach: float) -> float:
    """Bound f(w) - min f by the Newton decrement nu at w.

    Curvature changes at a rate of at most `reach`: |D3 f [u, v, v]| <= reach |u|_H v'H v, with the
    Hessian H at w. Along any u then f(w + u) >= f(w) + g'u + u'Hu h(reach |u|_H) with
    h(t) = (exp(-t) + t - 1) / t^2, which falls in t (Bach 2010, Proposition 1). The least of that
    over |u|_H is in closed form: with s = reach nu < 1, f(w) - min f is at most
    nu^2 (s + (1 - s) log(1 - s)) / s^2, which is nu^2 / 2 for small s. Infinite for s >= 1.
    """
    s = reach * decrement
    if not s < 1.0:
        return math.inf
    if s < 1e-4:  # the quotient cancels
        share = 0.5 + s / 6.0
    else:
        share = (s + (1.0 - s) * math.log1p(-s)) / (s * s)
    return decrement * decrement * share
