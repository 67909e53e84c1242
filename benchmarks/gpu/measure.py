"""Clocks, rows on the device, and the judge, who works in float64 on the host and knows nothing of the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
import scipy.sparse as sp

import daskglm
from benchmarks.evaluate import objective
from daskglm.kernels import gpu

BLOCK_ROWS = 1 << 17


class Timed(NamedTuple):
    """Median seconds of some repeats, and all of them."""

    seconds: float
    all: list[float]


def by_events(work: Callable[[], Any], quick: bool) -> Timed:
    """Seconds of enqueued work between two device events, 20 times after three to warm up; `quick`: once after one."""
    repeats, warm = (1, 1) if quick else (20, 3)
    for _ in range(warm):
        work()
    found = []
    for _ in range(repeats):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(cp.cuda.get_elapsed_time(begin, end) / 1e3)
    return Timed(statistics.median(found), found)


def on_device(X: Any) -> Any:
    """X as a user of CuPy holds it."""
    if not sp.issparse(X):
        return cp.asarray(X)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(X)


def rows_of(X: Any) -> tuple[Any, Any]:
    """Kernels, and X on the device in the form they take (sparse rows with their columns beside them)."""
    home = gpu()
    kernels, rows = home.for_rows(on_device(X))
    home.add_twin(rows, 1 << 60)
    return kernels, rows


def fitted(X: Any, y: np.ndarray, repeats: int, **options: Any) -> tuple[Any, Timed]:
    """The last of some fits after one to warm up, and the seconds of their solves, the device idle at both ends."""
    models = [daskglm.fit(X, y, progress=False, **options) for _ in range(repeats + 1)]
    seconds = [model.report_.seconds for model in models[1:]]
    return models[-1], Timed(statistics.median(seconds), seconds)


def judged(X: Any, y: np.ndarray, coef: np.ndarray, C: float = 1.0) -> tuple[float, float]:
    """Objective without intercept of a logistic regression, and a bound on its relative distance from the optimum.

    By strong convexity f - f* <= |g|^2 / 2; both in float64 on the host.
    """
    w = np.asarray(coef, dtype=np.float64).ravel()
    gradient = w.copy()
    for lo in range(0, len(y), BLOCK_ROWS):
        part, labels = X[lo : lo + BLOCK_ROWS], y[lo : lo + BLOCK_ROWS]
        slope = -labels / (1.0 + np.exp(labels * (part @ w)))
        gradient += C * np.asarray(part.T @ slope).ravel()
    value = objective(X, y, w, 0.0, loss="logistic", C=C)
    bound = 0.5 * float(gradient @ gradient)
    return value, bound / max(value - bound, 1e-300)


def wall(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of some work and its seconds, the device idle at both ends."""
    cp.cuda.Device().synchronize()
    start = time.perf_counter()
    result = work()
    cp.cuda.Device().synchronize()
    return result, time.perf_counter() - start
