"""Compile the kernels beforehand: fits of a few rows which together reach all of them."""

from __future__ import annotations

import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from daskglm.estimators.any_loss import LinearClassifier, LinearRegressor
from daskglm.estimators.cross_validation import LogisticRegressionCV
from daskglm.estimators.family_cv import GeneralizedLinearRegressorCV
from daskglm.estimators.functional import fit
from daskglm.estimators.lasso import ElasticNet, Lasso
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.ordinal import OrdinalRegression
from daskglm.estimators.penalty_cv import ElasticNetCV
from daskglm.estimators.ridge import Ridge
from daskglm.estimators.svm import LinearSVC
from daskglm.fitting.likelihoods import has_likelihood
from daskglm.kernels.coded_csr import to_csr
from daskglm.kernels.coded_rows import Coded, Tables
from daskglm.losses.base import Loss
from daskglm.losses.builtin import BUILTIN
from daskglm.losses.family import Domain
from daskglm.losses.table import law_of
from daskglm.system.compiled import USED
from daskglm.system.warmed import Record

# Of the small problem. Kernels are compiled for types, not for sizes; but there must be enough for
# line searches, samples and merges of threads to happen.
ROWS, FEATURES = 600, 30
# Features of sparse rows with which batches of problems do not make tiles of them dense.
WIDE = 5000
# Curvatures that inference takes by default.
USUAL_CURVATURES = ("fisher", "squared_slope")


class Task(NamedTuple):
    """One fit: how its rows are stored, their dtype, and the name of the fit in `FITS`."""

    storage: str
    dtype: str
    fit: str


class Rows(NamedTuple):
    """A small problem: rows, two classes, three classes, numbers, and weights."""

    X: Any
    two: np.ndarray
    three: np.ndarray
    numbers: np.ndarray
    weight: np.ndarray

    def targets(self, loss: Loss) -> np.ndarray:
        """Return targets within the loss's domain."""
        domain = loss.family.domain if loss.family is not None else Domain()
        if math.isfinite(domain.high):
            return np.asarray(self.two, float)
        return self.numbers if math.isinf(domain.low) else 0.1 + np.abs(self.numbers)


def _losses(rows: Rows) -> None:
    for loss in BUILTIN:
        if loss.classifies:
            LinearClassifier(loss=loss.name).fit(rows.X, rows.two)
        else:
            LinearRegressor(loss=loss.name, max_iter=20).fit(rows.X, rows.targets(loss))


def _solvers(rows: Rows) -> None:
    for solver in ("newton", "tron", "lbfgs", "gradient_descent"):
        classes = LogisticRegression(solver=solver, max_iter=20)
        classes.fit(rows.X, rows.two, sample_weight=rows.weight)
        Ridge(solver=solver, max_iter=20).fit(rows.X, rows.numbers)
    classes.predict(rows.X)
    # a weak penalty: line searches; a tolerance that rounding hides: columns are measured
    LinearSVC(C=1e6, solver="newton", max_iter=20).fit(rows.X, rows.two)
    Ridge(alpha=1e-9, solver="newton").fit(rows.X, rows.numbers)
    LogisticRegression(tol=1e-15, solver="lbfgs").fit(rows.X, rows.two)


def _sdca(rows: Rows) -> None:
    LinearSVC(loss="hinge", solver="sdca").fit(rows.X, rows.two)
    LogisticRegression(solver="sdca").fit(rows.X, rows.two, sample_weight=rows.weight)
    Ridge(solver="sdca").fit(rows.X, rows.numbers, sample_weight=rows.weight)
    # many features and a weak penalty: steps between epochs
    LinearSVC(loss="hinge", solver="sdca", C=100.0, max_iter=20).fit(_wide(rows.X), rows.two)


def _batches(rows: Rows) -> None:
    LogisticRegression(multi_class="ovr").fit(rows.X, rows.three)
    LogisticRegression(multi_class="ovr", C=1e9).fit(rows.X, rows.three)
    Ridge().fit(rows.X, np.stack([rows.numbers, -rows.numbers], axis=1))
    fit(rows.X, rows.two, C=[0.1, 1.0], sample_weight=rows.weight)
    fit(rows.X, rows.numbers, loss="squared", C=[0.1, 1.0])
    LogisticRegressionCV(Cs=3, cv=3).fit(rows.X, rows.two)
    GeneralizedLinearRegressorCV("gaussian", alphas=2, cv=2).fit(rows.X, rows.numbers)
    # problems with many features are solved one by one, and scored together
    if sp.issparse(rows.X):
        wide = _wide(rows.X)
        LogisticRegressionCV(Cs=2, cv=2).fit(wide, rows.two)
    else:
        wide = np.random.default_rng(1).normal(size=(ROWS, ROWS)).astype(rows.X.dtype)
        LogisticRegressionCV(Cs=2, cv=2).fit(wide, wide.sum(axis=1) > 0.0)


def _inference(rows: Rows) -> None:
    X = rows.X if isinstance(rows.X, Coded) else rows.X[:, :3]
    given = X, rows.two, rows.weight
    model = LogisticRegression(C=np.inf).fit(*given)
    model.inference(*given, covariance="HC1")
    model.inference(*given, covariance="cluster", clusters=rows.three)
    model.inference(*given, covariance="HC3").leverage(*given)
    model.residuals(*given, kind="deviance")
    numbers = Ridge(alpha=0).fit(X, rows.numbers)
    numbers.inference(X, rows.numbers, covariance="HC3").leverage(X, rows.numbers)
    for loss in BUILTIN:
        for curvature in USUAL_CURVATURES if has_likelihood(loss) else ():
            law_of(loss.ref, curvature=curvature)


def _multinomial(rows: Rows) -> None:
    for solver in ("newton", "tron", "lbfgs"):
        LogisticRegression(solver=solver, max_iter=20).fit(rows.X, rows.three)
    LogisticRegression(max_iter=20).fit(rows.X, rows.three, sample_weight=rows.weight)
    if sp.issparse(rows.X):
        wide = _wide(rows.X)
        for solver in ("tron", "lbfgs"):
            LogisticRegression(solver=solver, max_iter=20).fit(wide, rows.three)


def _ordinal(rows: Rows) -> None:
    for solver in ("newton", "tron", "lbfgs"):
        OrdinalRegression(solver=solver, max_iter=20).fit(rows.X, rows.three)
    # a weak penalty: line searches; an offset: thresholds of no features
    model = OrdinalRegression(C=1e6, solver="lbfgs", max_iter=20)
    model.fit(rows.X, rows.three, sample_weight=rows.weight, offset=rows.numbers)
    OrdinalRegression(tol=1e-13, solver="newton").fit(rows.X, rows.three)


def _penalties(rows: Rows) -> None:
    Lasso(alpha=0.01, standardize=True).fit(rows.X, rows.numbers)
    LogisticRegression(l1_ratio=1.0).fit(rows.X, rows.two, sample_weight=rows.weight)
    groups = np.arange(FEATURES) // 3
    LogisticRegression(l1_ratio=1.0, groups=groups).fit(rows.X, rows.two)
    LogisticRegression(l1_ratio=0.5, solver="sdca").fit(rows.X, rows.two)
    ElasticNetCV(alphas=3, cv=2).fit(rows.X, rows.numbers)
    ElasticNet(alpha=0.01, solver="sdca").fit(rows.X, rows.numbers)
    # more features than a Hessian is formed for: descents along columns of dense rows, if all have
    # a penalty, else a copy of the columns of a working set
    wide = _wide(rows.X)
    factors = np.append(0.0, np.ones(wide.shape[1] - 1))
    LogisticRegression(l1_ratio=1.0).fit(wide, rows.two)
    LogisticRegression(l1_ratio=1.0, penalty_factor=factors).fit(wide, rows.two)


def _wide(X: Any) -> Any:
    """Return the rows with zeros in further columns."""
    if isinstance(X, Coded):  # coefficients that no level has
        return replace(X, tables=X.tables._replace(width=WIDE))
    if sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(ROWS, WIDE))
    wide = np.zeros((ROWS, WIDE), X.dtype)
    wide[:, :FEATURES] = X
    return wide


FITS: dict[str, Callable[[Rows], None]] = {
    "solvers": _solvers,
    "losses": _losses,
    "sdca": _sdca,
    "batches": _batches,
    "inference": _inference,
    "multinomial": _multinomial,
    "penalties": _penalties,
    "ordinal": _ordinal,
}


# Fits of coded rows: others compile their kernels when they are first used.
OF_CODES = ("solvers", "sdca", "inference", "penalties")


def tasks() -> list[Task]:
    """Return all fits, so ordered that those at work at the same time share few kernels.

    Neighbours are other fits of other rows, and each fit is run once before any is run again.
    """
    rows = [("dense", "float32"), ("csr", "float64"), ("dense", "float64"), ("csr", "float32")]
    all_fits = [
        Task(*rows[(k + turn) % len(rows)], name)
        for turn in range(len(rows))
        for k, name in enumerate(FITS)
    ]
    return [*all_fits, *(Task("coded", "float64", name) for name in OF_CODES)]


def _coded(rng: np.random.Generator) -> Coded:
    """Return random codes of each width and three numbers, of `FEATURES` coefficients together."""
    counts = [10, 10, 7, 4]
    first = np.cumsum([0, *counts[:-1]])
    # the first level of each is without a coefficient
    stored = np.concatenate([np.arange(count) > 0 for count in counts])
    indptr = np.concatenate([[0], np.cumsum(stored)])
    columns, width = np.arange(indptr[-1]), int(indptr[-1])
    tables = Tables(first, indptr, columns, np.ones(width), np.arange(len(counts)), width)
    codes = np.stack([rng.integers(0, count, ROWS) for count in counts], axis=1)
    narrow, middle = codes[:, :2].astype(np.uint8), codes[:, 2:3].astype(np.uint16)
    wide = codes[:, 3:].astype(np.uint32)
    return Coded(narrow, middle, wide, rng.normal(size=(ROWS, FEATURES - width)), tables)


def run(task: Task) -> frozenset[Path]:
    """Fit once, and so compile what is not on disk yet.

    Returns the files of machine code that this process has used up to now.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    # a column that nearly is another one: Hessians of float32 rows do not do then
    X[:, -1] = X[:, 0] + 1e-5 * X[:, 1]
    stored: Any = X.astype(task.dtype)
    if task.storage == "coded":
        stored = _coded(rng)
        X = to_csr(stored)
    numbers = X @ rng.normal(size=FEATURES) + rng.normal(size=ROWS)
    rows = Rows(
        sp.csr_matrix(stored) if task.storage == "csr" else stored,
        (numbers > 0.0).astype(int),
        np.digitize(numbers, [-1.0, 1.0]),
        numbers,
        1.0 + rng.random(ROWS),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        FITS[task.fit](rows)
    return frozenset(USED)


def run_all(processes: int) -> Iterator[Task]:
    """Run all tasks in so many new processes; yield each when done; record that all are."""
    used: set[Path] = set()
    if processes == 1:
        for task in tasks():
            used |= run(task)
            yield task
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            running = {pool.submit(run, task): task for task in tasks()}
            for future in as_completed(running):
                used |= future.result()
                yield running[future]
    Record().write(used)
