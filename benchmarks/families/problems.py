"""Generated rows like those of insurers: one-hot categories, or dense numbers; and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

# Levels of eight categories, 315 columns in all.
LEVELS = (6, 20, 40, 60, 80, 100, 5, 4)
# Columns of the dense rows, as many as HIGGS has.
COLUMNS = 28
FAMILIES = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}


@dataclass(frozen=True)
class Rows:
    """One problem: rows, targets and weights."""

    X: Any
    y: np.ndarray
    weight: np.ndarray


def one_hot(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return n rows of eight categories as CSR, and their margins."""
    rng = np.random.default_rng(seed)
    first, columns = 0, []
    for levels in LEVELS:
        shares = rng.dirichlet(np.full(levels, 2.0))
        columns.append(first + rng.choice(levels, size=n, p=shares))
        first += levels
    places = np.stack(columns, axis=1).astype(np.int32)
    starts = np.arange(0, places.size + 1, places.shape[1])
    X = sp.csr_matrix((np.ones(places.size), places.ravel(), starts), shape=(n, first))
    return X, X @ rng.normal(0.0, 0.3, first) - 2.3


def dense(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return n dense float32 rows, and their margins."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    return X, X @ rng.normal(0.0, 0.1, COLUMNS).astype(np.float32) - 0.5


def problem(shape: str, family: str, n: int, seed: int = 0) -> Rows:
    """Return the rows of a shape ("one-hot" or "dense") with targets of a family."""
    X, margin = (one_hot if shape == "one-hot" else dense)(n, seed)
    rng = np.random.default_rng(seed + 1)
    mean, weight = np.exp(margin.astype(np.float64)), rng.uniform(0.1, 1.0, n)
    if family == "poisson":
        y = rng.poisson(mean * weight) / weight
    elif family == "gamma":
        y = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-9)
    else:
        y = rng.poisson(2.0 * mean) * rng.gamma(1.5, 1.0, n)
    return Rows(X, y, weight)
