"""python-glmnet: glmnet's Fortran code, gaussian and binomial."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from glmnet import ElasticNet, LogitNet

from benchmarks.contestants import NotApplicable
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("python-glmnet",)
MAX_ITER = 1_000_000


def prepare(problem: Problem, **_: Any) -> Any:
    """Lay rows out by columns, in float64."""
    X = sp.csc_matrix(problem.X) if sp.issparse(problem.X) else np.asfortranarray(problem.X)
    return X.astype(np.float64, copy=False)


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit at all alphas; those of folds are shuffled rows. `tol` bounds changes of the deviance.

    glmnet divides numbers by their standard deviation s, which makes its L2 penalty ours over s.
    """
    if problem.family not in ("gaussian", "binomial"):
        raise NotApplicable("python-glmnet has gaussian and binomial fits only")
    rho, s, kind = problem.l1_ratio, 1.0, LogitNet
    if problem.family == "gaussian":
        s, kind = float(np.std(problem.y, dtype=np.float64)), ElasticNet
    stretch = rho + s * (1.0 - rho)
    # a single value is solved as it comes: a path above it is this package's way to warm up
    model = kind(
        alpha=rho / stretch,
        lambda_path=problem.alphas * stretch,
        standardize=False,
        fit_intercept=problem.fit_intercept,
        n_splits=FOLDS if problem.task == "folds" else 0,
        cut_point=0.0,
        scoring="mean_squared_error" if problem.task == "folds" else None,
        n_jobs=threads,
        random_state=0,
        tol=tol,
        max_iter=MAX_ITER,
    )
    model.fit(rows, problem.y.astype(np.float64))
    d = problem.X.shape[1]
    coefs = np.asarray(model.coef_path_).reshape(d, -1).T
    intercepts = np.ravel(model.intercept_path_)
    if problem.task != "folds":
        return Answer(coefs, intercepts, "")
    chosen = int(model.lambda_max_inx_)
    return one(coefs[chosen], intercepts[chosen], "", alpha=float(problem.alphas[chosen]))
