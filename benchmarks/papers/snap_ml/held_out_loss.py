"""Figure 6 of the paper: test loss against training time, for scikit-learn's solvers, Snap ML, H2O
and daskglm.
"""

from __future__ import annotations

import tempfile
from statistics import median
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.datasets.problems import load
from benchmarks.papers.snap_ml.figures import PAPER_SETS
from benchmarks.papers.snap_ml.measure import penalty
from benchmarks.papers.snap_ml.output import Figure, Panel
from benchmarks.suites.definitions import Problem
from benchmarks.suites.runner import Conditions, child

ROWS = {"criteo-like": 100_000, "higgs-like": 200_000, "epsilon-like": 10_000}
HELD_OUT = 0.2
FEW_ROWS = 10_000  # below: a try, at the loosest and the tightest tolerance only
BUDGET = 8.0  # seconds of one fit, after which a contestant is asked for no tighter tolerance
TIMEOUT = 120.0
SHOWN = (
    "sklearn-liblinear",
    "sklearn-lbfgs",
    "sklearn-sag",
    "sklearn-saga",
    "h2o-irlsm",
    "h2o-lbfgs",
)
BY_THREADS = ("snapml-dual", "daskglm-sdca")
Setting = tuple[str, int]


def test_loss(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 6: mean logistic loss on a fifth of the rows held out, against seconds of training."""
    settings = [(name, threads) for name in SHOWN]
    settings += [(name, count) for name in BY_THREADS for count in sorted({1, threads})]
    figure = Figure(
        "fig6-test-loss",
        "Figure 6: test loss against time",
        "Logistic regression, C = 1 / mean |x|^2, no intercept; every fit is a fresh process at "
        "one of the contestant's own tolerances, from loose to tight, all contestants in turn, "
        f"median of {repeats}; fit only. No tighter tolerance after a fit of {BUDGET:g} s. H2O "
        "takes dense rows only here.",
        (
            "data",
            "contestant",
            "threads",
            "tol",
            "seconds",
            "test loss",
            "relative suboptimality, training",
        ),
    )
    not_run = {}
    for name in PAPER_SETS:
        count = rows or ROWS[name]
        X, _ = load(name, rows=count)
        cut = int(count * (1 - HELD_OUT))
        problem = Problem(name, count, 0, None, "logistic", penalty(X[:cut]), False)
        runs, reasons = _race(problem, settings, repeats)
        not_run |= {f"{who} on {name}": reason for who, reason in reasons.items()}
        best = min((run["objective"] for run in runs), default=0.0)
        panel = Panel(name, "seconds", "test loss", log="x")
        for run in runs:
            who = f"{run['contestant']}, {run['threads']} threads"
            above = (run["objective"] - best) / best
            loss = round(run["test_loss"], 6)
            figure.rows.append(
                (name, run["contestant"], run["threads"], run["tol"], run["seconds"], loss, above)
            )
            panel.add(who, run["seconds"], loss)
        figure.panels.append(panel)
    if not_run:
        figure.text += (
            " Not run: " + "; ".join(f"{who} ({reason})" for who, reason in not_run.items()) + "."
        )
    return figure


def _race(
    problem: Problem, settings: list[Setting], repeats: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a record of medians for each setting and tolerance, and reasons for no run."""
    found, reasons, stopped = [], {}, set()
    ladders = {name: CONTESTANTS[name].tols for name, _ in settings}
    if problem.rows and problem.rows < FEW_ROWS:
        ladders = {name: (tols[0], tols[-1]) for name, tols in ladders.items()}
    with tempfile.TemporaryDirectory(prefix="daskglm-benchmarks-") as cache:
        for level in range(max(map(len, ladders.values()))):
            racing = [
                who for who in settings if who not in stopped and level < len(ladders[who[0]])
            ]
            runs: dict[Setting, list[dict[str, Any]]] = {who: [] for who in racing}
            for _ in range(repeats):
                for name, count in racing:
                    request = {
                        "what": "run",
                        "problem": problem.fields(),
                        "contestant": name,
                        "held_out": HELD_OUT,
                    }
                    request["tol"] = ladders[name][level]
                    runs[name, count].append(child(request, Conditions(count, TIMEOUT, cache)))
            for who, some in runs.items():
                failed = next((run for run in some if run["status"] != "ok"), None)
                if failed:
                    reasons[who[0]] = f"{failed['status']}: {failed['reason']}"
                    stopped.add(who)
                    continue
                found.append(some[-1] | {"seconds": median(run["seconds"] for run in some)})
                if found[-1]["seconds"] > BUDGET:
                    stopped.add(who)
    return found, reasons
