"""Races of multinomial fits: rows like those of covtype, and MNIST where its files are."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.families.contestants import Contestant, Fitted, said
from benchmarks.families.problems import Rows

# Columns of covtype: numbers, then the levels of two categories; and its classes.
NUMBERS, LEVELS, CLASSES = 10, (4, 40), 7
# Tolerances: the packages' own meanings differ, so that each has those that its judge wants.
LADDER = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# C of the sum of the rows' losses.
C = 1.0


def covtype_like(n: int, seed: int = 0) -> Rows:
    """Return n rows of ten correlated numbers and two categories, with seven classes, float64."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(NUMBERS, NUMBERS)) / np.sqrt(NUMBERS)
    X = np.zeros((n, NUMBERS + sum(LEVELS)))
    X[:, :NUMBERS] = rng.normal(size=(n, NUMBERS)) @ mixing
    first = NUMBERS
    for levels in LEVELS:
        shares = rng.dirichlet(np.full(levels, 0.7))
        X[np.arange(n), first + rng.choice(levels, size=n, p=shares)] = 1.0
        first += levels
    margins = X @ rng.normal(0.0, 0.8, (first, CLASSES))
    # the two commonest of covtype's classes have 85 % of its rows
    margins += np.log([0.37, 0.48, 0.06, 0.005, 0.016, 0.03, 0.035])
    y = np.argmax(margins + rng.gumbel(size=margins.shape), axis=1)
    return Rows(X, y, np.ones(n))


def mnist(n: int) -> Rows:
    """Return n of MNIST's 60,000 images, from 0 to 1, float64.

    The two files of the training set are looked for in the folder `mnist` of $DASKGLM_DATA, as they
    are published or compressed by xz. Raises FileNotFoundError where they are missing.
    """
    images = _read("train-images-idx3-ubyte")[:n]
    y = _read("train-labels-idx1-ubyte")[:n]
    X = images.reshape(len(images), -1) / 255.0
    return Rows(X, y.astype(int), np.ones(len(y)))


def _read(name: str) -> np.ndarray:
    folder = Path(os.environ.get("DASKGLM_DATA", ".")) / "mnist"
    for suffix, opener in ((".xz", lzma.open), (".gz", gzip.open)):
        path = folder / (name + suffix)
        if path.exists():
            with opener(path) as file:
                raw = file.read()
            sizes = np.frombuffer(raw, ">i4", raw[3], 4)
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)
    raise FileNotFoundError(f"{folder / name}.xz or .gz; set DASKGLM_DATA to the folder of data")


def contestants(*solvers: str) -> dict[str, Contestant]:
    """Return this package, and scikit-learn with these solvers."""
    return {"daskglm": Contestant(_daskglm, LADDER)} | {
        f"sklearn {solver}": _scikit_learn(solver) for solver in solvers
    }


def _daskglm(rows: Rows, tol: float) -> Fitted:
    import daskglm as package

    model = package.LogisticRegression(C=C, tol=tol).fit(rows.X, rows.y)
    return model.coef_, model.intercept_, said(model.report_)


def _scikit_learn(solver: str) -> Contestant:
    def fit(rows: Rows, tol: float) -> Fitted:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=C, solver=solver, tol=tol, max_iter=10_000)
        model.fit(rows.X, rows.y)
        return model.coef_, model.intercept_, f"{int(np.max(model.n_iter_))} iterations"

    return Contestant(fit, LADDER)


def objective(rows: Rows, w: Any, b: Any) -> float:
    """Return 1/2 |W|^2 + C times the sum of the rows' losses."""
    w, step, total = np.asarray(w, np.float64), 1 << 16, 0.0
    for lo in range(0, len(rows.y), step):
        y = rows.y[lo : lo + step]
        margins = rows.X[lo : lo + step] @ w.T + b
        total += float(np.sum(logsumexp(margins, axis=1) - margins[np.arange(len(y)), y]))
    return 0.5 * float(np.sum(w * w)) + C * total
