"""Linear systems and line searches that solvers share; nothing here knows where the rows are."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from daskglm.kernels import gpu, on_device, to_host
from daskglm.messages import CollectiveLost
from daskglm.objective import Objective, Point

ARMIJO = 1e-4  # share of the predicted decrease that must be real
DEVICE_SIDE = 256  # features from which a factorisation is worth the device's latency
TRIALS = 4  # steps per request when backtracking: each costs n losses
SHORTEST = 1e-30  # part of a step: where few rows have a curvature, Newton's step may be 1e16 times too long
ROUNDING = 16 * np.finfo(float).eps  # relative differences of the objective below this mean nothing


def newton_step(hessian: Any, gradient: Any) -> Any:
    """Solve H s = -g for a positive semidefinite H, scaled to a unit diagonal.

    Cholesky; where that fails (collinear or constant columns without a penalty) the minimum-norm solution from an
    eigendecomposition, leaving out directions along which the objective is flat. On a device where H is there and
    large enough to be worth it.
    """
    if not on_device(hessian):
        return _newton_step(hessian, gradient)
    if len(gradient) > DEVICE_SIDE:
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
    """Multiply by the inverse of a positive definite matrix in host memory, factorised once; else see `newton_step`."""
    try:
        factor = scipy.linalg.cho_factor(hessian, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return lambda v: -newton_step(hessian, v)
    return lambda v: scipy.linalg.cho_solve(factor, v, check_finite=False)


class Pair(NamedTuple):
    """A step, the change of the gradient over it, their product, and what of an inverse Hessian agrees with them."""

    step: Any
    change: Any
    curvature: float
    scale: float


def pair_of(step: Any, change: Any, inverse: Callable[[Any], Any]) -> Pair:
    """The pair of a step, for `inverse_times` with this inverse."""
    curvature = float(step @ change)
    return Pair(step, change, curvature, curvature / float(change @ inverse(change)) if curvature > 0.0 else 0.0)


def inverse_times(pairs: Sequence[Pair], inverse: Callable[[Any], Any], gradient: Any) -> Any:
    """An inverse Hessian times the gradient: `inverse`, corrected by what the pairs tell (L-BFGS).

    Nocedal & Wright, algorithm 7.4. `inverse` is scaled down to the pair that it agrees with best: the scale of the
    last one alone (their equation 7.20) swings tenfold from step to step.
    """
    q = gradient.copy()
    alphas = []
    for s, change, curvature, _ in reversed(pairs):
        alpha = float(s @ q) / curvature
        q -= alpha * change
        alphas.append(alpha)
    if pairs:
        q *= min(max(pair.scale for pair in pairs), 1.0)
    q = inverse(q)
    for (s, change, curvature, _), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - float(change @ q) / curvature) * s
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
    """The same of a positive definite matrix in host memory, factorised once."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.solve = matrix, inverse_of(matrix)

    def times(self, v: np.ndarray) -> np.ndarray:
        """The matrix times v."""
        return np.asarray(self.matrix @ v)


Metric = Diagonal | Full


class BallStep(NamedTuple):
    """A step within a trust region, what is left of the residual, and whether the step ends on the border."""

    step: np.ndarray
    residual: np.ndarray
    on_border: bool


def ball_step(point: Point, M: Metric, radius: float) -> BallStep:
    """`cg_in_ball` for the model of the objective around a point, beside the rows where their devices can do that."""
    if point.objective.engine.solves_balls:
        assert isinstance(M, Diagonal)
        with contextlib.suppress(CollectiveLost):  # the engine has said why, and no longer offers it
            found = point.objective.in_ball(point, M.values, radius)
            return BallStep(found["step"], found["residual"], bool(found["on_border"]))
    return cg_in_ball(point.hessian_vector, point.gradient, M, radius)


def cg_in_ball(product: Callable[[np.ndarray], np.ndarray], gradient: np.ndarray, M: Metric, radius: float) -> BallStep:
    """Minimise g's + s'Hs/2 for s'Ms <= radius^2 by conjugate gradients preconditioned by M.

    Ends at a tenth of the first residual in the norm of M^-1, on the border, or after max(d, 5) products, as
    LIBLINEAR 2.30 does (Steihaug's rule at the border). Cost: 1 pass per product.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    z = M.solve(residual)
    direction = z
    zr = float(z @ residual)
    goal = 0.1 * np.sqrt(zr)
    for _ in range(max(len(gradient), 5)):
        if np.sqrt(zr) <= goal:
            break
        hd = product(direction)
        curvature = float(direction @ hd)
        if curvature <= 1e-16 * float(direction @ M.times(direction)):  # flat along the direction: go to the border
            step, residual = _to_border(step, direction, M, radius, residual, hd)
            return BallStep(step, residual, True)
        alpha = zr / curvature
        longer = step + alpha * direction
        if np.sqrt(float(longer @ M.times(longer))) > radius:
            step, residual = _to_border(step, direction, M, radius, residual, hd)
            return BallStep(step, residual, True)
        step, residual = longer, residual - alpha * hd
        z = M.solve(residual)
        zr, old = float(z @ residual), zr
        direction = z + (zr / old) * direction
    return BallStep(step, residual, False)


def _to_border(
    step: np.ndarray, direction: np.ndarray, M: Metric, radius: float, residual: np.ndarray, hd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Go on along a direction until |s|_M = radius (the positive root, written without cancellation)."""
    Md = M.times(direction)
    sMd, dMd, sMs = float(step @ Md), float(direction @ Md), float(step @ M.times(step))
    room = radius * radius - sMs
    root = np.sqrt(max(sMd * sMd + dMd * room, 0.0))
    alpha = room / (sMd + root) if sMd >= 0 else (root - sMd) / dMd
    return step + alpha * direction, residual - alpha * hd


def backtrack(
    objective: Objective,
    point: Point,
    trial: Point,
    reference: float | None = None,
    *,
    gram: bool = False,
    keep: bool = True,
    exact: bool = False,
) -> Point | None:
    """The trial point if it decreases the objective enough, else the lowest of the first points between that do.

    Search between the two points uses their cached margins, so it makes no pass over X; only the accepted point is
    evaluated. `reference` replaces the value at `point` in Armijo's rule (non-monotone searches). None where no
    step helps. A trial that is level in floating point is taken: gradients can shrink where values no longer tell,
    and whether they do is for the driver to see.
    """
    reference = point.value if reference is None else reference
    slope = float(point.gradient @ (trial.w - point.w))
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
            return objective.at(point.w + t * (trial.w - point.w), gram=gram, keep=keep, exact=exact)
        t = float(steps[-1])
    return None
