"""glum: GeneralizedLinearRegressor of the binomial family, on tabmat's matrices.

Its objective is half the mean deviance plus alpha / 2 |w|^2; half a binomial deviance is our
logistic loss, so alpha is 1 / (n C).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import tabmat
from glum import GeneralizedLinearRegressor

MAX_ITER = 10_000


def prepare(X: Any, y: np.ndarray, **_: Any) -> tuple[Any, np.ndarray]:
    """Make tabmat's matrix, dense ones by columns, and labels of 0 and 1 in X's dtype."""
    if sp.issparse(X):
        rows = tabmat.SparseMatrix(sp.csc_matrix(X))
    else:
        rows = tabmat.DenseMatrix(np.asfortranarray(X))
    return rows, (y > 0).astype(X.dtype)


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
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit; `tol` bounds the entries of the mean objective's gradient."""
    model = GeneralizedLinearRegressor(
        family="binomial",
        alpha=1.0 / (X.shape[0] * C),
        l1_ratio=0,
        fit_intercept=fit_intercept,
        solver=solver,
        gradient_tol=tol,
        max_iter=MAX_ITER,
    )
    model.fit(X, y)
    return np.ravel(model.coef_), float(model.intercept_), {"iterations": int(model.n_iter_)}
