"""What the generators of drawn problems share: laws of numbers and columns, rows, their sizes."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

COLUMN_BYTES = 4  # of the column number beside each stored value


class Drawn(Protocol):
    """What a suite asks of a problem; it is a dataclass, whose text says all that matters.

    A generator is a module with `draw(seed, number, most_bytes)`, which returns such a problem,
    `make(drawn)`, which returns its rows and targets, and `arguments(drawn, X, y)`, which returns
    what `daskglm.fit` takes besides them.
    """

    @property
    def seed(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def loss(self) -> str: ...
    @property
    def l1_ratio(self) -> float: ...


def log_uniform(rng: np.random.Generator, low: float, high: float) -> int:
    """Draw a whole number whose logarithm is uniform."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def power_of_ten(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(10 ** rng.uniform(math.log10(low), math.log10(high)))


def one_of(rng: np.random.Generator, shares: dict[str, float]) -> str:
    """Draw a name by its share."""
    return str(rng.choice(list(shares), p=list(shares.values())))


def rows_within(most_bytes: int, per_row: int, dtype: str, *, dense: bool) -> int:
    """Return how many rows of so many stored values fit into so many bytes."""
    return most_bytes // (per_row * (np.dtype(dtype).itemsize + (0 if dense else COLUMN_BYTES)))


def ranks(
    rng: np.random.Generator, count: int, power: float, shape: Any, *, first: int = 1
) -> np.ndarray:
    """Draw numbers below `count`, k with probability proportional to (first + k) ** -power."""
    law = np.cumsum(np.arange(first, count + first, dtype=float) ** -power)
    return np.searchsorted(law, rng.random(shape) * law[-1])


def csr(columns: np.ndarray, values: np.ndarray, features: int, dtype: str) -> sp.csr_matrix:
    """Return the rows with these values in these columns (rows, per_row); duplicates are added."""
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    given = values.ravel().astype(dtype), columns.ravel().astype(np.int32), starts
    X = sp.csr_matrix(given, shape=(len(columns), features))
    X.sum_duplicates()
    return X


def to_unit_rows(X: sp.csr_matrix) -> None:
    """Scale rows to norm one, but for those without values."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    X.data /= np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(X.indptr)).astype(X.dtype)


def column_squares(X: Any) -> np.ndarray:
    """Return the sum of squares of each column."""
    return np.asarray(X.multiply(X).sum(axis=0)).ravel() if sp.issparse(X) else (X * X).sum(0)


def standardised(z: np.ndarray) -> np.ndarray:
    """Return numbers of mean zero and variance one; all alike they become zeros."""
    return (z - z.mean()) / max(float(z.std()), np.finfo(np.float32).tiny)
