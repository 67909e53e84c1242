"""skglm's L-BFGS, called as a solver: its estimator takes coordinate descent only.

Its data fit is the mean loss and its penalty alpha / 2 |w|^2, so alpha is 1 / (n C).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from skglm.datafits import Logistic
from skglm.penalties import L2
from skglm.solvers import LBFGS

from benchmarks.contestants import NotApplicable

MAX_ITER = 100_000


def prepare(X: Any, y: np.ndarray, *, fit_intercept: bool, **_: Any) -> tuple[Any, np.ndarray]:
    """Lay X out by columns, as its kernels read them, in float64.

    skglm 0.5 fails to compile a logistic fit of float32.
    """
    if fit_intercept:
        raise NotApplicable("the solver has no intercept")
    rows = sp.csc_matrix(X) if sp.issparse(X) else np.asfortranarray(X)
    return rows.astype(np.float64, copy=False), y


def fit(
    X: Any, y: np.ndarray, *, loss: str, C: float, fit_intercept: bool, tol: float, threads: int
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Solve; `tol` bounds the entries of the mean objective's gradient."""
    solver = LBFGS(max_iter=MAX_ITER, tol=tol)
    coef, objectives, _ = solver.solve(X, y, Logistic(), L2(1.0 / (X.shape[0] * C)))
    return np.ravel(coef), 0.0, {"iterations": len(objectives)}
