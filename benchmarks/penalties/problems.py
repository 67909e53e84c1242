"""The problems of the races: rows, targets, and the values of alpha.

All have one scale, whatever a package's own is: the mean of half the unit deviances plus
alpha (rho |w|_1 + (1 - rho)/2 |w|^2), where rho is l1_ratio and the intercept is free.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from benchmarks.datasets import problems as datasets
from benchmarks.datasets.snap_ml import criteo_like, rcv1_like, susy_like
from benchmarks.datasets.topics import topics_like
from benchmarks.families.problems import one_hot

# Columns of the gaussian path, and the share of them that targets depend on.
PATH_COLUMNS, ACTIVE = 100, 0.3
# Stored values of a row of news20's shape, about as many as news20.binary has.
NEWS20_COLUMNS, NEWS20_VALUES = 1_300_000, 455
# Frequencies of words fall as their rank to this power, as in the stand-in for RCV1.
POPULARITY = 0.7
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, targets and what is asked of them.

    Parameters
    ----------
    X : (n, d) array or csr_matrix
    y : (n,) array
        Classes are -1 and +1.
    family : {"gaussian", "poisson", "gamma", "binomial"}
    alphas : (m,) array
        From the largest.
    l1_ratio : float
    fit_intercept : bool
    task : {"one", "path", "folds"}
        One alpha, all of them, or all of them on all rows but a fifth, five times, and then the
        best of them on all rows.
    """

    X: Any
    y: np.ndarray
    family: str
    alphas: np.ndarray
    l1_ratio: float
    fit_intercept: bool
    task: str

    @property
    def alpha(self) -> float:
        """The one value, of problems that have one."""
        return float(self.alphas[0])

    @property
    def C(self) -> float:
        """The weight of a sum of losses beside rho |w|_1 + (1 - rho)/2 |w|^2."""
        return 1.0 / (len(self.y) * self.alpha)

    @property
    def megabytes(self) -> float:
        """Of X and y."""
        parts = [self.X.data, self.X.indices, self.X.indptr] if sp.issparse(self.X) else [self.X]
        return float(sum(part.nbytes for part in [*parts, self.y]) / 2**20)

    def first_rows(self, n: int) -> Problem:
        """Return the same of the first n rows."""
        return replace(self, X=self.X[:n], y=self.y[:n])


# ---- rows and targets


def path_rows(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return dense float64 rows of 100 columns that ten factors correlate, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, PATH_COLUMNS))
    X += rng.normal(size=(n, 10)) @ rng.normal(0.0, 0.3, (10, PATH_COLUMNS))
    return X, _numbers(X, rng)


def higgs_rows(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return 28 float32 columns as of HIGGS, and numbers."""
    X = datasets.higgs_like(n, seed)[0]
    return X, _numbers(X, np.random.default_rng(seed + 1)).astype(np.float32)


def susy_rows(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return 18 float32 columns as of SUSY, and numbers."""
    X = susy_like(n, seed)[0]
    return X, _numbers(X, np.random.default_rng(seed + 1)).astype(np.float32)


def _numbers(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a linear model of some columns, with as much noise as signal."""
    w = rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < ACTIVE)
    z = (X @ w.astype(X.dtype)).astype(np.float64)
    return z + rng.normal(0.0, max(float(z.std()), 1.0), len(z)) + 1.0


def counts(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return one-hot rows of 315 columns, and counts."""
    X, margin = one_hot(n, seed)
    return X, np.random.default_rng(seed + 1).poisson(np.exp(margin)).astype(np.float64)


def amounts(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return one-hot rows of 315 columns, and amounts above zero."""
    X, margin = one_hot(n, seed)
    drawn = np.random.default_rng(seed + 1).gamma(2.0, np.exp(margin) / 2.0)
    return X, np.maximum(drawn, 1e-9)


def news20_rows(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return text-like float32 rows of norm one in 1,300,000 columns, and classes."""
    rng = np.random.default_rng(seed)
    size = n * NEWS20_VALUES
    rank = rng.random(size) ** (1.0 / (1.0 - POPULARITY)) * NEWS20_COLUMNS
    columns = rng.permutation(NEWS20_COLUMNS)[np.minimum(rank.astype(int), NEWS20_COLUMNS - 1)]
    starts = np.arange(0, size + 1, NEWS20_VALUES)
    shape = (n, NEWS20_COLUMNS)
    X = sp.csr_matrix((np.ones(size, np.float32), columns.astype(np.int32), starts), shape=shape)
    X.sum_duplicates()
    lengths = np.diff(X.indptr)
    X.data[:] = np.repeat(1.0 / np.sqrt(lengths), lengths)
    z = np.asarray(X @ rng.normal(size=NEWS20_COLUMNS)).ravel()
    z = 4.0 * (z - z.mean()) / z.std()
    return X, np.where(rng.random(n) < expit(z), 1.0, -1.0)


DRAWS = {
    "path": path_rows,
    "higgs": higgs_rows,
    "susy": susy_rows,
    "counts": counts,
    "amounts": amounts,
    "rcv1": rcv1_like,
    "topics": topics_like,
    "news20": news20_rows,
    "criteo": criteo_like,
}


# ---- values of alpha


def largest_alpha(X: Any, y: np.ndarray, family: str, l1_ratio: float, intercept: bool) -> float:
    """Return the least alpha for which all coefficients are zero."""
    y = y.astype(np.float64)
    middle = float(y.mean())
    if family == "binomial":
        share = (middle + 1.0) / 2.0 if intercept else 0.5
        slope = share - (y + 1.0) / 2.0
    elif family == "gamma":
        slope = 1.0 - y / (middle if intercept else 1.0)
    elif family == "poisson":
        slope = (middle if intercept else 1.0) - y
    else:
        slope = (middle if intercept else 0.0) - y
    gradient, step = np.zeros(X.shape[1]), 1 << 16
    for lo in range(0, len(y), step):
        rows = X[lo : lo + step].astype(np.float64)
        gradient += np.asarray(rows.T @ slope[lo : lo + step]).ravel()
    return float(np.abs(gradient).max()) / len(y) / l1_ratio


# ---- a folder that the processes of the contestants read


def store(problem: Problem, folder: Path) -> None:
    """Write a problem to a new folder."""
    datasets.write(folder, problem.X, problem.y)
    said = {k: v for k, v in asdict(replace(problem, X=None, y=np.empty(0))).items() if k != "X"}
    said |= {"y": None, "alphas": problem.alphas.tolist()}
    (folder / "problem.json").write_text(json.dumps(said))


def read(folder: Path) -> Problem:
    """Return the problem of a folder."""
    X, y = datasets.read(folder)
    said = json.loads((folder / "problem.json").read_text())
    return Problem(**(said | {"X": X, "y": y, "alphas": np.array(said["alphas"])}))
