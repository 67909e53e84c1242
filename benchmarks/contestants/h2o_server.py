"""H2O's GLM on a server of its own, which holds the frame before the clock starts; dense rows only.

Its objective is the mean loss plus lambda / 2 |w|^2, so lambda is 1 / (n C).
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import h2o
import numpy as np
import pandas as pd
from h2o.estimators import H2OGeneralizedLinearEstimator

from benchmarks.contestants import NotApplicable

if shutil.which("java") is None:
    raise ImportError("H2O is a Java server, and there is no java on the path")

HEAP = "8g"
MAX_ITER = 10_000


@cache
def _server(threads: int) -> None:
    """Start one server for the life of this process, reached from this machine only."""
    h2o.init(
        ip="127.0.0.1", bind_to_localhost=True, nthreads=threads, max_mem_size=HEAP, verbose=False
    )
    h2o.no_progress()
    atexit.register(lambda: h2o.cluster().shutdown())


def prepare(X: Any, y: np.ndarray, *, threads: int, **_: Any) -> tuple[Any, str]:
    """Make a frame on the server with the label as a category, by way of a Parquet file."""
    if not isinstance(X, np.ndarray):
        raise NotApplicable(
            "H2O keeps a frame by columns, so tens of thousands of sparse ones are not asked of it"
        )
    _server(threads)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["label"] = np.where(y > 0, "yes", "no")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        frame.to_parquet(path)
        held = h2o.import_file(str(path))
    held["label"] = held["label"].asfactor()
    return held, "label"


def fit(
    X: Any,
    y: str,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    solver: str,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit with `tol` for all three of its tolerances: of objective, coefficients and gradient."""
    names = [name for name in X.columns if name != y]
    model = H2OGeneralizedLinearEstimator(
        family="binomial",
        solver=solver,
        alpha=[0.0],
        lambda_=[1.0 / (X.nrow * C)],
        standardize=False,
        intercept=fit_intercept,
        ignore_const_cols=False,
        max_iterations=MAX_ITER,
        objective_epsilon=tol,
        beta_epsilon=tol,
        gradient_epsilon=tol,
    )
    model.train(x=names, y=y, training_frame=X)
    found = model.coef()
    return np.array([found[name] for name in names]), float(found.get("Intercept", 0.0)), {}
