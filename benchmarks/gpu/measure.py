"""Clocks, rows on the device, and the judge, who works in float64 on the host and knows nothing of
the device.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
import scipy.sparse as sp

import daskglm
from benchmarks.suites.evaluate import objective
from daskglm.core.device import gpu
from daskglm.kernels.coded_rows import Coded
from daskglm.kernels.storages import arrays_of

BLOCK_ROWS = 1 << 17
CALLS = 10  # in a graph


class Timed(NamedTuple):
    """Median seconds of some repeats, all of them, and how they were measured."""

    seconds: float
    all: list[float]
    way: str


def on_device_clock(work: Callable[[], Any], quick: bool) -> Timed:
    """Seconds that one call takes on the device, by device events; `quick`: once.

    CALLS calls (`quick`: one) are captured in one CUDA graph, so that the device does not wait for
    Python between them; what they read and write stays in the caches as far as it fits. What cannot
    be captured (it allocates, or waits) is enqueued call by call between two events, and then the
    host's time to enqueue it may be the longer one: `way` is "graph" or "calls".
    """
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(1 if quick else 3):  # compiles, and makes workspaces, which a capture cannot
            work()
        stream.synchronize()
        many = 1 if quick else CALLS
        graph = _captured(work, many, stream)
        calls, run = (1, work) if graph is None else (many, functools.partial(graph.launch, stream))
        found = [_between_events(run, stream) / calls for _ in range(1 if quick else 20)]
    cp.cuda.Device().synchronize()
    return Timed(statistics.median(found), found, "calls" if graph is None else "graph")


def _captured(work: Callable[[], Any], many: int, stream: Any) -> Any:
    """Capture so many calls as a graph; None if that is impossible."""
    stream.begin_capture()
    possible = True
    try:
        for _ in range(many):
            work()
    except Exception:
        possible = False
    try:
        graph = stream.end_capture()
    except Exception:  # of a capture that an operation has made invalid
        possible = False
    return graph if possible else None


def _between_events(work: Callable[[], Any], stream: Any) -> float:
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record(stream)
    work()
    end.record(stream)
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(begin, end)) / 1e3


def enqueueing(work: Callable[[], Any], repeats: int = 20) -> float:
    """Seconds that the host takes to enqueue one call, which does not wait for the device."""
    work()
    cp.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    seconds = (time.perf_counter() - start) / repeats
    cp.cuda.Device().synchronize()
    return seconds


def on_device(X: Any) -> Any:
    """X as a user of CuPy holds it; of codes, which none does, as fits move them there."""
    if isinstance(X, Coded):
        upload = gpu().Upload()
        rows = gpu().move(arrays_of(X), X.shape, 1.0, 0, upload)
        upload.finish()
        return rows
    if not sp.issparse(X):
        return cp.asarray(X)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(X)


def rows_of(X: Any) -> tuple[Any, Any]:
    """Return kernels, and X on the device as they take it (sparse rows with their CSC copy)."""
    backend = gpu()
    kernels, rows = backend.for_rows(on_device(X))
    backend.add_csc_copy(rows, 1 << 60)
    return kernels, rows


def fitted(X: Any, y: np.ndarray, repeats: int, **options: Any) -> tuple[Any, Timed]:
    """Return the last of some fits, after one to warm up, and the seconds of their solves.

    The device is idle at both ends.
    """
    models = [daskglm.fit(X, y, progress=False, **options) for _ in range(repeats + 1)]
    seconds = [model.report_.seconds for model in models[1:]]
    return models[-1], Timed(statistics.median(seconds), seconds, "wall clock")


def judged(X: Any, y: np.ndarray, coef: np.ndarray, C: float = 1.0) -> tuple[float, float]:
    """Return objective and bound on its relative distance from the optimum, without intercept.

    It is for logistic regressions. By strong convexity f - f* <= |g|^2 / 2; both in float64 on the
    host.
    """
    w = np.asarray(coef, dtype=np.float64).ravel()
    gradient = w.copy()
    for lo in range(0, len(y), BLOCK_ROWS):
        part = X[lo : lo + BLOCK_ROWS]
        labels = y[lo : lo + BLOCK_ROWS]
        slope = -labels / (1.0 + np.exp(labels * (part @ w)))
        gradient += C * np.asarray(part.T @ slope).ravel()
    value = objective(X, y, w, 0.0, loss="logistic", C=C)
    bound = 0.5 * float(gradient @ gradient)
    return value, bound / max(value - bound, 1e-300)


def wall(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of some work and its seconds, the device idle at both ends."""
    cp.cuda.Device().synchronize()
    start = time.perf_counter()
    result = work()
    cp.cuda.Device().synchronize()
    return result, time.perf_counter() - start
