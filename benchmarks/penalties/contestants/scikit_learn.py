"""scikit-learn, and the same classes of scikit-learn-intelex."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.contestants import NotApplicable
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("scikit-learn", "scikit-learn-intelex", "daal")
MAX_ITER = 100_000


def prepare(problem: Problem, *, solver: str = "", **_: Any) -> Any:
    """Lay rows out by columns where coordinate descent reads them so."""
    by_columns = problem.family == "gaussian" and solver == "cd" and problem.l1_ratio > 0.0
    return np.asfortranarray(problem.X) if by_columns else problem.X


def fit(
    problem: Problem,
    rows: Any,
    tol: float,
    threads: int,
    *,
    module: str = "sklearn.linear_model",
    solver: str = "",
) -> Answer:
    """Fit; `solver` is "cd" or "gram" (coordinate descent on rows, on the Gram), or its own."""
    if problem.family in ("poisson", "gamma") or problem.task == "path":
        raise NotApplicable("scikit-learn 1.9.1 has no L1 penalty for Poisson and gamma")
    found = importlib.import_module(module)
    rho, common = problem.l1_ratio, {"fit_intercept": problem.fit_intercept}
    if problem.family == "binomial":
        model = found.LogisticRegression(
            C=problem.C, l1_ratio=rho, solver=solver, tol=tol, max_iter=MAX_ITER, **common
        )
    elif rho == 0.0:
        model = found.Ridge(alpha=problem.alpha * len(problem.y), tol=tol, **common)
    else:
        common |= {"tol": tol, "max_iter": MAX_ITER}
        if module == "sklearn.linear_model":
            # "auto" of ElasticNetCV takes the Gram where rows are more than columns
            common["precompute"] = solver == "gram"
        if problem.task == "folds":
            common["n_jobs"] = threads
            model = found.ElasticNetCV(l1_ratio=rho, alphas=problem.alphas, cv=FOLDS, **common)
        elif rho == 1.0:
            model = found.Lasso(alpha=problem.alpha, **common)
        else:
            model = found.ElasticNet(alpha=problem.alpha, l1_ratio=rho, **common)
    model.fit(rows, problem.y)
    iterations = getattr(model, "n_iter_", None)
    said = "" if iterations is None else f"{int(np.max(iterations))} iterations"
    more = {}
    if problem.task == "folds":
        more = {"alpha": float(model.alpha_), "errors": np.asarray(model.mse_path_)}
    return one(model.coef_, model.intercept_, said, **more)
