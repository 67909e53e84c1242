"""Linear systems and line searches that solvers share; nothing here knows where the rows are."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from daskglm.core.device import gpu, on_device, to_host
from daskglm.core.requests import CollectiveLost
from daskglm.objectives.primal import Objective, Point

FLAT = 1e-16  # curvature along a direction, relative to its square, that counts as none
ARMIJO = 1e-4  # share of the predicted decrease that must be real
TRIALS = 4  # steps per request when backtracking: each costs n losses
# part of a step: where few rows have a curvature, Newton's step may be 1e16 times too long
SHORTEST = 1e-30
ROUNDING = 16 * np.finfo(float).eps  # relative differences of the objective below this mean nothing


def newton_step(hessian: Any, gradient: Any) -> Any:
    """Solve H s = -g for a positive semidefinite H, scaled to a unit diagonal.

    Cholesky; where that fails (collinear or constant columns without a penalty) the minimum-norm
    solution from an eigendecomposition, leaving out directions along which the objective is flat.
    On a device where H is there.
    """
    if not on_device(hessian):
        return _newton_step(hessian, gradient)
    step = gpu().solve_positive(hessian, -gradient)
    if step is not None:
        return step
    return gpu().xp.asarray(_newton_step(to_host(hessian), to_host(gradient)))


def _newton_step(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale[scale == 0.0] = 1.0
    scaled = hessian / scale[:, None] / scale[None, :]
    rhs = -gradient / scale
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            factor = scipy.linalg.cho_factor(scaled, lower=True, check_finite=False)
        if np.diag(factor[0]).min() > 1e-7:
            return scipy.linalg.cho_solve(factor, rhs, check_finite=False) / scale
    except scipy.linalg.LinAlgError:
        pass
    if not np.isfinite(scaled).all():
        return -gradient / scale**2
    values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
    keep = values > len(values) * np.finfo(float).eps * values[-1]
    return (vectors[:, keep] @ ((vectors[:, keep].T @ rhs) / values[keep])) / scale


def inverse_of(hessian: Any) -> Callable[[Any], Any]:
    """Multiply by the inverse of a positive definite matrix, factorised once; of another as
    `newton_step` does.
    """
    if on_device(hessian):
        inverse = gpu().inverse(hessian)
        return (lambda v: -newton_step(hessian, v)) if inverse is None else inverse.__matmul__
    try:
        factor = scipy.linalg.cho_factor(hessian, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return lambda v: -newton_step(hessian, v)
    return lambda v: scipy.linalg.cho_solve(factor, v, check_finite=False)


class Pair(NamedTuple):
    """A step, the change of the gradient over it, their product, and what of an inverse Hessian
    agrees with them.
    """

    step: Any
    change: Any
    curvature: float
    scale: float


def pair_of(step: Any, change: Any, inverse: Callable[[Any], Any]) -> Pair:
    """The pair of a step, for `inverse_times` with this inverse."""
    products = step @ change, change @ inverse(change)
    curvature, square = gpu().fetch(*products) if on_device(step) else map(float, products)
    return Pair(step, change, curvature, curvature / square if curvature > 0.0 else 0.0)


def inverse_times(pairs: Sequence[Pair], inverse: Callable[[Any], Any], gradient: Any) -> Any:
    """An inverse Hessian times the gradient: `inverse`, corrected by what the pairs tell (L-BFGS).

    Nocedal & Wright, algorithm 7.4. `inverse` is scaled down to the pair that it agrees with best:
    the scale of the last one alone (their equation 7.20) swings tenfold from step to step.
    """
    q = gradient.copy()
    alphas = []
    for s, change, curvature, _ in reversed(pairs):
        # a number on the device, where vectors are there: nobody waits for it
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

    values: Any

    def times(self, v: Any) -> Any:
        """The matrix times v."""
        return self.values * v

    def solve(self, v: Any) -> Any:
        """Its inverse times v."""
        return v / self.values


class Full:
    """The same of a positive definite matrix, factorised once, where the matrix is."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.solve = matrix, inverse_of(matrix)

    def times(self, v: Any) -> Any:
        """The matrix times v."""
        return self.matrix @ v

    @functools.cached_property
    def inverse(self) -> Any:
        """Its inverse, (n, n) and symmetric; None where the matrix is (nearly) singular."""
        if on_device(self.matrix):
            return gpu().inverse(self.matrix)
        factor, failed = scipy.linalg.lapack.dpotrf(self.matrix, lower=1)
        if failed:
            return None
        lower = np.tril(scipy.linalg.lapack.dpotri(factor, lower=1)[0])
        return lower + np.tril(lower, -1).T


Metric = Diagonal | Full


class BallStep(NamedTuple):
    """A step s within a trust region, what is left of the residual r, and whether the step ends on
    the border.

    `length` is the root of s'Ms, `slope` the product of step and gradient and `left` that of step
    and residual.
    """

    step: Any
    residual: Any
    on_border: bool
    length: float
    slope: float
    left: float


def ball_step(point: Point, M: Metric, radius: float) -> BallStep:
    """`cg_in_ball` for the model of the objective around a point, beside the rows where their
    devices can do that.
    """
    if point.objective.engine.solves_balls:
        # the engine has said why, and no longer offers it
        with contextlib.suppress(CollectiveLost):
            found = point.objective.in_ball(
                point, M.values if isinstance(M, Diagonal) else M.inverse, radius
            )
            return BallStep(*(found[name] for name in BallStep._fields))
    return cg_in_ball(point.hessian_vector, point.gradient, M, radius)


def cg_in_ball(product: Callable[[Any], Any], gradient: Any, M: Metric, radius: float) -> BallStep:
    """Minimise g's + s'Hs/2 for s'Ms <= radius^2 by conjugate gradients preconditioned by M.

    Ends at a tenth of the first residual in the norm of M^-1, on the border, or after max(d, 5)
    products, as LIBLINEAR 2.30 does (Steihaug's rule at the border). Products of steps and
    directions with M follow from what the method has (Conn, Gould & Toint 2000, section 7.5.1).
    Cost: 1 pass per product.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    z = M.solve(residual)
    direction = z
    zr = float(z @ residual)
    goal = 0.1 * np.sqrt(zr)
    square, along, length = zr, 0.0, 0.0  # p'Mp, s'Mp and s'Ms of direction p and step s
    on_border = False
    for _ in range(max(len(gradient), 5)):
        if np.sqrt(zr) <= goal:
            break
        hd = product(direction)
        curvature = float(direction @ hd)
        flat = curvature <= FLAT * square
        alpha = math.inf if flat else zr / curvature
        longer = length + alpha * (2.0 * along + alpha * square)
        on_border = flat or not longer <= radius * radius
        if on_border:
            alpha, longer = _to_border(along, square, radius * radius - length), radius * radius
        step, residual, length = step + alpha * direction, residual - alpha * hd, longer
        if on_border:
            break
        z = M.solve(residual)
        zr, old = float(z @ residual), zr
        beta = zr / old
        along, square = beta * (along + alpha * square), zr + beta * beta * square
        direction = z + beta * direction
    slope, left = float(gradient @ step), float(step @ residual)
    return BallStep(step, residual, on_border, math.sqrt(length), slope, left)


def _to_border(along: float, square: float, room: float) -> float:
    """How far to go along a direction until |s|_M = radius: the positive root, written without
    cancellation.
    """
    root = math.sqrt(max(along * along + square * room, 0.0))
    return room / (along + root) if along >= 0 else (root - along) / square


def backtrack(
    objective: Objective,
    point: Point,
    trial: Point,
    reference: float | None = None,
    *,
    slope: float | None = None,
    gram: bool = False,
    keep: bool = True,
    exact: bool = False,
) -> Point | None:
    """The trial point if it decreases the objective enough, else the lowest of the first points
    between that do.

    Search between the two points uses their cached margins, so it makes no pass over X; only the
    accepted point is evaluated. `reference` replaces the value at `point` in Armijo's rule
    (non-monotone searches), and `slope` is the gradient there times the step, where that is known.
    None where no step helps. A trial that is level in floating point is taken: gradients can shrink
    where values no longer tell, and whether they do is for the driver to see.
    """
    reference = point.value if reference is None else reference
    slope = float(point.gradient @ (trial.w - point.w)) if slope is None else slope
    if trial.value <= reference + ARMIJO * slope:
        return trial
    if abs(trial.value - point.value) <= ROUNDING * abs(point.value):
        return trial
    t = 1.0
    while t > SHORTEST and slope < 0:
        steps = t * 0.5 ** np.arange(1, TRIALS + 1)
        values = objective.between(point, trial, steps)
        good = np.flatnonzero(values <= reference + ARMIJO * steps * slope)
        if len(good):
            t = float(steps[good[np.argmin(values[good])]])
            return objective.at(
                point.w + t * (trial.w - point.w), gram=gram, keep=keep, exact=exact
            )
        t = float(steps[-1])
    return None
