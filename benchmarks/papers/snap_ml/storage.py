"""Beside the paper's figures: rows without values, shrinking, and what bounds the time of an
epoch.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.datasets.problems import load
from benchmarks.papers.snap_ml.measure import Record, fit, interleaved, warm_up
from benchmarks.papers.snap_ml.output import Figure, Panel


def pattern(rows: int | None, repeats: int, threads: int) -> Figure:
    """Compare one-hot rows with equal values: the pattern alone, and pattern with values."""
    X, y = load("criteo-like", rows=rows)
    other = X.copy()
    # one value differs in its last bit: values are stored
    other.data[0] = np.nextafter(other.data[0], np.float32(1))
    data = {"pattern only": X, "pattern and values": other}
    for matrix in data.values():
        warm_up(matrix, y)
    figure = Figure(
        "pattern",
        "Pattern-only storage of one-hot rows",
        f"criteo-like, {X.shape[0]:,} x {X.shape[1]:,}, 39 stored a row; logistic, C = 1, 10 "
        f"epochs, median of {repeats} interleaved runs. 'Bytes' are those of X that an epoch "
        "reads.",
        ("storage", "threads", "bytes of X", "seconds an epoch", "ratio"),
    )
    panel = Panel("epoch", "threads", "seconds")

    def run(setting: Any) -> Record:
        name, p = setting
        return fit(
            data[name], y, tol=0.0, max_iter=10, threads=p, partitions=p, aggregation="adaptive"
        )

    found = interleaved([(name, p) for p in sorted({1, threads}) for name in data], repeats, run)
    for (name, p), r in found.items():
        size = X.indices.nbytes + X.indptr.nbytes + (0 if name == "pattern only" else X.data.nbytes)
        ratio = r["epoch_seconds"] / found["pattern and values", p]["epoch_seconds"]
        figure.rows.append((name, p, size, r["epoch_seconds"], ratio))
        panel.add(name, p, r["epoch_seconds"])
    figure.panels.append(panel)
    return figure


def shrinking(rows: int | None, repeats: int, threads: int) -> Figure:
    """Shrinking (rows at a bound passed over) for the hinge and the squared hinge."""
    figure = Figure(
        "shrinking",
        "Shrinking",
        f"Hinge to a gap of 1e-4 and squared hinge to 1e-6, C = 1 / mean |x|^2, {threads} threads, "
        f"300 epochs at most, median of {repeats} interleaved runs.",
        ("data", "loss", "shrinking", "epochs", "gap", "seconds", "least", "most"),
    )
    panel = Panel("seconds", "set", "on / off")
    for k, (name, count) in enumerate(
        (("rcv1-like", 100_000), ("criteo-like", 200_000), ("higgs-like", 50_000))
    ):
        X, y = load(name, rows=rows or count)
        warm_up(X, y)

        def run(setting: Any, X: Any = X, y: Any = y) -> Record:
            loss, on = setting
            tol = 1e-4 if loss == "hinge" else 1e-6
            return fit(X, y, tol=tol, max_iter=300, loss=loss, shrinking=on, threads=threads)

        found = interleaved(
            [(a, b) for a in ("hinge", "squared_hinge") for b in (False, True)], repeats, run
        )
        for (loss, on), r in found.items():
            word = "on" if on else "off"
            figure.rows.append(
                (name, loss, word, r["epochs"], r["gap"], r["seconds"], r["least"], r["most"])
            )
        for loss in ("hinge", "squared_hinge"):
            panel.add(loss, k, found[loss, True]["seconds"] / found[loss, False]["seconds"])
    figure.panels.append(panel)
    return figure


def roofline(rows: int | None, repeats: int, threads: int) -> Figure:
    """Measure where the time of an epoch goes: bytes over bandwidth, and the cost of row steps."""
    speed = _bandwidth(threads)
    figure = Figure(
        "roofline",
        "Roofline of an epoch",
        f"Logistic and squared hinge, C = 1 / mean |x|^2, {threads} threads, median of {repeats} "
        f"runs of 10 epochs. Read bandwidth measured here: {speed / 1e9:.1f} GB/s. 'Bytes': X, "
        "alpha (read and written), norms, labels and margins met, once an epoch. 'Bound': bytes "
        "over bandwidth. 'Places': entries of the shared vector that are read and written, two "
        "visits for each stored value. What exceeds the bound is those visits, and of the "
        "logistic loss the exponentials: its difference to the squared hinge.",
        (
            "data",
            "loss",
            "bytes",
            "bound, s",
            "seconds an epoch",
            "epoch / bound",
            "ns a stored value",
            "ns a row",
        ),
    )
    panel = Panel("epoch over bound", "set", "ratio")
    for k, name in enumerate(("rcv1-like", "criteo-like", "epsilon-like", "higgs-like")):
        X, y = load(name, rows=rows)
        warm_up(X, y)
        sparse = not isinstance(X, np.ndarray)
        stored = int(X.nnz if sparse else X.size)
        equal = sparse and bool((X.data == X.data[0]).all())
        if sparse:
            size = X.indices.nbytes + X.indptr.nbytes + (0 if equal else X.data.nbytes)
        else:
            size = X.nbytes
        size += 8 * X.shape[0] * 5

        def run(loss: str, X: Any = X, y: Any = y) -> Record:
            return fit(
                X, y, tol=0.0, max_iter=10, loss=loss, threads=threads, aggregation="adaptive"
            )

        for loss, r in interleaved(("logistic", "squared_hinge"), repeats, run).items():
            seconds, bound = r["epoch_seconds"], size / speed
            per = seconds * threads * 1e9
            figure.rows.append(
                (name, loss, size, bound, seconds, seconds / bound, per / stored, per / X.shape[0])
            )
            panel.add(loss, k, seconds / bound)
    figure.panels.append(panel)
    return figure


def _bandwidth(threads: int) -> float:
    """Measure bytes a second that all threads read, summing a long array; the best of five."""
    from concurrent.futures import ThreadPoolExecutor

    parts = np.array_split(np.ones(200_000_000, np.float32), threads)
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            best = min(best, time.perf_counter() - start)
    return sum(part.nbytes for part in parts) / best
