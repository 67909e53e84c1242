"""Each contestant of the races of means fits a problem to a tolerance of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.families.problems import FAMILIES, Rows

# Tolerances that a contestant is given one after the other, until the judge is content.
LADDER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)

# What a fit returns: coefficients, intercepts, and what the package says of it.
Fitted = tuple[Any, Any, str]


def _as_they_are(rows: Rows) -> Rows:
    return rows


class Contestant(NamedTuple):
    """A package and a solver.

    `fit` takes rows and a tolerance; `prepare` is done to rows before the clock starts. A first
    fit, of `warm_up` rows, compiles and imports.
    """

    fit: Callable[[Rows, float], Fitted]
    ladder: tuple[float, ...] = LADDER
    prepare: Callable[[Rows], Rows] = _as_they_are
    warm_up: int = 20_000


def of_family(family: str, alpha: float) -> dict[str, Contestant]:
    """Return the contestants of a ridge regression of a family."""

    def daskglm(rows: Rows, tol: float) -> Fitted:
        import daskglm as package

        name = "tweedie(1.5)" if family == "tweedie" else family
        model = package.GeneralizedLinearRegressor(name, alpha=alpha, tol=tol)
        model.fit(rows.X, rows.y, rows.weight)
        return model.coef_, model.intercept_, said(model.report_)

    def scikit_learn(solver: str) -> Contestant:
        def fit(rows: Rows, tol: float) -> Fitted:
            from sklearn.linear_model import TweedieRegressor

            model = TweedieRegressor(
                power=FAMILIES[family],
                link="log",
                alpha=alpha,
                solver=solver,
                tol=tol,
                max_iter=1000,
            )
            model.fit(rows.X, rows.y, rows.weight)
            return model.coef_, model.intercept_, f"{model.n_iter_} iterations"

        return Contestant(fit)

    def glum(rows: Rows, tol: float) -> Fitted:
        import glum as package

        name = "tweedie (1.5)" if family == "tweedie" else family
        model = package.GeneralizedLinearRegressor(
            family=name, link="log", alpha=alpha, l1_ratio=0.0, gradient_tol=tol, max_iter=200
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows.X, rows.y, sample_weight=rows.weight)
        return np.asarray(model.coef_), float(model.intercept_), f"{model.n_iter_} iterations"

    return {
        "daskglm": Contestant(daskglm),
        "sklearn newton-cholesky": scikit_learn("newton-cholesky"),
        "sklearn lbfgs": scikit_learn("lbfgs"),
        "glum irls": Contestant(glum, prepare=_for_glum),
    }


def _for_glum(rows: Rows) -> Rows:
    """Return the rows as glum 3.4.1 takes them: CSC, and float64, since float32 crashed it here."""
    X = sp.csc_matrix(rows.X) if sp.issparse(rows.X) else rows.X.astype(np.float64)
    return replace(rows, X=X)


def said(report: Any) -> str:
    """Return what a report of this package says of a fit."""
    return f"{report.passes:.2f} passes, gap {report.relative_gap:.1e}"
