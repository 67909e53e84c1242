"""Snap ML (PyPI: snapml), IBM's own build of the paper's solver, used as a black box.

Its tol is the largest change of a coefficient at which it stops, so suboptimality is judged as for
all others. A bias would be penalised: it appends a constant feature.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

with warnings.catch_warnings():
    # it looks for AVX2 under a name that NumPy has deprecated: an error there would leave it
    # without
    warnings.simplefilter("ignore", DeprecationWarning)
    import snapml

from benchmarks.contestants import NotApplicable

MAX_ITER = 1000


def prepare(X: Any, y: np.ndarray, *, fit_intercept: bool, **_: Any) -> tuple[Any, np.ndarray]:
    """Convert rows to float32, all that it takes; labels stay as they are."""
    if fit_intercept:
        raise NotApplicable("penalises the bias: another problem; run without intercept")
    return (X if X.dtype == np.float32 else X.astype(np.float32)), y


def fit(
    X: Any,
    y: np.ndarray,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    dual: bool = True,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit by dual (or primal) coordinate descent."""
    common = {
        "max_iter": MAX_ITER,
        "regularizer": 1.0 / C,
        "fit_intercept": False,
        "tol": tol,
        "n_jobs": threads,
    }
    if loss == "logistic":
        model = snapml.LogisticRegression(dual=dual, **common)
    elif loss == "hinge":
        model = snapml.SupportVectorMachine(loss="hinge", **common)
    else:
        # its squared hinge is 1/2 max(0, 1 - yz)^2: twice the weight of the loss is half the
        # regularisation
        model = snapml.SupportVectorMachine(
            loss="squared_hinge", **(common | {"regularizer": 0.5 / C})
        )
    model.fit(X, y)
    return np.ravel(model.coef_).astype(np.float64), 0.0, {"solver": "dual" if dual else "primal"}
