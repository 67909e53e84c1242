"""daskglm's solvers: in this process on threads, or on a LocalCluster that holds the data before
the clock starts.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import daskglm
from benchmarks.contestants.local_cluster import client_of
from daskglm.losses.table import LOSSES

BLOCKS_PER_WORKER = 4
MAY_TAKE, WITH_CORNERS = ("auto", "tron", "lbfgs", "sdca"), ("auto", "sdca")


def prepare(X: Any, y: np.ndarray, *, threads: int, workers: int, **_: Any) -> tuple[Any, Any]:
    """Return data as they are; on a cluster, delayed blocks that the workers hold.

    The blocks are runs of rows, in order of address.
    """
    if not workers:
        return X, y
    import dask

    client = client_of(workers, threads)
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    cuts = np.linspace(0, X.shape[0], workers * BLOCKS_PER_WORKER + 1).astype(int)
    parts: tuple[list[Any], list[Any]] = ([], [])
    for i, (lo, hi) in enumerate(pairwise(cuts)):
        for values, blocks in zip((X, y), parts, strict=True):
            held = client.scatter(
                values[lo:hi], workers=[addresses[i // BLOCKS_PER_WORKER]], hash=False
            )
            blocks.append(dask.delayed(held))
    return parts


def warm_up(X: Any, y: Any, *, solver: str, loss: str, **task: Any) -> None:
    """Fit few rows, by each solver that `auto` may take for all of them."""
    names = MAY_TAKE if LOSSES[loss].differentiable else WITH_CORNERS
    for name in names if solver == "auto" else (solver,):
        fit(X, y, solver=name, loss=loss, **task)


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
    workers: int,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit; what the report counts goes along."""
    client = client_of(workers, threads) if workers else None
    model = daskglm.fit(
        X, y, loss=loss, C=C, solver=solver, fit_intercept=fit_intercept, tol=tol, client=client
    )
    report = model.report_
    names = ("passes", "rounds", "relative_gap", "solver")
    info = {name: getattr(report, name) for name in names} | {"iterations": report.n_iter}
    info |= {"solve_seconds": report.seconds, "bytes": getattr(report, "bytes_reduced", None)}
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]), info
