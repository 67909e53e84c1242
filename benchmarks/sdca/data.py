"""Generated data shaped like the sets of the Snap ML paper: sizes, sparsity and skew are theirs, the values are drawn.

Every function takes the number of rows and a seed and gives X, y with labels -1/+1 from a noisy linear model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp


def _labels(X: Any, rng: np.random.Generator, signal: float) -> np.ndarray:
    """Labels drawn from a logistic model whose margins have standard deviation `signal`."""
    z = np.asarray(X @ rng.standard_normal(X.shape[1]).astype(X.dtype), dtype=np.float64)
    z = signal * (z - z.mean()) / z.std()
    return np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)


def _power_law(rng: np.random.Generator, size: int, features: int, exponent: float) -> np.ndarray:
    """Feature numbers whose frequency falls as rank ** -exponent (exponent < 1), shuffled over the columns."""
    rank = (rng.random(size) ** (1.0 / (1.0 - exponent)) * features).astype(np.int64)
    return rng.permutation(features).astype(np.int32)[np.minimum(rank, features - 1)]


def rcv1_like(rows: int = 200_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Text-like: 47,236 features of which about 74 a row, frequencies by a power law, float32 rows of norm one."""
    rng = np.random.default_rng(seed)
    features, per_row = 47_236, 74
    columns = _power_law(rng, rows * per_row, features, 0.7)
    values = np.exp(rng.standard_normal(rows * per_row, dtype=np.float32) * 0.5)
    indptr = np.arange(0, rows * per_row + 1, per_row)
    X = sp.csr_matrix((values, columns, indptr), shape=(rows, features))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel().astype(np.float32)
    X = sp.csr_matrix((X.data / np.repeat(norms, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)
    return X, _labels(X, rng, 4.0)


def criteo_like(rows: int = 1_000_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Click logs: 39 fields, one category of each set to 1 / sqrt(39) (rows of norm one), 1,000,000 columns in all."""
    rng = np.random.default_rng(seed)
    fields, features = 39, 1_000_000
    sizes = np.exp(np.linspace(np.log(20), np.log(200_000), fields))
    sizes = np.maximum((sizes * features / sizes.sum()).astype(np.int64), 2)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    columns = np.empty((rows, fields), np.int32)
    for k in range(fields):
        rank = (rng.random(rows) ** 4.0 * sizes[k]).astype(np.int64)
        columns[:, k] = starts[k] + np.minimum(rank, sizes[k] - 1)
    values = np.full(rows * fields, 1.0 / np.sqrt(fields), np.float32)
    X = sp.csr_matrix((values, columns.ravel(), np.arange(0, rows * fields + 1, fields)), shape=(rows, features))
    return X, _labels(X, rng, 2.0)


def epsilon_like(rows: int = 100_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense, 2,000 features, float32 rows of norm one, columns mildly correlated."""
    rng = np.random.default_rng(seed)
    features = 2000
    X = rng.standard_normal((rows, features), dtype=np.float32)
    common = rng.standard_normal((rows, 20), dtype=np.float32)
    X += common @ rng.standard_normal((20, features), dtype=np.float32) * 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, _labels(X, rng, 3.0)


def dense_100(rows: int = 100_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The dense synthetic set of the paper's Figures 1a and 2: 100 features, standard normal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 100), dtype=np.float32)
    return X, _labels(X, rng, 2.0)


def sparse_1000(rows: int = 100_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """The sparse synthetic set of the paper's Figure 1b: 1,000 features, 1 % of the values set, uniformly."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, 1000, density=0.01, format="csr", dtype=np.float32, random_state=rng)
    X.data[:] = rng.standard_normal(X.nnz, dtype=np.float32)
    return X, _labels(X, rng, 2.0)


DATA: dict[str, Callable[..., tuple[Any, np.ndarray]]] = {
    "rcv1-like": rcv1_like,
    "criteo-like": criteo_like,
    "epsilon-like": epsilon_like,
    "dense-100": dense_100,
    "sparse-1000": sparse_1000,
}
