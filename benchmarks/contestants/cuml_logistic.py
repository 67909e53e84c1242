"""cuML's LogisticRegression (quasi-Newton) on a GPU that holds the rows before the clock starts."""

from __future__ import annotations

from typing import Any

import cupy as cp
import cupyx.scipy.sparse as csp
import numpy as np
from cuml.linear_model import LogisticRegression

MAX_ITER = 10_000


def prepare(X: Any, y: np.ndarray, **_: Any) -> tuple[Any, Any]:
    """Copy rows, and labels of 0 and 1, to the device."""
    rows = cp.asarray(X) if isinstance(X, np.ndarray) else csp.csr_matrix(X)
    return rows, cp.asarray(y > 0, dtype=X.dtype)


def fit(
    X: Any, y: Any, *, loss: str, C: float, fit_intercept: bool, tol: float, threads: int
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit and wait for the device; its C is ours, as scikit-learn's."""
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=tol, max_iter=MAX_ITER).fit(
        X, y
    )
    coef = np.ravel(cp.asnumpy(model.coef_))
    return coef, float(np.ravel(cp.asnumpy(model.intercept_))[0]) if fit_intercept else 0.0, {}
