"""scikit-learn's LogisticRegression, LinearSVC and Ridge, by the names of their solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks.contestants import NotApplicable

MAX_ITER = 100_000  # the runner's time limit stops what does not converge


def prepare(
    X: Any, y: np.ndarray, *, solver: str, dtype: str | None = None, **_: Any
) -> tuple[Any, np.ndarray]:
    """Cast where asked."""
    return (X if dtype is None else X.astype(dtype, copy=False)), y


def fit(
    X: Any,
    y: np.ndarray,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    solver: str,
    dtype: str | None = None,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit the estimator of this loss; Ridge's alpha is 1 / C for our objective."""
    if fit_intercept and solver in ("liblinear", "dual", "primal"):
        raise NotApplicable("penalises the intercept: another problem; run it without intercept")
    if loss == "logistic":
        model = LogisticRegression(
            C=C,
            solver=solver,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=MAX_ITER,
            random_state=0,
        )
    elif loss == "squared_hinge":
        model = LinearSVC(
            C=C,
            dual=solver == "dual",
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=MAX_ITER,
            random_state=0,
        )
    else:
        if solver == "cholesky" and fit_intercept and sp.issparse(X):
            raise NotApplicable("Ridge's cholesky does not take an intercept with sparse rows")
        model = Ridge(
            alpha=1.0 / C,
            solver=solver,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=MAX_ITER,
            random_state=0,
        )
    model.fit(X, y)
    iterations = getattr(model, "n_iter_", None)
    info = {} if iterations is None else {"iterations": int(np.max(iterations))}
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]), info
