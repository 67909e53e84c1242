"""The judge: objectives in float64 and a tight optimum, by NumPy alone. Imports no contestant.

f(w, b) = 1/2 |w|^2 + C sum_i loss(y_i, x_i.w + b), the intercept b not penalised; loss is log(1 +
exp(-yz)), max(0, 1 - yz)^2 or 1/2 (z - y)^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

BLOCK_NUMBERS = 2**22  # read at a time: 32 MiB
DENSE_HESSIAN = 1_000  # columns up to which the reference forms the Hessian
DECREMENT = 1e-15  # half the squared Newton decrement over f at which the reference is tight enough
SHORTEST_STEP = 1e-10


class Reference(NamedTuple):
    """An optimum, with half the squared Newton decrement over f as its estimated relative error."""

    objective: float
    coef: np.ndarray
    intercept: float
    decrement: float
    iterations: int


def objective(
    X: Any, y: np.ndarray, coef: np.ndarray, intercept: float, *, loss: str, C: float
) -> float:
    """f at a contestant's coefficients, read blockwise in float64."""
    coef = np.asarray(coef, dtype=np.float64).ravel()
    return 0.5 * math.fsum(coef * coef) + C * len(y) * mean_loss(X, y, coef, intercept, loss=loss)


def mean_loss(X: Any, y: np.ndarray, coef: np.ndarray, intercept: float, *, loss: str) -> float:
    """Mean loss over rows, without the penalty."""
    coef = np.asarray(coef, dtype=np.float64).ravel()
    sums = [_losses(loss, yb, Xb @ coef + float(intercept)).sum() for Xb, yb in _blocks(X, y)]
    return math.fsum(sums) / len(y)


def suboptimality(value: float, best: float) -> float:
    """Relative distance above the best objective known; what is below rounding counts as 0."""
    return max(value - best, 0.0) / abs(best) if math.isfinite(value) else math.inf


def reference(
    X: Any,
    y: np.ndarray,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    max_iter: int = 200,
    dense: int = DENSE_HESSIAN,
) -> Reference:
    """Run damped Newton in float64, by Cholesky (few columns) or conjugate gradients (many).

    Raises
    ------
    RuntimeError
        If `max_iter` iterations are not enough.
    """
    w = np.zeros(X.shape[1] + 1)
    value, gradient, curvature = _evaluate(X, y, w, loss, C, fit_intercept)
    first = float(np.linalg.norm(gradient))
    decrement = math.inf
    for iteration in range(1, max_iter + 1):
        accuracy = min(0.1, math.sqrt(np.linalg.norm(gradient) / first))
        direction = _newton_direction(X, curvature, gradient, C, fit_intercept, accuracy, dense)
        slope = float(gradient @ direction)
        decrement = abs(slope) / 2 / abs(value)
        t = 1.0
        while t >= SHORTEST_STEP:
            trial = _evaluate(X, y, w + t * direction, loss, C, fit_intercept)
            if trial[0] <= value + 1e-4 * t * slope:
                w = w + t * direction
                value, gradient, curvature = trial
                break
            t /= 2
        stuck = t < SHORTEST_STEP  # f no longer falls in floating point
        if decrement <= (100 * DECREMENT if stuck else DECREMENT):
            return Reference(value, w[:-1], float(w[-1]), decrement, iteration)
        if stuck:
            break
    raise RuntimeError(
        f"the reference stopped at a Newton decrement of {decrement:.1e} of the objective"
    )


# ---- one pass
def _blocks(X: Any, y: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    per_row = X.nnz / max(X.shape[0], 1) if sp.issparse(X) else X.shape[1]
    block_rows = max(1, int(BLOCK_NUMBERS / max(per_row, 1)))
    for start in range(0, X.shape[0], block_rows):
        rows = slice(start, start + block_rows)
        yield X[rows].astype(np.float64, copy=False), np.asarray(y[rows], dtype=np.float64)


def _losses(loss: str, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if loss == "logistic":
        return np.logaddexp(0.0, -y * z)
    if loss == "squared_hinge":
        return np.maximum(0.0, 1.0 - y * z) ** 2
    if loss == "hinge":
        return np.maximum(0.0, 1.0 - y * z)
    if loss == "squared":
        return 0.5 * (z - y) ** 2
    raise ValueError(f"loss {loss!r} is not one of logistic, squared_hinge, hinge, squared")


def _slopes(loss: str, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives in the margin."""
    if loss == "logistic":
        small = np.exp(-np.abs(z))
        # sigmoid(-yz), accurate for large margins
        wrong = np.where(y * z > 0, small, 1.0) / (1.0 + small)
        return -y * wrong, small / (1.0 + small) ** 2
    if loss == "squared_hinge":
        active = np.maximum(0.0, 1.0 - y * z)
        return -2.0 * y * active, 2.0 * (active > 0)
    return z - y, np.ones_like(z)


def _evaluate(
    X: Any, y: np.ndarray, w: np.ndarray, loss: str, C: float, fit_intercept: bool
) -> tuple[float, np.ndarray, np.ndarray]:
    """f, its gradient in (w, b) and the curvature of each row."""
    coef, intercept = w[:-1], w[-1]
    sums = []
    curvatures = []
    gradient = np.append(coef, 0.0)
    for Xb, yb in _blocks(X, y):
        z = Xb @ coef + intercept
        sums.append(_losses(loss, yb, z).sum())
        slope, curvature = _slopes(loss, yb, z)
        curvatures.append(curvature)
        gradient[:-1] += C * (Xb.T @ slope)
        gradient[-1] += C * slope.sum() * fit_intercept
    return 0.5 * math.fsum(coef * coef) + C * math.fsum(sums), gradient, np.concatenate(curvatures)


# ---- Newton's direction
def _newton_direction(
    X: Any,
    curvature: np.ndarray,
    gradient: np.ndarray,
    C: float,
    fit_intercept: bool,
    accuracy: float,
    dense: int,
) -> np.ndarray:
    d = X.shape[1]
    if d <= dense:
        return -np.linalg.solve(_hessian(X, curvature, C, fit_intercept), gradient)
    diagonal = np.append(np.ones(d), C * curvature.sum() if fit_intercept else 1.0)
    for Xb, c in _blocks(X, curvature):
        squares = Xb.multiply(Xb) if sp.issparse(Xb) else Xb * Xb
        diagonal[:-1] += C * (squares.T @ c)

    def product(v: np.ndarray) -> np.ndarray:
        v = v.ravel()
        out = v.copy()
        out[-1] = 0.0 if fit_intercept else v[-1]
        for Xb, c in _blocks(X, curvature):
            r = C * c * (Xb @ v[:-1] + (v[-1] if fit_intercept else 0.0))
            out[:-1] += Xb.T @ r
            out[-1] += r.sum() * fit_intercept
        return out

    shape = (d + 1, d + 1)
    inverse = 1.0 / np.maximum(diagonal, np.finfo(float).tiny)
    return cg(
        LinearOperator(shape, matvec=product, dtype=float),
        -gradient,
        rtol=accuracy,  # at most 0.1, so that the decrement means something
        maxiter=10 * (d + 1),
        M=LinearOperator(shape, matvec=lambda v: inverse * v.ravel(), dtype=float),
    )[0]


def _hessian(X: Any, curvature: np.ndarray, C: float, fit_intercept: bool) -> np.ndarray:
    d = X.shape[1]
    H = np.eye(d + 1)
    for Xb, c in _blocks(X, curvature):
        weighted = Xb.multiply(c[:, None]).tocsr() if sp.issparse(Xb) else Xb * c[:, None]
        product = Xb.T @ weighted
        H[:-1, :-1] += C * (product.toarray() if sp.issparse(product) else product)
        if fit_intercept:
            H[:-1, -1] += C * np.asarray(weighted.sum(axis=0)).ravel()
    if fit_intercept:
        H[-1, :-1] = H[:-1, -1]
        H[-1, -1] = max(C * float(curvature.sum()), 1e-12)
    return H
