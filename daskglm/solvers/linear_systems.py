"""Linear systems that solvers share: Newton's step, inverse Hessians, the two loops of L-BFGS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from daskglm.core.block_hessian import BlockHessian, principal
from daskglm.core.device import Array, gpu, on_device, to_host
from daskglm.objectives.point import Point
from daskglm.solvers.block_systems import SINGULAR, system_of

# Columns of a Hessian that are multiplied at a time. Chosen.
COLUMNS_AT_ONCE = 64


def newton_step(hessian: Array | BlockHessian, gradient: Array) -> Array:
    """Solve H s = -g for a positive semidefinite H, scaled to a unit diagonal.

    By Cholesky's factorisation; where that fails (collinear or constant columns without a penalty)
    the minimum-norm solution by an eigendecomposition, which leaves out directions along which the
    objective is flat. It is computed on a device if H is there. Of a Hessian with a diagonal block
    the Schur complement is factorised so; the step is some solution then where that is singular. Of
    one with several it is solved for by conjugate gradients, to a share of 1e-8 of the gradient.
    """
    if not on_device(hessian):
        return -inverse_of(hessian)(gradient)
    step = gpu().solve_positive(hessian, -gradient)
    if step is not None:
        return step
    return gpu().xp.asarray(newton_step(to_host(hessian), to_host(gradient)))


def expected_fall(hessian: np.ndarray | BlockHessian, gradient: np.ndarray) -> float:
    """Return by how much Newton's step is expected to lower a value: half the squared decrement.

    Directions in which a positive semidefinite H is flat to working precision count with the least
    curvature that precision tells from none: a slope along them is not overlooked. Infinite where H
    has overflowed, or the fall does.
    """
    if isinstance(hessian, BlockHessian):
        known = hessian.is_finite and bool(np.isfinite(gradient).all())
        found = system_of(hessian).fall(gradient) if known else math.inf
        return found if math.isfinite(found) else math.inf
    if not (np.isfinite(hessian).all() and np.isfinite(gradient).all()):
        return math.inf
    scale = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale[scale == 0.0] = 1.0
    scaled = hessian / scale[:, None] / scale[None, :]
    factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    with np.errstate(over="ignore", invalid="ignore"):
        rhs = gradient / scale
        if not failed and factor.diagonal().min() > SINGULAR:
            fall = 0.5 * float(rhs @ scipy.linalg.lapack.dpotrs(factor, rhs, lower=1)[0])
        else:
            values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
            least = len(values) * np.finfo(float).eps * max(values[-1], 1.0)
            fall = 0.5 * float(np.square(vectors.T @ rhs) @ (1.0 / np.maximum(values, least)))
    return fall if math.isfinite(fall) else math.inf


def projection(
    hessian: np.ndarray | BlockHessian, entries: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Return what changes of some coefficients ask of others that are at their best again.

    That is G (f, r) with H_FF G = H_FR, for the coefficients F in `entries` and R in `others`; some
    solution where H_FF is singular. The part of R is then solved for with H_RR - H_RF G.

    Parameters
    ----------
    hessian : array or BlockHessian
    entries, others : int arrays
        Numbers of F and of R, ascending.
    """
    inverse = inverse_of(principal(hessian, entries))
    found = np.empty((len(entries), len(others)))
    for lo in range(0, len(others), COLUMNS_AT_ONCE):
        some = others[lo : lo + COLUMNS_AT_ONCE]
        units = np.zeros((len(hessian), len(some)))
        units[some, np.arange(len(some))] = 1.0
        for at, column in enumerate((hessian @ units)[entries].T, lo):
            found[:, at] = inverse(column)
    return found


def step_by_products(
    point: Point, gradient: np.ndarray, scale: np.ndarray, most: int, enough: float
) -> np.ndarray:
    """Solve H s = -g roughly by conjugate gradients. Cost: a pass for each product.

    Parameters
    ----------
    point : Point
        Where the Hessian H is; it multiplies vectors.
    gradient, scale : (size,) arrays
        Of the step; unknowns are its entries over these scales, and zero where a scale is.
    most : int
        Products at most.
    enough : float
        Residual that is small enough, as a share of the gradient's norm.
    """
    xp, n = point.objective.xp, len(gradient)

    def product(v: np.ndarray) -> np.ndarray:
        return scale * to_host(point.hessian_vector(xp.asarray(scale * v.ravel())))

    with np.errstate(all="ignore"):
        operator = LinearOperator((n, n), product, dtype=np.float64)
        step, _ = cg(operator, -scale * gradient, rtol=enough, maxiter=most)
    scaled: np.ndarray = scale * step
    return scaled


def inverse_of(hessian: Array | BlockHessian) -> Callable[[Array], Array]:
    """Return a function that solves systems of a matrix as `newton_step` does.

    The matrix is factorised once.
    """
    if isinstance(hessian, BlockHessian):
        return system_of(hessian).solve
    if on_device(hessian):
        inverse = gpu().inverse(hessian)
        return (lambda v: -newton_step(hessian, v)) if inverse is None else inverse.__matmul__
    scale = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale[scale == 0.0] = 1.0
    scaled = hessian / scale[:, None] / scale[None, :]
    # LAPACK's own names: SciPy's checks would take longer than systems of 30 unknowns
    factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if not failed and factor.diagonal().min(initial=1.0) > SINGULAR:
        return lambda v: scipy.linalg.lapack.dpotrs(factor, v / scale, lower=1)[0] / scale

    # a Hessian that has overflowed is no system to solve: take its diagonal alone
    if not np.isfinite(scaled).all():
        return lambda v: v / scale**2
    values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
    keep = values > len(values) * np.finfo(float).eps * values[-1]
    kept, vectors = values[keep], vectors[:, keep]
    return lambda v: (vectors @ ((vectors.T @ (v / scale)) / kept)) / scale


class CurvaturePair(NamedTuple):
    """A step with the change of the gradient over it, as L-BFGS keeps them.

    `curvature` is their product. `scale` is the factor by which an inverse Hessian agrees with the
    pair.
    """

    step: Array
    change: Array
    curvature: float
    scale: float


def pair_of(step: Array, change: Array, inverse: Callable[[Array], Array]) -> CurvaturePair:
    """Make the pair of a step, for `inverse_times` with this inverse."""
    products = step @ change, change @ inverse(change)
    # both come from a device in one copy
    curvature, square = gpu().fetch(*products) if on_device(step) else map(float, products)
    # the square of a tiny change underflows
    scale = curvature / square if curvature > 0.0 and square > 0.0 else 0.0
    return CurvaturePair(step, change, curvature, scale)


def inverse_times(
    pairs: Sequence[CurvaturePair], inverse: Callable[[Array], Array], gradient: Array
) -> Array:
    """Multiply the gradient by `inverse`, corrected by the pairs: the two loops of L-BFGS.

    Nocedal & Wright, algorithm 7.4. `inverse` is scaled down to the pair that it agrees with best:
    the scale of the last one alone (their equation 7.20) swings tenfold from step to step.
    """
    q = gradient.copy()
    alphas = []
    for s, change, curvature, _ in reversed(pairs):
        # stays on the device of the vectors, so that nobody waits for it
        alpha = (s @ q) / curvature
        q -= alpha * change
        alphas.append(alpha)
    if pairs:
        q *= min(max(pair.scale for pair in pairs), 1.0)
    q = inverse(q)
    for (s, change, curvature, _), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - (change @ q) / curvature) * s
    return q


class Diagonal(NamedTuple):
    """A diagonal matrix that measures steps and preconditions systems."""

    values: Array

    def times(self, v: Array) -> Array:
        """Multiply v by the matrix."""
        return self.values * v

    def solve(self, v: Array) -> Array:
        """Multiply v by the inverse."""
        return v / self.values


class DenseMetric:
    """A positive definite matrix for the same, factorised once, on the device that it is on."""

    def __init__(self, matrix: Array) -> None:
        self.matrix, self.solve = matrix, inverse_of(matrix)

    def times(self, v: Array) -> Array:
        """Multiply v by the matrix."""
        return self.matrix @ v

    @functools.cached_property
    def inverse(self) -> Array | None:
        """The inverse, (n, n) and symmetric; None if the matrix is (nearly) singular."""
        if on_device(self.matrix):
            return gpu().inverse(self.matrix)
        factor, failed = scipy.linalg.lapack.dpotrf(self.matrix, lower=1)
        if failed:
            return None
        # LAPACK fills the lower triangle only; the upper one of the factor is zero
        lower = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
        return lower + np.tril(lower, -1).T


Metric = Diagonal | DenseMetric
