"""The process of one draw: make the rows, warm up, fit by each solver, a line of JSON a fit.

`python -m benchmarks.suites.drawn_fits REQUEST` takes a JSON object; see `drawn`.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import daskglm
from benchmarks.datasets import mixed_draws, random_draws
from daskglm.losses.table import find

GENERATORS = {"mixed": mixed_draws, "random": random_draws}
WARM_UP_ROWS = 500
WARM_UP_SECONDS = 5.0  # a part of `drawn.START_SECONDS`. Chosen.
LEAST_SECONDS = 0.01  # shorter fits count as this long
HOPELESS = 2.0


def main(request: str) -> None:
    """Fit a draw by all solvers that are asked for, repeats outermost.

    A solver that takes `HOPELESS` times as long as `auto` is stopped there: only the fastest one is
    looked for. What misses the tolerance once is not repeated.
    """
    asked = json.loads(request)
    generator = GENERATORS[asked["suite"]]
    drawn = generator.draw(asked["seed"], asked["number"], asked["most_bytes"])
    X, y = generator.make(drawn)
    clock = time.process_time if asked["cpu"] else time.perf_counter
    warnings.simplefilter("ignore")
    few = _few_rows(drawn.loss, y)
    arguments = {"tol": asked["tol"], **generator.arguments(drawn, X[few], y[few])}
    for solver in asked["solvers"]:
        fit(X[few], y[few], arguments, solver, asked["seconds"], clock)

    arguments |= generator.arguments(drawn, X, y)
    # kernels that only many rows want, as those of several threads
    fit(X, y, arguments, "auto", min(WARM_UP_SECONDS, asked["seconds"]), clock)
    limit = asked["seconds"]
    stopped: dict[str, dict[str, Any]] = {}
    for _ in range(asked["repeats"]):
        for solver in asked["solvers"]:
            longest = asked["seconds"] if solver == "auto" else limit
            record = stopped.get(solver) or fit(X, y, arguments, solver, longest, clock)
            print(json.dumps(record), flush=True)
            if not record["converged"]:
                stopped[solver] = record
            elif solver == "auto":
                limit = min(limit, HOPELESS * max(record["seconds"], LEAST_SECONDS))


def fit(
    X: Any,
    y: np.ndarray,
    arguments: dict[str, Any],
    solver: str,
    limit: float,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Return the record of one fit, which is stopped at an iteration after `limit` seconds."""
    start = clock()
    try:
        found = daskglm.fit(
            X,
            y,
            **arguments,
            solver=solver,
            random_state=0,
            callback=lambda _: clock() - start > limit,
        ).report_
    except Exception as error:  # one solver's failure is a result
        return {
            "solver": solver,
            "converged": False,
            "seconds": limit,
            "status": f"{type(error).__name__}: {str(error)[:300]}",
        }
    return {
        "solver": solver,
        "converged": found.converged,
        "seconds": clock() - start,
        "status": found.reason,
        "chosen": found.solver,
        "why": found.why,
        "passes": found.passes,
        "iterations": found.n_iter,
        "objective": found.objective,
        "relative_gap": found.relative_gap,
    }


def _few_rows(loss: str, y: np.ndarray) -> np.ndarray:
    """Return some rows, of both classes where the loss tells classes."""
    if not find(loss).classifies:
        return np.arange(min(WARM_UP_ROWS, len(y)))
    half = WARM_UP_ROWS // 2
    return np.sort(np.concatenate([np.flatnonzero(y > 0)[:half], np.flatnonzero(y <= 0)[:half]]))


if __name__ == "__main__":
    main(sys.argv[1])
