"""The figures of the Snap ML paper (Parallel training of linear models without compromising
convergence), one by one.

Each function measures and gives a `Figure`. Epochs do not depend on the machine: they are counted
for as many simulated partitions as wanted. Seconds are measured with the threads that there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.datasets.problems import load
from benchmarks.papers.snap_ml.measure import Record, fit, interleaved, warm_up
from benchmarks.papers.snap_ml.output import Figure, Panel

PAPER_SETS = ("criteo-like", "higgs-like", "epsilon-like")
ROWS = {"criteo-like": 500_000, "higgs-like": 500_000, "epsilon-like": 50_000}
PARTITIONS = (1, 2, 4, 8, 16, 32, 64)
# the paper's rule: relative change of the model between epochs; its threshold is not given
CHANGE = 1e-3
GAP = 1e-4
PENALTY = "C = 1 / mean |x|^2"


def _data(name: str, rows: int | None) -> tuple[Any, np.ndarray]:
    X, y = load(name, rows=rows or ROWS.get(name))
    warm_up(X, y)
    return X, y


def _state(record: Record) -> str:
    """Return whether a run stopped at the right place."""
    if not record["converged"]:
        return "not converged"
    return "yes" if record["gap"] <= 1e-2 else f"WRONG (gap {record['gap']:.1e})"


def wild(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 1: the wild solver on dense and sparse rows, more and more threads."""
    figure = Figure(
        "fig1-wild",
        "Figure 1: wild asynchronous SDCA",
        f"Logistic regression, {PENALTY}; stop where the model changes by less than {CHANGE:g}, 60 "
        f"epochs at most. Beyond {threads} threads the cores are shared, so collisions are rarer "
        "than on as many cores. The gap is computed from the dual variables after the fit.",
        ("data", "threads", "seconds", "least", "most", "epochs", "gap at the end", "right"),
    )
    for name in ("dense-100", "sparse-1000"):
        X, y = _data(name, rows)
        options = {"partitioning": "wild", "stop": "model-change"}

        def run(p: int, X: Any = X, y: Any = y, options: Any = options) -> Record:
            return fit(X, y, tol=CHANGE, max_iter=60, threads=p, partitions=p, **options)

        found = interleaved((1, 2, 4, 8, 16), repeats, run)
        panel = Panel(name, "threads", "seconds", log="x")
        for p, r in found.items():
            figure.rows.append(
                (name, p, r["seconds"], r["least"], r["most"], r["epochs"], r["gap"], _state(r))
            )
            panel.add("wild", p, r["seconds"])
        figure.panels.append(panel)
    return figure


def partitions(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 2b: the number of partitions against epochs to convergence."""
    figure = Figure(
        "fig2b-partitions",
        "Figure 2b: partitions against epochs",
        f"Epochs to a relative gap of {GAP:g} (200 at most), logistic, {PENALTY}. Partitions are "
        "simulated on the threads there are; their number alone decides the epochs. Static: rows "
        "dealt once; dynamic: anew every epoch; safe: sigma' = number of partitions (CoCoA+); "
        "adaptive: sigma' as measured; auto: adaptive, then the best combination of each change "
        "with the previous step.",
        ("data", "dealing", "aggregation", "partitions", "epochs", "gap"),
    )
    for name in ("dense-100", "sparse-1000"):
        X, y = _data(name, rows or 30_000)
        panel = Panel(name, "partitions", "epochs", log="xy")
        for dealing, how in (
            ("static", "safe"),
            ("static", "auto"),
            ("dynamic", "safe"),
            ("dynamic", "adaptive"),
            ("dynamic", "auto"),
        ):
            for p in PARTITIONS:
                r = fit(
                    X, y, tol=GAP, max_iter=200, partitions=p, partitioning=dealing, aggregation=how
                )
                figure.rows.append(
                    (name, dealing, how, p, r["epochs"] if r["converged"] else ">200", r["gap"])
                )
                panel.add(f"{dealing}, {how}", p, r["epochs"])
        figure.panels.append(panel)
    return figure


def time_to_converge(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 3: time to convergence against threads, wild and domesticated."""
    figure = Figure(
        "fig3-threads",
        "Figure 3: time to convergence against threads",
        f"Logistic, {PENALTY}; stop where the model changes by less than {CHANGE:g} (the paper's "
        f"rule). Median of {repeats} interleaved runs. Only 1 to {threads} threads could be timed "
        "on this machine.",
        (
            "data",
            "solver",
            "threads",
            "seconds",
            "least",
            "most",
            "epochs",
            "gap at the end",
            "right",
        ),
    )
    for name in PAPER_SETS:
        X, y = _data(name, rows)
        settings = [(how, p) for how in ("wild", "dynamic") for p in range(1, threads + 1)]

        def run(setting: Any, X: Any = X, y: Any = y) -> Record:
            how, p = setting
            return fit(
                X, y, tol=CHANGE, stop="model-change", threads=p, partitions=p, partitioning=how
            )

        panel = Panel(name, "threads", "seconds to converge")
        for (how, p), r in interleaved(settings, repeats, run).items():
            figure.rows.append(
                (
                    name,
                    how,
                    p,
                    r["seconds"],
                    r["least"],
                    r["most"],
                    r["epochs"],
                    r["gap"],
                    _state(r),
                )
            )
            panel.add(how, p, r["seconds"])
        figure.panels.append(panel)
    return figure


def scaling(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 4: strong scaling of the time of an epoch."""
    figure = Figure(
        "fig4-scaling",
        "Figure 4: strong scaling per epoch",
        "Median seconds of an epoch of the domesticated solver (dynamic, adaptive), logistic, "
        f"{PENALTY}; {repeats} interleaved runs of 12 epochs. Only 1 to {threads} threads could be "
        "timed.",
        ("data", "threads", "seconds an epoch", "speed-up"),
    )
    panel = Panel("speed-up of an epoch", "threads", "x one thread")
    for name in PAPER_SETS:
        X, y = _data(name, rows)

        def run(p: int, X: Any = X, y: Any = y) -> Record:
            return fit(X, y, tol=0.0, max_iter=12, threads=p, partitions=p, aggregation="adaptive")

        found = interleaved(range(1, threads + 1), repeats, run)
        for p, r in found.items():
            gain = found[1]["epoch_seconds"] / r["epoch_seconds"]
            figure.rows.append((name, p, r["epoch_seconds"], gain))
            panel.add(name, p, gain)
    panel.lines["linear"] = [(1.0, 1.0), (float(threads), float(threads))]
    figure.panels.append(panel)
    return figure


def dealing(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 5a: static against dynamic partitioning, time and epochs."""
    figure = Figure(
        "fig5a-dealing",
        "Figure 5a: static and dynamic partitioning",
        f"To a relative gap of {GAP:g}, logistic, {PENALTY}, 200 epochs at most. Seconds (median "
        f"of {repeats} interleaved runs) mean something up to {threads} partitions, the threads of "
        "this machine; epochs for all.",
        ("data", "partitions", "dealing", "epochs", "seconds", "least", "most"),
    )
    for name in PAPER_SETS:
        X, y = _data(name, rows or ROWS[name] // 4)
        settings = [(p, how) for p in (1, threads, 8, 32) for how in ("static", "dynamic")]

        def run(setting: Any, X: Any = X, y: Any = y) -> Record:
            return fit(
                X,
                y,
                tol=GAP,
                max_iter=200,
                partitions=setting[0],
                partitioning=setting[1],
                aggregation="safe",
            )

        panel = Panel(name, "partitions", "epochs", log="xy")
        for (p, how), r in interleaved(
            settings, 1 if name == "higgs-like" else repeats, run
        ).items():
            shown = r["epochs"] if r["converged"] else ">200"
            figure.rows.append((name, p, how, shown, r["seconds"], r["least"], r["most"]))
            panel.add(how, p, r["epochs"])
        figure.panels.append(panel)
    return figure


def buckets(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 5b: buckets of rows, time of an epoch and epochs."""
    figure = Figure(
        "fig5b-buckets",
        "Figure 5b: buckets",
        f"To a relative gap of {GAP:g}, logistic, {PENALTY}, {threads} threads, median of "
        f"{repeats} interleaved runs. A bucket of 8 rows holds the dual variables of one cache "
        "line of 64 bytes.",
        ("data", "bucket", "epochs", "seconds an epoch", "seconds", "least", "most"),
    )
    for name in (*PAPER_SETS, "rcv1-like"):
        X, y = _data(name, rows)

        def run(size: int, X: Any = X, y: Any = y) -> Record:
            return fit(X, y, tol=GAP, max_iter=40, bucket_size=size, threads=threads)

        panel = Panel(name, "rows of a bucket", "seconds", log="x")
        for size, r in interleaved((1, 2, 8, 32), repeats, run).items():
            figure.rows.append(
                (name, size, r["epochs"], r["epoch_seconds"], r["seconds"], r["least"], r["most"])
            )
            panel.add("to converge", size, r["seconds"])
            panel.add("of an epoch", size, r["epoch_seconds"])
        figure.panels.append(panel)
    return figure


def nodes(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 5c: rows split over NUMA nodes."""
    figure = Figure(
        "fig5c-nodes",
        "Figure 5c: NUMA nodes",
        f"To a relative gap of {GAP:g}, logistic, {PENALTY}. 16 partitions in all, dynamic within "
        "a node, rows static between nodes; 'none' deals all rows to all partitions. Nodes are "
        "simulated: this machine has one, so the time that local memory saves was NOT measured; "
        "what the hierarchy costs in epochs was.",
        ("data", "nodes", "epochs", "gap"),
    )
    panel = Panel("epochs to converge", "nodes", "epochs", log="x")
    for name in PAPER_SETS:
        X, y = _data(name, rows or ROWS[name] // 4)
        for count in (1, 2, 4, 8):
            r = fit(
                X, y, tol=GAP, max_iter=200, partitions=16, nodes=count, threads=max(threads, count)
            )
            figure.rows.append(
                (
                    name,
                    count if count > 1 else "none",
                    r["epochs"] if r["converged"] else ">200",
                    r["gap"],
                )
            )
            panel.add(name, count, r["epochs"])
    figure.panels.append(panel)
    return figure
