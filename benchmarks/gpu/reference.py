"""What kernels must give, by NumPy and SciPy in float64: sums of the logistic loss over rows, block
by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

BLOCK_ROWS = 100_000
MOST_COLUMNS = 400  # up to which a Gram is made


class Sums(NamedTuple):
    """Sums over rows with weights s and targets t at coefficients (w, b), z = X w + b.

    value = s . log(1 + exp(-t z)); gradient = [X 1]' slope; diagonal and Gram of [X 1]' diag(c) [X
    1] with c the second derivatives; product = that matrix times v. The intercept comes last; Gram:
    upper triangle, None for many columns.
    """

    value: np.ndarray
    gradient: np.ndarray
    diagonal: np.ndarray
    product: np.ndarray
    gram: np.ndarray | None


def sums(X: Any, y: np.ndarray, weight: np.ndarray, w: np.ndarray, v: np.ndarray) -> Sums:
    """Compute all of `Sums` at w (d + 1,) and v (d + 1,)."""
    d = X.shape[1]
    value = np.zeros(1)
    gradient = np.zeros(d + 1)
    diagonal = np.zeros(d + 1)
    product = np.zeros(d + 1)
    gram = np.zeros((d + 1, d + 1)) if d <= MOST_COLUMNS else None
    for A, t, s in _blocks(X, y, weight):
        tz = t * (A @ w)
        share = np.exp(-np.logaddexp(0.0, tz))  # 1 / (1 + exp(t z)) without overflow
        slope = -s * t * share
        curvature = s * share * (1.0 - share)
        value += s @ np.logaddexp(0.0, -tz)
        gradient += A.T @ slope
        diagonal += (A.multiply(A) if sp.issparse(A) else A * A).T @ curvature
        product += A.T @ (curvature * (A @ v))
        if gram is not None:
            dense = A.toarray() if sp.issparse(A) else A
            gram += dense.T @ (curvature[:, None] * dense)
    return Sums(value, gradient, diagonal, product, None if gram is None else np.triu(gram))


def poisson(X: Any, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return [X 1]' slope of Poisson's loss, for counts of one where y > 0 and offsets 0.1 y."""
    gradient = np.zeros(len(w))
    for A, t, _ in _blocks(X, y, y):
        gradient += A.T @ (np.exp(A @ w + 0.1 * t) - (t > 0.0))
    return gradient


def _blocks(
    X: Any, y: np.ndarray, weight: np.ndarray
) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Yield rows in float64 with a column of ones behind, their targets and weights."""
    for lo in range(0, X.shape[0], BLOCK_ROWS):
        part = X[lo : lo + BLOCK_ROWS].astype(np.float64)
        ones = np.ones((part.shape[0], 1))
        if sp.issparse(part):
            A = sp.hstack([part, sp.csr_matrix(ones)], "csr")
        else:
            A = np.hstack([part, ones])
        yield A, y[lo : lo + BLOCK_ROWS], weight[lo : lo + BLOCK_ROWS]


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the norm of the difference relative to the wanted value.

    Infinite if a value is not finite.
    """
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), np.finfo(float).tiny))
