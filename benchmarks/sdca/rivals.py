"""Figure 6 of the paper: test loss against training time, for scikit-learn's solvers, Snap ML and daskglm."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import load
from benchmarks.sdca.figures import PAPER_SETS
from benchmarks.sdca.measure import fit, penalty, warm_up
from benchmarks.sdca.output import Figure, Panel

ROWS = {"criteo-like": 100_000, "higgs-like": 200_000, "epsilon-like": 10_000}
BUDGET = 8.0  # seconds of one fit, after which a contestant gets no more iterations
Fit = Callable[[Any, np.ndarray, float, int], np.ndarray]


def _sklearn(solver: str) -> Fit:
    def run(X: Any, y: np.ndarray, C: float, iterations: int) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        kind = {"dual": True} if solver == "liblinear" else {}
        model = LogisticRegression(solver=solver, C=C, fit_intercept=False, tol=1e-12, max_iter=iterations, **kind)
        return np.ravel(model.fit(X, y).coef_)

    return run


def _snapml(threads: int) -> Fit:
    def run(X: Any, y: np.ndarray, C: float, iterations: int) -> np.ndarray:
        import snapml

        model = snapml.LogisticRegression(
            max_iter=iterations, dual=True, n_jobs=threads, regularizer=1.0 / C, tol=1e-30, fit_intercept=False
        )
        return np.ravel(model.fit(X, y).coef_)

    return run


def _daskglm(threads: int) -> Fit:
    def run(X: Any, y: np.ndarray, C: float, iterations: int) -> np.ndarray:
        return fit(X, y, tol=0.0, max_iter=iterations, threads=threads)["coef"]

    return run


def test_loss(rows: int | None, repeats: int, threads: int) -> Figure:
    """Figure 6: mean logistic loss on a fifth of the rows held out, against seconds of training."""
    contestants: dict[str, tuple[Fit, tuple[int, ...]]] = {
        **{f"sklearn {name}": (_sklearn(name), (1, 3, 10, 30, 100)) for name in ("liblinear", "lbfgs", "sag", "saga")},
        "snapml 1 thread": (_snapml(1), (1, 2, 4, 8, 16)),
        f"snapml {threads} threads": (_snapml(threads), (1, 2, 4, 8, 16)),
        "daskglm sdca 1 thread": (_daskglm(1), (1, 2, 4, 8, 16)),
        f"daskglm sdca {threads} threads": (_daskglm(threads), (1, 2, 4, 8, 16)),
    }
    figure = Figure(
        "fig6-test-loss",
        "Figure 6: test loss against time",
        "Logistic regression, C = 1 / mean |x|^2, no intercept; every fit starts anew with a number of iterations, all "
        f"contestants in turn in one process, {repeats} time(s), fit only. No further iterations after a fit of "
        f"{BUDGET:g} s. Not run: H2O (a Java server, not installed).",
        ("data", "contestant", "iterations", "seconds", "test loss", "above the least training objective (relative)"),
    )
    for name in PAPER_SETS:
        X, y = load(name, rows=rows or ROWS[name])
        cut = X.shape[0] * 4 // 5
        train, labels, held, truth = X[:cut], y[:cut], X[cut:], y[cut:]
        warm_up(train, labels)
        runs = _race(contestants, train, labels, repeats)
        scored = [
            (who, k, s, _mean_loss(held, truth, w), _objective(train, labels, w, penalty(train)))
            for who, k, s, w in runs
        ]
        best = min(row[4] for row in scored)
        panel = Panel(name, "seconds", "test loss", log="x")
        for who, k, seconds, loss, objective in scored:
            figure.rows.append((name, who, k, seconds, round(loss, 6), (objective - best) / best))
            panel.add(who, seconds, loss)
        figure.panels.append(panel)
    return figure


def _race(contestants: Any, X: Any, y: np.ndarray, repeats: int) -> list[tuple[str, int, float, np.ndarray]]:
    found, slow, C = [], set(), penalty(X)
    for step in range(5):
        for who, (run, iterations) in contestants.items():
            if who in slow:
                continue
            seconds = []
            for _ in range(repeats):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    start = time.perf_counter()
                    w = run(X, y, C, iterations[step])
                    seconds.append(time.perf_counter() - start)
            if max(seconds) > BUDGET:
                slow.add(who)
            found.append((who, iterations[step], float(np.median(seconds)), w))
    return found


def _mean_loss(X: Any, y: np.ndarray, w: np.ndarray) -> float:
    return float(np.logaddexp(0.0, -y * np.asarray(X @ w.astype(np.float64)).ravel()).mean())


def _objective(X: Any, y: np.ndarray, w: np.ndarray, C: float) -> float:
    return 0.5 * float(w @ w) + C * _mean_loss(X, y, w) * len(y)
