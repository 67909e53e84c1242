"""Stage cluster: rows that Dask's workers move to their devices."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
from distributed import Client, LocalCluster

import daskglm
from benchmarks.gpu.lines import Lines
from benchmarks.gpu.rows import QUICK, SIZES, higgs

CHUNKS = 8
FITS = (
    ("logistic", "newton", 1e-6, None),
    ("logistic", "tron", 1e-6, None),
    # has not converged by then: what a round costs is looked at
    ("hinge", "sdca", 1e-2, 50),
)
LOOSE = (*FITS[:2], ("hinge", "sdca", 0.5, None))  # tiny sizes: epochs take the stand-in long


def cluster(lines: Lines, quick: bool) -> None:
    """Fit on dask-cuda's cluster, one worker for each GPU, and on two workers that share one."""
    X, y = higgs((QUICK if quick else SIZES)["higgs"] // 10)
    fits = LOOSE if quick else FITS
    best = {
        loss: daskglm.fit(
            X,
            y,
            loss=loss,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            device="cuda",
            random_state=0,
            progress=False,
        )
        for loss, solver, tol, max_iter in fits[1:]
    }
    if importlib.util.find_spec("dask_cuda") is None:
        lines.add("cluster", kind="LocalCUDACluster", not_run="dask-cuda is not installed")
    else:
        _on(lines, "LocalCUDACluster", _dask_cuda, X, y, fits, best)
    _on(lines, "2 workers on one GPU", _two_workers, X, y, fits, best)


def _dask_cuda() -> Any:
    from dask_cuda import LocalCUDACluster

    # spilling would copy rows that the fit goes on to use: docs/gpu.md
    return LocalCUDACluster(dashboard_address=None, device_memory_limit=0)


def _two_workers() -> Any:
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0)


def _on(
    lines: Lines,
    kind: str,
    make: Callable[[], Any],
    X: Any,
    y: Any,
    fits: Any,
    best: dict[str, Any],
) -> None:
    """Write a line for each fit, with its objective relative to that of this process."""
    rows = -(-len(y) // CHUNKS)
    parts = da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)
    try:
        with make() as made, Client(made) as client:
            for loss, solver, tol, max_iter in fits:
                began = time.perf_counter()
                report = daskglm.fit(
                    *parts,
                    loss=loss,
                    solver=solver,
                    tol=tol,
                    max_iter=max_iter,
                    device="cuda",
                    random_state=0,
                    progress=False,
                    client=client,
                ).report_
                lines.add(
                    "cluster",
                    kind=kind,
                    loss=loss,
                    solver=solver,
                    tol=tol,
                    device=report.device,
                    workers=report.workers,
                    wall_seconds=time.perf_counter() - began,
                    seconds=report.seconds,
                    rounds=report.rounds,
                    relative_gap=report.relative_gap,
                    ms_a_round=1e3 * report.seconds / max(report.rounds, 1),
                    objective_over_the_best=report.objective / best[loss].report_.objective - 1.0,
                )
    except Exception:
        lines.failed("cluster", kind=kind)
