"""Each contestant fits a problem to a tolerance of its own: (rows, family, alpha, tol) to w, b."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.families.problems import FAMILIES, Rows

# Tolerances that a contestant is given one after the other, until the judge is content.
LADDER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)


def daskglm(rows: Rows, family: str, alpha: float, tol: float) -> tuple[Any, float, str]:
    """Return the fit of this package."""
    import daskglm as package

    name = "tweedie(1.5)" if family == "tweedie" else family
    model = package.GeneralizedLinearRegressor(name, alpha=alpha, tol=tol)
    model.fit(rows.X, rows.y, rows.weight)
    report = model.report_
    return (
        model.coef_,
        model.intercept_,
        f"{report.passes:.2f} passes, gap {report.relative_gap:.1e}",
    )


def newton_cholesky(rows: Rows, family: str, alpha: float, tol: float) -> tuple[Any, float, str]:
    """Return the fit of scikit-learn's newton-cholesky."""
    return _scikit_learn(rows, family, alpha, tol, "newton-cholesky")


def lbfgs(rows: Rows, family: str, alpha: float, tol: float) -> tuple[Any, float, str]:
    """Return the fit of scikit-learn's lbfgs."""
    return _scikit_learn(rows, family, alpha, tol, "lbfgs")


def _scikit_learn(
    rows: Rows, family: str, alpha: float, tol: float, solver: str
) -> tuple[Any, float, str]:
    from sklearn.linear_model import TweedieRegressor

    model = TweedieRegressor(
        power=FAMILIES[family], link="log", alpha=alpha, solver=solver, tol=tol, max_iter=1000
    )
    model.fit(rows.X, rows.y, rows.weight)
    return model.coef_, model.intercept_, f"{model.n_iter_} iterations"


def glum(rows: Rows, family: str, alpha: float, tol: float) -> tuple[Any, float, str]:
    """Return the fit of glum's iteratively reweighted least squares."""
    import glum as package

    name = "tweedie (1.5)" if family == "tweedie" else family
    model = package.GeneralizedLinearRegressor(
        family=name, link="log", alpha=alpha, l1_ratio=0.0, gradient_tol=tol, max_iter=200
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows.X, rows.y, sample_weight=rows.weight)
    return np.asarray(model.coef_), float(model.intercept_), f"{model.n_iter_} iterations"


def for_glum(rows: Rows) -> Rows:
    """Return the rows as glum 3.4.1 takes them: CSC, and float64, since float32 crashed it here."""
    X = sp.csc_matrix(rows.X) if sp.issparse(rows.X) else rows.X.astype(np.float64)
    return replace(rows, X=X)


# What is done to rows before the clock starts.
PREPARE = {"glum irls": for_glum}
CONTESTANTS = {
    "daskglm": daskglm,
    "sklearn newton-cholesky": newton_cholesky,
    "sklearn lbfgs": lbfgs,
    "glum irls": glum,
}
