"""dask-glm's algorithms, and the same through dask-ml's estimator: on threads, or on a LocalCluster
with the data.

Their `lamduh` is 1 / C and the loss a sum: our objective, but only with normalize=False, which
otherwise standardises columns under the penalty. newton and gradient_descent know no penalty, and
proximal_grad takes steps that lower the loss alone; they are judged at our objective all the same.
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from benchmarks.contestants import NotApplicable
from benchmarks.contestants.local_cluster import client_of

MAX_ITER = 10_000
CHUNKS_PER_THREAD = 2
PENALISED = ("lbfgs", "proximal_grad", "admm")


def prepare(
    X: Any, y: np.ndarray, *, solver: str, fit_intercept: bool, threads: int, workers: int, **_: Any
) -> tuple[Any, np.ndarray]:
    """Make dask arrays in chunks of rows, on the workers if there are any.

    Sparse rows are those of the package sparse.
    """
    if fit_intercept:
        raise NotApplicable("their intercept is penalised: another problem; run without intercept")
    rows = -(-X.shape[0] // (CHUNKS_PER_THREAD * threads))
    labels = da.from_array(np.asarray(y > 0, dtype=X.dtype), chunks=rows)
    if sp.issparse(X):
        if solver == "newton":
            raise NotApplicable(
                "its Hessian of sparse rows is sparse, which its linear solver refuses"
            )
        import sparse

        parts = [
            sparse.GCXS.from_scipy_sparse(X[at : at + rows]).asformat("coo")
            for at in range(0, X.shape[0], rows)
        ]
        table = da.concatenate(
            [da.from_array(part, chunks=part.shape, asarray=False) for part in parts]
        )
    else:
        table = da.from_array(X, chunks=(rows, X.shape[1]))
    if workers:
        from distributed import wait

        client = client_of(workers, threads)
        table, labels = client.persist([table, labels])
        wait([table, labels])
        client.rebalance([table, labels])
    return table, labels


def fit(
    X: Any,
    y: Any,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    solver: str,
    estimator: bool,
    workers: int,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit; admm takes `tol` for both of its tolerances, the others as their own."""
    stop = {"abstol": tol, "reltol": tol} if solver == "admm" else {"tol": tol}
    with dask.config.set({} if workers else {"scheduler": "threads", "num_workers": threads}):
        if estimator:
            from dask_ml.linear_model import LogisticRegression

            options = {"normalize": False, **(stop if solver == "admm" else {})}
            model = LogisticRegression(
                C=C,
                tol=tol,
                solver=solver,
                fit_intercept=False,
                max_iter=MAX_ITER,
                solver_kwargs=options,
            )
            return np.ravel(model.fit(X, y).coef_), 0.0, {}
        from dask_glm import algorithms

        penalty = {"regularizer": "l2", "lamduh": 1.0 / C} if solver in PENALISED else {}
        coef = getattr(algorithms, solver)(
            X, y, normalize=False, max_iter=MAX_ITER, **penalty, **stop
        )
    return np.ravel(coef), 0.0, {}
