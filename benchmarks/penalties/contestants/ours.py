"""This package."""

from __future__ import annotations

from typing import Any

import numpy as np

import daskglm
from benchmarks.families.contestants import said
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("daskglm", "numba")


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit by the estimator of the problem."""
    if problem.task == "path":
        return _path(problem, tol)
    model = _model(problem, tol, threads).fit(problem.X, problem.y)
    more = {"alpha": float(model.alpha_)} if problem.task == "folds" else {}
    if hasattr(model, "mse_path_"):
        more["errors"] = np.asarray(model.mse_path_)
    return one(model.coef_, model.intercept_, said(model.report_), **more)


def _model(problem: Problem, tol: float, threads: int) -> Any:
    common: dict[str, Any] = {
        "fit_intercept": problem.fit_intercept,
        "tol": tol,
        "n_jobs": threads,
    }
    rho = problem.l1_ratio
    if problem.task == "folds":
        return daskglm.ElasticNetCV(l1_ratio=rho, alphas=problem.alphas, cv=FOLDS, **common)
    if problem.family == "binomial":
        return daskglm.LogisticRegression(C=problem.C, l1_ratio=rho, **common)
    if problem.family == "poisson":
        return daskglm.PoissonRegressor(alpha=problem.alpha, l1_ratio=rho, **common)
    if problem.family == "gamma":
        return daskglm.GammaRegressor(alpha=problem.alpha, l1_ratio=rho, **common)
    if rho == 0.0:
        return daskglm.Ridge(alpha=problem.alpha * len(problem.y), **common)
    if rho == 1.0:
        return daskglm.Lasso(alpha=problem.alpha, **common)
    return daskglm.ElasticNet(alpha=problem.alpha, l1_ratio=rho, **common)


def _path(problem: Problem, tol: float) -> Answer:
    path = daskglm.regularization_path(
        problem.X,
        problem.y,
        family=problem.family,
        l1_ratio=problem.l1_ratio,
        alphas=problem.alphas,
        fit_intercept=problem.fit_intercept,
        tol=tol,
    )
    gap = float(np.max(path.gaps))
    return Answer(path.coefs, path.intercepts, f"{path.report_.passes:.2f} passes, gap {gap:.1e}")
