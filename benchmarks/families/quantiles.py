"""Races of quantile regressions without a penalty, which are linear programs."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.families.contestants import Contestant, Fitted, said
from benchmarks.families.problems import Rows

COLUMNS = 20


def problem(n: int, seed: int = 0) -> Rows:
    """Return n dense float64 rows, and targets with heavy tails whose spread depends on the row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS))
    spread = np.exp(0.3 * X[:, 0])
    y = X @ rng.normal(size=COLUMNS) + 1.0 + spread * rng.standard_t(4, n)
    return Rows(X, y, np.ones(n))


def contestants(quantile: float) -> dict[str, Contestant]:
    """Return the contestants for a quantile; the linear programs of HiGHS know no tolerance."""
    return {
        "daskglm": Contestant(partial(_daskglm, quantile), (1e-3, 1e-5, 1e-7)),
        "sklearn highs": Contestant(partial(_highs, quantile), (0.0,), warm_up=1000),
        "statsmodels": Contestant(partial(_statsmodels, quantile), (1e-3, 1e-6)),
    }


def _daskglm(quantile: float, rows: Rows, tol: float) -> Fitted:
    import daskglm as package

    model = package.QuantileRegressor(quantile=quantile, alpha=0, tol=tol).fit(rows.X, rows.y)
    return model.coef_, model.intercept_, said(model.report_)


def _highs(quantile: float, rows: Rows, tol: float) -> Fitted:
    from sklearn.linear_model import QuantileRegressor

    model = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs").fit(rows.X, rows.y)
    return model.coef_, model.intercept_, f"{model.n_iter_} iterations"


def _statsmodels(quantile: float, rows: Rows, tol: float) -> Fitted:
    from statsmodels.regression.quantile_regression import QuantReg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant = np.column_stack([rows.X, np.ones(len(rows.y))])
        fit = QuantReg(rows.y, constant).fit(q=quantile, p_tol=tol, max_iter=1000)
    return fit.params[:-1], fit.params[-1], f"{fit.iterations} iterations"


def objective(quantile: float, rows: Rows, w: Any, b: Any) -> float:
    """Return the mean of the rows' losses."""
    r = rows.y - rows.X @ np.asarray(w) - b
    return float(np.mean(np.where(r > 0.0, quantile * r, (quantile - 1.0) * r)))
