"""Generated data shaped like the sets of the Snap ML paper: sizes, sparsity and skew are theirs,
the values are drawn.

Every function takes the number of rows and a seed and gives X, y with labels -1/+1 from a noisy
linear model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import expit


def _labels(
    X: Any, rng: np.random.Generator, signal: float, positive: float | None = None
) -> np.ndarray:
    """Labels drawn from a logistic model whose margins have standard deviation `signal`.

    `positive` is the share of +1; None: margins have mean 0, whatever share that gives.
    """
    z = np.asarray(X @ rng.standard_normal(X.shape[1]).astype(X.dtype), dtype=np.float64)
    z = signal * (z - z.mean()) / z.std()
    if positive is not None:
        z += brentq(lambda shift: expit(z + shift).mean() - positive, -20.0, 20.0, xtol=1e-3)
    return np.where(rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)


def _power_law(rng: np.random.Generator, size: int, features: int, exponent: float) -> np.ndarray:
    """Draw feature numbers whose frequency falls as rank ** -exponent (exponent < 1).

    Ranks are shuffled over the columns.
    """
    rank = (rng.random(size) ** (1.0 / (1.0 - exponent)) * features).astype(np.int64)
    return rng.permutation(features).astype(np.int32)[np.minimum(rank, features - 1)]


def rcv1_like(rows: int = 200_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate text-like rows as in RCV1: 47,236 features of which about 74 a row.

    Frequencies follow a power law; rows are float32, of norm one.
    """
    rng = np.random.default_rng(seed)
    features, per_row = 47_236, 74
    X = _text(rng, np.full(rows, per_row), features, 0.7)
    return X, _labels(X, rng, 4.0)


def criteo_like(rows: int = 1_000_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate click logs as in Criteo: 39 fields, one category of each set to 1 / sqrt(39).

    Rows have norm one, and there are 1,000,000 columns in all.
    """
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
    X = sp.csr_matrix(
        (values, columns.ravel(), np.arange(0, rows * fields + 1, fields)), shape=(rows, features)
    )
    return X, _labels(X, rng, 2.0)


def criteo_hashed(rows: int = 1_000_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate rows as `criteo_like` with its columns in random order, as hashing leaves them.

    Popular columns have no neighbours then, so that each takes a cache line of a vector.
    """
    X, y = criteo_like(rows, seed)
    new = np.random.default_rng([seed, 1]).permutation(X.shape[1]).astype(X.indices.dtype)
    X.indices = new[X.indices]
    X.sort_indices()  # values are all equal
    return X, y


def epsilon_like(rows: int = 100_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense, 2,000 features, float32 rows of norm one, columns mildly correlated."""
    rng = np.random.default_rng(seed)
    features = 2000
    X = rng.standard_normal((rows, features), dtype=np.float32)
    common = rng.standard_normal((rows, 20), dtype=np.float32)
    X += common @ rng.standard_normal((20, features), dtype=np.float32) * 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, _labels(X, rng, 3.0)


def susy_like(rows: int = 5_000_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Generate 18 dense features as in SUSY: skewed momenta, angles, masses derived from them.

    46 % are +1.
    """
    rng = np.random.default_rng(seed)
    X = np.empty((rows, 18), np.float32)
    momenta = (0, 3, 6)
    angles = (1, 2, 4, 5, 7)
    derived = tuple(range(8, 18))
    for start in range(0, rows, 500_000):
        part = X[start : start + 500_000]
        noise = rng.standard_normal(part.shape, dtype=np.float32)
        # how energetic the event is: all momenta share it
        hard = rng.standard_normal(len(part), dtype=np.float32)
        for k, j in enumerate(momenta):
            part[:, j] = np.exp((0.5 + 0.1 * k) * (0.7 * hard + 0.7 * noise[:, j])) * 0.8
        part[:, angles] = np.clip(noise[:, angles], -2.1, 2.1)
        for k, j in enumerate(derived):
            mixed = 0.75 * hard + 0.3 * noise[:, momenta[k % 3]] + 0.45 * noise[:, j]
            # three are 0 for many events
            part[:, j] = np.exp(0.45 * mixed) if k < 7 else np.maximum(mixed + 0.2, 0.0)
    centred = X - X[:100_000].mean(axis=0)
    return X, _labels(centred / X[:100_000].std(axis=0), rng, 2.0, 0.46)


def real_sim_like(rows: int = 72_309, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate text-like rows as in real-sim: 20,958 features, 51 a row, long and short rows.

    Rows have norm one; 31 % are +1.
    """
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, np.exp(rng.normal(np.log(51.0), 0.62, rows))).astype(np.int64)
    X = _text(rng, lengths, 20_958, 0.8)
    return X, _labels(X, rng, 5.0, 0.31)


def url_like(rows: int = 240_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate suspicious addresses as in url: 114 values a row, 52 numbers in shared columns.

    The others are 0/1; 33 % are +1. Columns are in proportion to the rows as there (3,231,961 for
    2,396,130): a tenth of its rows by default.
    """
    rng = np.random.default_rng(seed)
    shared = 52
    rare = 88
    features = int(rows * 3_231_961 / 2_396_130) + 52
    columns = np.empty((rows, shared + rare), np.int32)
    columns[:, :shared] = np.arange(shared)
    columns[:, shared:] = shared + _power_law(rng, rows * rare, features - shared, 0.9).reshape(
        rows, rare
    )
    values = np.ones((rows, shared + rare), np.float32)
    values[:, :shared] = rng.random((rows, shared), dtype=np.float32) ** 3
    indptr = np.arange(0, columns.size + 1, shared + rare)
    X = sp.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(rows, features))
    X.sum_duplicates()
    np.minimum(X.data, 1.0, out=X.data)  # a feature that was drawn twice is still one that is there
    return X, _labels(X, rng, 5.0, 0.33)


def kdd2010b_like(
    rows: int = 500_000, seed: int = 0, positive: float | None = 0.86
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate rows as wide for their number as in KDD2010-b: 29 equal values each.

    Popularity follows a power law; rows have norm one; 86 % are +1.
    """
    rng = np.random.default_rng(seed)
    features = int(rows * 29_890_095 / 19_264_097)
    columns = np.sort(_power_law(rng, rows * 29, features, 0.7).reshape(rows, 29), axis=1).ravel()
    indptr = np.arange(0, rows * 29 + 1, 29)
    X = sp.csr_matrix(
        (np.full(rows * 29, 29**-0.5, np.float32), columns, indptr), shape=(rows, features)
    )
    X.sum_duplicates()
    return X, _labels(X, rng, 3.0, positive)


def _text(
    rng: np.random.Generator, lengths: np.ndarray, features: int, exponent: float
) -> sp.csr_matrix:
    """Generate rows of norm one with so many words each; a word that is drawn twice weighs more."""
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    columns = _power_law(rng, int(indptr[-1]), features, exponent)
    values = np.exp(rng.standard_normal(int(indptr[-1]), dtype=np.float32) * 0.5)
    X = sp.csr_matrix((values, columns, indptr), shape=(len(lengths), features))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel().astype(np.float32)
    return sp.csr_matrix(
        (X.data / np.repeat(norms, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape
    )


def dense_100(rows: int = 100_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Generate the dense set of the paper's Figures 1a and 2: 100 features, standard normal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 100), dtype=np.float32)
    return X, _labels(X, rng, 2.0)


def sparse_1000(rows: int = 100_000, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Generate the sparse set of the paper's Figure 1b: 1,000 features, 1 % of values, uniform."""
    rng = np.random.default_rng(seed)
    X = sp.random(rows, 1000, density=0.01, format="csr", dtype=np.float32, random_state=rng)
    X.data[:] = rng.standard_normal(X.nnz, dtype=np.float32)
    return X, _labels(X, rng, 2.0)


DATA: dict[str, Callable[..., tuple[Any, np.ndarray]]] = {
    "rcv1-like": rcv1_like,
    "criteo-like": criteo_like,
    "criteo-hashed": criteo_hashed,
    "epsilon-like": epsilon_like,
    "susy-like": susy_like,
    "real-sim-like": real_sim_like,
    "url-like": url_like,
    "kdd2010b-like": kdd2010b_like,
    "dense-100": dense_100,
    "sparse-1000": sparse_1000,
}
