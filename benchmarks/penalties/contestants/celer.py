"""celer: coordinate descent on working sets, with dual extrapolation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from celer import ElasticNet, ElasticNetCV, LogisticRegression

from benchmarks.contestants import NotApplicable
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("celer", "scikit-learn")
MAX_ITER = 1000


def prepare(problem: Problem, **_: Any) -> Any:
    """Lay rows out by columns, in float64."""
    X = sp.csc_matrix(problem.X) if sp.issparse(problem.X) else np.asfortranarray(problem.X)
    return X.astype(np.float64, copy=False)


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit; `tol` bounds the duality gap, relative to the objective at zero."""
    rho, y = problem.l1_ratio, problem.y.astype(np.float64)
    if problem.family == "binomial":
        if rho < 1.0 or problem.fit_intercept:
            raise NotApplicable("celer's logistic regression has L1 alone, and no intercept")
        model = LogisticRegression(C=problem.C, tol=tol, max_iter=MAX_ITER).fit(rows, y)
        return one(model.coef_, 0.0, "")
    if problem.family != "gaussian":
        raise NotApplicable("celer has squared and logistic losses only")
    common = {"tol": tol, "max_iter": MAX_ITER, "fit_intercept": problem.fit_intercept}
    if problem.task == "folds":
        chosen = ElasticNetCV(
            l1_ratio=rho, alphas=problem.alphas, cv=FOLDS, n_jobs=threads, **common
        ).fit(rows, y)
        return one(chosen.coef_, chosen.intercept_, "", alpha=float(chosen.alpha_))
    single = ElasticNet(problem.alpha, l1_ratio=rho, **common).fit(rows, y)
    return one(single.coef_, single.intercept_, f"{int(np.max(single.n_iter_))} iterations")
