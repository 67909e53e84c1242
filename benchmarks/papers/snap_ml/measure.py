"""One fit by dual coordinate ascent, and what a figure wants to know of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import numpy as np

import daskglm

Record = dict[str, Any]


def penalty(X: Any) -> float:
    """Return C = 1 / mean |x|^2, by which rows weigh as much beside the penalty in every set.

    Rows of norm one have C = 1.
    """
    if hasattr(X, "multiply"):
        squares = X.multiply(X).sum()
    else:
        squares = np.einsum("ij,ij->", X, X, dtype=np.float64)
    return float(X.shape[0] / squares)


def fit(
    X: Any,
    y: np.ndarray,
    *,
    tol: float,
    max_iter: int = 100,
    seed: int = 0,
    loss: str = "logistic",
    **options: Any,
) -> Record:
    """Fit without intercept and Newton's help; `options` are those of the solver.

    Seconds are of the whole call, checks included; `epoch_seconds` is the median from one epoch to
    the next. The gap is the true one, read from the rows after the fit, also where the stop rule
    was another.
    """
    C = penalty(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = daskglm.fit(
            X,
            y,
            loss=loss,
            C=C,
            solver="sdca",
            fit_intercept=False,
            tol=tol,
            max_iter=max_iter,
            random_state=seed,
            progress=False,
            solver_options={"polish": False, **options},
        )
        seconds = time.perf_counter() - start
    report = model.report_
    times = [record["seconds"] for record in report.history]
    return {
        "seconds": seconds,
        "epochs": report.n_iter,
        "epoch_seconds": median(np.diff(times)) if len(times) > 1 else 0.0,
        "gap": report.relative_gap,
        "converged": report.converged,
        "objective": report.objective,
        "coef": np.ravel(model.coef_),
    }


def warm_up(X: Any, y: np.ndarray) -> None:
    """Compile or load the kernels for this storage before a clock starts."""
    few = slice(0, 2000)
    for options in ({}, {"partitioning": "wild"}, {"partitions": 2, "aggregation": "search"}):
        fit(X[few], y[few], tol=1e-3, max_iter=5, **options)


def interleaved(
    settings: Iterable[Any], repeats: int, run: Callable[[Any], Record]
) -> dict[Any, Record]:
    """Run all settings in turn, `repeats` times, and give each its record with median times."""
    settings = list(settings)
    runs: dict[Any, list[Record]] = {setting: [] for setting in settings}
    for _ in range(repeats):
        for setting in settings:
            runs[setting].append(run(setting))
    return {setting: merged(records) for setting, records in runs.items()}


def merged(records: list[Record]) -> Record:
    """Return the last record with medians of the times, and the least and greatest seconds."""
    found = dict(records[-1])
    for name in ("seconds", "epoch_seconds"):
        found[name] = median(record[name] for record in records)
    found["least"], found["most"] = (
        pick(record["seconds"] for record in records) for pick in (min, max)
    )
    return found
