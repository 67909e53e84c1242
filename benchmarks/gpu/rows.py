"""Generated rows with the shapes of HIGGS, RCV1 and epsilon, float32, and codes of a table of text,
in host memory.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.datasets.problems import GRAIN, N_FEATURES, higgs_like_rows
from benchmarks.datasets.snap_ml import epsilon_like, rcv1_like
from benchmarks.tables import LEVELS
from daskglm.kernels.coded_rows import Coded, Tables

SIZES = {"higgs": 11_000_000, "rcv1": 20_242, "epsilon": 400_000}
DRAWN = 1 << 12  # levels that the codes of a factor are drawn from
QUICK = {"higgs": 400, "rcv1": 60, "epsilon": 20}


@functools.cache
def data(name: str, quick: bool) -> tuple[Any, np.ndarray]:
    """X and y of -1/+1; `quick`: a few rows of the same width."""
    rows = (QUICK if quick else SIZES)[name]
    if name == "higgs":
        return higgs(rows)
    return (rcv1_like if name == "rcv1" else epsilon_like)(rows, 0)


def higgs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """HIGGS's shape, made by a thread for each core."""
    X = np.empty((rows, N_FEATURES), np.float32)
    y = np.empty(rows)

    def make(start: int) -> None:
        stop = min(start + GRAIN, rows)
        X[start:stop], y[start:stop] = higgs_like_rows(start, stop)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(make, range(0, rows, GRAIN)))
    return X, y


def factors(rows: int) -> tuple[Coded, np.ndarray]:
    """Codes of the factors of `benchmarks.tables`, with levels as common as there."""
    rng = np.random.default_rng(0)
    codes = np.empty((rows, len(LEVELS)), np.uint8)
    for j, count in enumerate(LEVELS):
        drawn = rng.choice(count, DRAWN, p=rng.dirichlet(np.full(count, 2.0))).astype(np.uint8)
        codes[:, j] = drawn[rng.integers(0, DRAWN, rows)]
    first, each = np.append(0, np.cumsum(LEVELS)[:-1]), np.arange(sum(LEVELS) + 1)
    ranks, width = np.arange(len(LEVELS)), sum(LEVELS)
    tables = Tables(first, each, each[:-1], np.ones(width), ranks, width)
    none = (np.empty((rows, 0), kind) for kind in (np.uint16, np.uint32, np.float64))
    return Coded(codes, *none, tables), np.where(rng.random(rows) < 0.5, 1.0, -1.0)
