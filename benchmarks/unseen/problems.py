"""Problems that no suite, no drawn distribution and no constant of a solver was made from.

Every function takes the number of rows and a seed, and gives X and classes -1 and +1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from benchmarks.datasets import problems as datasets
from benchmarks.datasets.topics import topics_like

# Values of a row of the wide sparse rows.
WIDE_VALUES = 100
# Standard deviation of the rows' lengths of raw counts, as a share of their mean; and the mean.
COUNTS_SPREAD, COUNTS_LENGTH = 0.6, 80


def _classes(margin: np.ndarray, signal: float, rng: np.random.Generator) -> np.ndarray:
    """Draw classes of a logistic model whose margins have the standard deviation `signal`."""
    z = signal * (margin - margin.mean()) / margin.std()
    return np.where(rng.random(len(z)) < expit(z), 1.0, -1.0)


def _unit(X: sp.csr_matrix) -> sp.csr_matrix:
    """Divide rows by their norms."""
    lengths = np.diff(X.indptr)
    squares = np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1])
    X.data /= np.repeat(np.sqrt(squares), lengths).astype(X.dtype)
    return X


def wide(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return float32 rows of norm one: 100 log-normal values in 300,000 columns, equally likely."""
    rng = np.random.default_rng(seed)
    features = 300_000
    columns = rng.integers(features, size=(rows, WIDE_VALUES), dtype=np.int32)
    columns.sort(axis=1)
    values = np.exp(0.5 * rng.standard_normal(columns.size)).astype(np.float32)
    starts = np.arange(0, columns.size + 1, WIDE_VALUES)
    X = sp.csr_matrix((values, columns.ravel(), starts), shape=(rows, features))
    X.sum_duplicates()
    X = _unit(X)
    return X, _classes(X @ rng.standard_normal(features), 3.0, rng)


def decaying(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return dense float64 rows of 800 features, whose scales fall by 300 along hidden axes."""
    rng = np.random.default_rng(seed)
    features = 800
    axes = np.linalg.qr(rng.standard_normal((features, features)))[0]
    scales = np.geomspace(10.0, 10.0 / 300.0, features)
    X = (rng.standard_normal((rows, features)) * scales) @ axes
    return X, _classes(X @ rng.standard_normal(features), 2.0, rng)


def long_dense(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return dense float32 rows of 60 heavy-tailed features, in groups of ten that correlate."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(6, (rows, 60)).astype(np.float32)
    X += np.repeat(rng.standard_normal((rows, 6)).astype(np.float32), 10, axis=1)
    return X, _classes(X @ rng.standard_normal(60), 1.5, rng)


def _counted(
    rows: int, features: int, lengths: np.ndarray, power: float, rng: np.random.Generator
) -> sp.csr_matrix:
    """Return counts of columns whose frequency falls as a power of their rank, in random order."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rank = (rng.random(starts[-1]) ** (1.0 / (1.0 - power)) * features).astype(np.int64)
    columns = rng.permutation(features)[np.minimum(rank, features - 1)].astype(np.int32)
    X = sp.csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(rows, features))
    X.sum_duplicates()
    return X


def raw_counts(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return raw counts of 20,000 words, of rows of unequal lengths."""
    rng = np.random.default_rng(seed)
    spread = np.maximum(1.0 + COUNTS_SPREAD * rng.standard_normal(rows), 0.05)
    X = _counted(rows, 20_000, (COUNTS_LENGTH * spread).astype(np.int64) + 1, 0.75, rng)
    return X, _classes(X @ rng.standard_normal(20_000), 3.0, rng)


def long_sparse(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return rows of 12 values, 1 or log-normal, in 5,000 columns, a few of which are common."""
    rng = np.random.default_rng(seed)
    X = _counted(rows, 5_000, np.full(rows, 12), 0.6, rng)
    some = rng.random(X.nnz) < 0.5
    X.data[some] = np.exp(rng.standard_normal(int(some.sum()))).astype(np.float32)
    return X, _classes(X @ rng.standard_normal(5_000), 2.0, rng)


def table(rows: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return one-hot rows of nine factors, of 2 to 15,000 levels in random order."""
    rng = np.random.default_rng(seed)
    sizes = np.array([2, 7, 12, 24, 95, 300, 1_200, 3_500, 15_000])
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    levels = (rng.random((rows, len(sizes))) ** 2.5 * sizes).astype(np.int64)
    new = rng.permutation(sizes.sum())
    columns = np.sort(new[offsets + levels], axis=1).astype(np.int32).ravel()
    starts = np.arange(0, len(columns) + 1, len(sizes))
    X = sp.csr_matrix((np.ones(len(columns)), columns, starts), shape=(rows, len(new)))
    return X, _classes(X @ rng.standard_normal(len(new)), 1.0, rng)


DRAWS: dict[str, Callable[[int, int], tuple[Any, np.ndarray]]] = {
    "topics-like": topics_like,
    "wide": wide,
    "decaying": decaying,
    "long-dense": long_dense,
    "raw-counts": raw_counts,
    "long-sparse": long_sparse,
    "table": table,
}

LINEAR_SVC = ("snapml-dual", "liblinear-s1", "liblinear-s2")
SVC = ("snapml-dual", "liblinear-s3")
LOGISTIC_DUAL = ("snapml-dual", "liblinear-s0")
LOGISTIC_DENSE = (
    *("snapml-dual", "sklearn-newton-cholesky", "glum-irls", "sklearn-lbfgs"),
    *("h2o-irlsm", "h2o-lbfgs", "spark-lbfgs"),
)


@dataclass(frozen=True)
class Problem:
    """Rows of `DRAWS` or a set by its name, the loss and C, and who else is timed.

    `one_against` takes the class of most rows of a set of many classes against the rest.
    """

    data: str
    rows: int | None
    loss: str
    C: float
    peers: tuple[str, ...]
    one_against: bool = False

    def __str__(self) -> str:
        rows = f" {self.rows:,}" if self.rows else ""
        return f"{self.data}{rows}, {self.loss}, C={self.C:g}"

    def make(self, seed: int) -> tuple[Any, np.ndarray]:
        """Draw the rows, or load them."""
        if self.data in DRAWS:
            assert self.rows is not None
            return DRAWS[self.data](self.rows, seed)
        X, y = datasets.load(self.data, rows=self.rows, seed=seed)
        if self.one_against:
            names, counts = np.unique(y, return_counts=True)
            y = np.where(y == names[np.argmax(counts)], 1.0, -1.0)
        return X, y


PROBLEMS = (
    Problem("topics-like", 100_000, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("topics-like", 200_000, "logistic", 100.0, LOGISTIC_DUAL),
    Problem("wide", 200_000, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("wide", 200_000, "squared_hinge", 1.0, LINEAR_SVC),
    Problem("decaying", 20_000, "logistic", 1.0, LOGISTIC_DENSE),
    Problem("decaying", 20_000, "squared_hinge", 1.0, LINEAR_SVC),
    Problem("long-dense", 300_000, "logistic", 1.0, LOGISTIC_DENSE),
    Problem("raw-counts", 100_000, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("long-sparse", 1_000_000, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("table", 683_801, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("criteo-hashed", 1_000_000, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("epsilon-like", 100_000, "logistic", 1.0, ("snapml-dual",)),
    Problem("rcv1_binary", None, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("rcv1_binary", None, "squared_hinge", 1.0, LINEAR_SVC),
    Problem("news20_text", None, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("news20_libsvm", None, "squared_hinge", 1.0, LINEAR_SVC, one_against=True),
    Problem("rcv1_binary", None, "hinge", 1.0, SVC),
    Problem("news20_libsvm", None, "hinge", 1.0, SVC, one_against=True),
    Problem("raw-counts", 20_000, "hinge", 1.0, SVC),
    Problem("raw-counts", 20_000, "squared_hinge", 1.0, LINEAR_SVC),
    Problem("topics-like", 100_000, "hinge", 1.0, SVC),
    Problem("long-dense", 300_000, "hinge", 1.0, SVC),
    Problem("kddcup99", None, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("amazon_reviews", None, "logistic", 1.0, LOGISTIC_DUAL),
    Problem("insteval", None, "logistic", 1.0, (*LOGISTIC_DUAL, "sklearn-newton-cholesky")),
)
