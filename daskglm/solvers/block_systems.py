"""Linear systems of Hessians with diagonal blocks: of one by factorisation, of several by products.

The Schur complement of the first block is factorised where it is dense. Else it multiplies vectors,
in conjugate gradients that are preconditioned by what is left without that block (Nocedal & Wright,
algorithm 5.3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from daskglm.core.block_hessian import BlockHessian

# Pivots of a factor of a matrix with a unit diagonal below which that is singular, to about the
# root of double precision. Chosen.
SINGULAR = 1e-7
EPS = float(np.finfo(float).eps)
# Residual of a step by products, as a share of the first one, in the preconditioner's norm: the
# next gradient is as much less, which leaves Newton's method its passes. Products at most. Chosen.
ENOUGH, MOST_PRODUCTS = 1e-8, 500
# Curvature along a direction, as a share of the preconditioner's, that may be rounding alone.
FLAT = 1e-12
# Seed of the vector in which a flat direction is looked for.
FLAT_SEED = 40


class _System:
    """What systems with a diagonal block share: its elimination.

    Levels without curvature have no part in a solution.
    """

    def __init__(self, hessian: BlockHessian) -> None:
        self.hessian = hessian
        self.roots, self.cross = hessian.scaled_cross
        self.has_curvature = hessian.levels > 0.0

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of the Hessian, one where that is zero."""
        found = self.hessian.diagonal()
        return np.where(found == 0.0, 1.0, found)

    @property
    def least(self) -> float:
        """Share of the largest curvature that working precision tells from none."""
        return len(self.hessian) * EPS

    def reduced(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of v by levels, scaled, and what elimination leaves of the others."""
        levels, rest = self.hessian.parts_of(v)
        levels = levels / self.roots
        return levels, rest - self.cross.transposed_times(levels)

    def whole(self, levels: np.ndarray | float, rest: np.ndarray) -> np.ndarray:
        """Return a solution whose part by the others is known, of scaled entries by levels."""
        own = np.where(self.has_curvature, levels - self.cross @ rest, 0.0) / self.roots
        return self.hessian.joined(own, rest)

    def of_levels(self, levels: np.ndarray) -> float:
        """Return what scaled slopes of levels have to gain, twice."""
        return float(np.square(levels) @ (1.0 / np.where(self.has_curvature, 1.0, self.least)))


class Eliminated:
    """Systems of a Hessian with one diagonal block, by its Schur complement, scaled as it is."""

    def __init__(self, hessian: BlockHessian) -> None:
        self.system = _System(hessian)
        self.scale = np.sqrt(np.maximum(hessian.rest.diagonal(), 0.0))
        self.scale[self.scale == 0.0] = 1.0
        self.complement = hessian.schur.complement / self.scale[:, None] / self.scale

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return x with H x = v, or with D x = v, D its diagonal, if it has overflowed."""
        system = self.system
        if not (np.isfinite(self.complement).all() and system.hessian.is_finite):
            return v / system.diagonal
        levels, rhs = system.reduced(v)
        rhs = rhs / self.scale
        if not len(rhs):
            rest = rhs
        elif self.factor is not None:
            rest = scipy.linalg.lapack.dpotrs(self.factor, rhs, lower=1)[0]
        else:
            values, vectors = self.spectrum
            keep = values > self.least
            rest = vectors[:, keep] @ ((vectors[:, keep].T @ rhs) / values[keep])
        return system.whole(levels, rest / self.scale)

    @functools.cached_property
    def factor(self) -> np.ndarray | None:
        """Cholesky factor of the scaled complement; None: it is (nearly) singular."""
        factor, failed = scipy.linalg.lapack.dpotrf(self.complement, lower=1)
        sure = not failed and factor.diagonal().min(initial=1.0) > SINGULAR
        return factor if sure else None

    @property
    def is_regular(self) -> bool:
        """Whether the norm of the inverse of the complement says that it has no flat direction."""
        if self.factor is None:
            return False
        lower = scipy.linalg.lapack.dpotri(self.factor, lower=1)[0]
        norm = math.sqrt(2.0) * float(np.linalg.norm(np.tril(lower)))
        # no eigenvalue of a matrix whose diagonal is at most one is above its size
        return self.system.least * max(len(lower), 1.0) * norm < 1.0

    @functools.cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the scaled complement, ascending, and eigenvectors."""
        values, vectors = scipy.linalg.eigh(self.complement, check_finite=False)
        return values, vectors

    @property
    def least(self) -> float:
        """Eigenvalue of the scaled complement that working precision tells from none."""
        return self.system.least * max(self.spectrum[0][-1], 1.0)

    def fall(self, gradient: np.ndarray) -> float:
        """Return what `expected_fall` does."""
        with np.errstate(over="ignore", invalid="ignore"):
            levels, rest = self.system.reduced(gradient)
            rest = rest / self.scale
            if self.factor is not None:
                found = rest @ scipy.linalg.lapack.dpotrs(self.factor, rest, lower=1)[0]
            else:
                values, vectors = self.spectrum
                found = np.square(vectors.T @ rest) @ (1.0 / np.maximum(values, self.least))
            return 0.5 * (float(found) + self.system.of_levels(levels))

    def flat_direction(self) -> np.ndarray | None:
        """Return what the function of this name does."""
        if self.is_regular:
            return None
        values, vectors = self.spectrum
        empty = int((self.system.hessian.rest.diagonal() <= 0.0).sum())
        if len(values) == empty or values[empty] > self.least:
            return None
        return self.system.whole(0.0, vectors[:, empty] / self.scale)


class Solved(NamedTuple):
    """What conjugate gradients found.

    Parameters
    ----------
    x : array
    left : array
        The residual.
    flat : array, optional
        The direction without curvature at which they ended.
    """

    x: np.ndarray
    left: np.ndarray
    flat: np.ndarray | None


class ByProducts:
    """Systems of a Hessian with several diagonal blocks, by conjugate gradients."""

    def __init__(self, hessian: BlockHessian) -> None:
        self.system, self.near = _System(hessian), _near(hessian.rest)

    def product(self, v: np.ndarray) -> np.ndarray:
        """Multiply by the Schur complement of the first block."""
        cross = self.system.cross
        found: np.ndarray = self.system.hessian.rest @ v
        return found - cross.transposed_times(cross @ v)

    def solve(self, v: np.ndarray) -> np.ndarray:
        """Return x with H x = v, nearly, or with D x = v, D its diagonal, if it has overflowed."""
        if not self.system.hessian.is_finite:
            return v / self.system.diagonal
        levels, rhs = self.system.reduced(v)
        return self.system.whole(levels, self._conjugate(rhs).x)

    def fall(self, gradient: np.ndarray) -> float:
        """Return what `expected_fall` does; what conjugate gradients leave counts as flat."""
        with np.errstate(over="ignore", invalid="ignore"):
            levels, rhs = self.system.reduced(gradient)
            x, left, _ = self._conjugate(rhs)
            flat = float(left @ self.near(left)) / self.system.least
            return 0.5 * (float(rhs @ x) + flat + self.system.of_levels(levels))

    def flat_direction(self) -> np.ndarray | None:
        """Return what the function of this name does: where a random right-hand side leads."""
        rest = self.system.hessian.rest
        size = np.sqrt(np.maximum(rest.diagonal(), 0.0))
        rhs = size * np.random.default_rng(FLAT_SEED).normal(size=len(size))
        way = self._conjugate(rhs).flat
        return None if way is None else self.system.whole(0.0, way)

    def _conjugate(self, rhs: np.ndarray) -> Solved:
        """Solve by the Schur complement; it ends before a direction that is flat."""
        x, left = np.zeros(len(rhs)), rhs
        way, slope, square, first = x, 0.0, 0.0, 0.0
        for k in range(MOST_PRODUCTS):
            near = self.near(left)
            before, slope = slope, float(left @ near)
            first = slope if k == 0 else first
            if not slope > ENOUGH**2 * first:
                break
            share = slope / before if k else 0.0
            way = near + share * way
            square = slope + share * share * square  # of the way, in the preconditioner's norm
            product = self.product(way)
            curvature = float(way @ product)
            if not curvature > FLAT * square:
                return Solved(x, left, way)
            x, left = x + slope / curvature * way, left - slope / curvature * product
        return Solved(x, left, None)


def _near(rest: np.ndarray | BlockHessian) -> Callable[[np.ndarray], np.ndarray]:
    """Return what solves systems of a matrix, or of one near it with more than two blocks.

    That is one sweep over blocks, there and back (symmetric Gauss and Seidel).
    """
    assert isinstance(rest, BlockHessian)
    if not rest.is_nested:
        return Eliminated(rest).solve
    system, near = _System(rest), _near(rest.rest)

    def sweep(v: np.ndarray) -> np.ndarray:
        levels, others = system.reduced(v)
        return system.whole(levels, near(others))

    return sweep


def system_of(hessian: BlockHessian) -> Eliminated | ByProducts:
    """Return what solves systems of a Hessian with diagonal blocks."""
    return ByProducts(hessian) if hessian.is_nested else Eliminated(hessian)


def flat_direction(hessian: BlockHessian) -> np.ndarray | None:
    """Return a direction without curvature, to working precision; None: none was found.

    Coefficients that have none by themselves do not count, nor levels.
    """
    return system_of(hessian).flat_direction()
