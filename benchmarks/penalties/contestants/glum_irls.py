"""glum: iteratively reweighted least squares by coordinate descent, on tabmat's matrices."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from glum import GeneralizedLinearRegressor, GeneralizedLinearRegressorCV

from benchmarks.contestants import NotApplicable
from benchmarks.contestants.glum_regressor import prepare as tabmat_of
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("glum", "tabmat")
MAX_ITER = 1000
# Columns beyond which the Hessian does not fit in memory: glum #485.
MOST_COLUMNS = 20_000


def prepare(problem: Problem, **_: Any) -> Any:
    """Return tabmat's matrix, in float64: glum 3.4.1 crashed on float32 here."""
    if problem.X.shape[1] > MOST_COLUMNS:
        raise NotApplicable("glum forms a Hessian of all columns (glum #485)")
    return tabmat_of(problem.X.astype(np.float64), problem.y)[0]


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit; `tol` bounds the entries of the mean objective's gradient."""
    y = (problem.y > 0) * 1.0 if problem.family == "binomial" else problem.y.astype(np.float64)
    common: dict[str, Any] = {
        "family": problem.family,
        "link": {"gaussian": "identity", "binomial": "logit"}.get(problem.family, "log"),
        "l1_ratio": problem.l1_ratio,
        "fit_intercept": problem.fit_intercept,
        "gradient_tol": tol,
        "max_iter": MAX_ITER,
    }
    if problem.task == "folds":
        model = GeneralizedLinearRegressorCV(
            alphas=problem.alphas, cv=FOLDS, n_jobs=threads, **common
        )
    elif problem.task == "path":
        model = GeneralizedLinearRegressor(alpha=list(problem.alphas), alpha_search=True, **common)
    else:
        model = GeneralizedLinearRegressor(alpha=problem.alpha, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, y)
    if problem.task == "path":
        return Answer(model.coef_path_, model.intercept_path_, "")
    more = {"alpha": float(model.alpha_)} if problem.task == "folds" else {}
    return one(model.coef_, model.intercept_, f"{model.n_iter_} iterations", **more)
