"""All kinds of jobs by name, what is drawn of them, and how a job ended."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.soak import classes, families, losses, quantiles, search
from benchmarks.soak.cases import (
    WITH_CLIENT,
    Answer,
    Asked,
    Block,
    Case,
    Kind,
    block,
    in_memory,
    in_storage,
)
from benchmarks.soak.checks import NotReached

KINDS: dict[str, Kind] = {
    **losses.KINDS,
    **families.KINDS,
    **search.KINDS,
    **classes.KINDS,
    **quantiles.KINDS,
}

# Stands for one of the kind's own faults of input, or for a callback that fails.
INPUT = "input"
KILL_SCHEDULER = "kill scheduler"
# Storages of which a worker that goes takes rows that cannot be made again.
LOST_WITH_WORKER = ("sent",)


def draw(number: int, rng: np.random.Generator, faults: tuple[str, ...]) -> Case:
    """Draw a random case."""
    names = list(KINDS)
    shares = np.array([KINDS[name].share for name in names])
    name = str(rng.choice(names, p=shares / shares.sum()))
    kind = KINDS[name]
    columns = int(rng.integers(2, 25))
    fault = str(rng.choice(faults))
    # of a fit in this process nothing is on the scheduler
    storages = [each for each in kind.storages if fault != KILL_SCHEDULER or each != "process"]
    storage = str(rng.choice(storages))
    if fault == INPUT:
        own = [*kind.spoils]
        if kind.tells_iterations:
            own.append("callback")
        fault = str(rng.choice(own))
    return Case(
        number,
        name,
        rows=int(rng.integers(300, kind.most_rows)),
        columns=columns,
        dtype=str(rng.choice(["float64", "float32"])),
        storage=storage,
        fault=fault,
        iteration=int(rng.integers(0, 3)),
        seconds=float(rng.uniform(0.0, 0.5)),
        options=kind.draw(rng, columns),
    )


def made(case: Case, k: int) -> Block:
    """Return one block of a case: what workers run."""
    return block(case, KINDS[case.kind], k)


def run(case: Case, asked: Asked) -> Answer:
    """Run a job by daskglm, without a check."""
    kind = KINDS[case.kind]
    return kind.run(case, in_storage(case, kind, made), asked)


def run_job(case: Case, asked: Asked) -> Answer | Exception:
    """Run a job; return its answer, or the error that it ended with."""
    try:
        with warnings.catch_warnings():
            # of fits that end early; the check looks at their reports
            warnings.simplefilter("ignore")
            return run(case, asked)
    except Exception as error:
        return error


def judge(case: Case, answer: Answer | Exception, *, workers_come_and_go: bool = False) -> str:
    """Return how a job ended; AssertionError where that is not how it should.

    An error that the case's fault explains is an expected end.
    """
    kind = KINDS[case.kind]
    if isinstance(answer, Exception):
        for of, pattern in _explained(case, workers_come_and_go):
            if of in _names(answer) and re.search(pattern, str(answer)):
                return type(answer).__name__
        raise AssertionError(f"{case} ended with {answer!r}") from answer
    assert case.fault not in (*kind.spoils, "callback"), f"{case} should have failed"
    data = in_memory(case, kind)
    data["X"] = data["X"].astype(np.float64)
    try:
        with threadpool_limits(1):  # of BLAS, whose threads wait for each other on a busy machine
            kind.check(case, data, answer.found)
    except NotReached:
        return "not reached, as told"
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error
    return "right"


def _names(error: Exception) -> list[str]:
    return [each.__name__ for each in type(error).__mro__]


def _explained(case: Case, workers_come_and_go: bool) -> list[tuple[str, str]]:
    """Return the errors, as class and pattern, that explain themselves by what happened."""
    found = []
    if spoil := KINDS[case.kind].spoils.get(case.fault):
        found.append(("ValueError", spoil.error))
    if case.fault == "callback":
        found.append(("RuntimeError", "the callback fails"))
    if case.fault == KILL_SCHEDULER:
        found.append(("ClusterLost", "scheduler"))
    if case.storage in LOST_WITH_WORKER and (
        workers_come_and_go or case.fault in ("kill", "retire")
    ):
        found.append(("DataLost", "cannot be computed again|lost"))
    if case.storage in LOST_WITH_WORKER and workers_come_and_go:
        # rows in memory do not wait for workers where there are none
        found.append(("RuntimeError", "no workers to send the rows to"))
    return found


def without_end(number: int) -> Case:
    """Return the case of a client that is to be killed: even numbers are of a loss."""
    name, options = WITHOUT_END[number % 2]
    storage = WITH_CLIENT[1:][number % 3]
    return Case(number, name, 12_000, 8, "float64", storage, options=options)


def fit_for_ever(address: str, number: int) -> None:
    """Run a fit that waits after its second iteration, in a client process that is to be killed.

    Prints iterations, or the error that it ends with before.
    """
    import time

    from distributed import Client

    def wait(record: dict[str, Any]) -> None:
        print("iteration", record["iteration"], flush=True)
        time.sleep(3600.0 if record["iteration"] == 2 else 0.0)

    case = without_end(number)
    try:
        with Client(address) as client:
            run(case, Asked(client, case.storage, wait))
    except Exception as error:
        print("ended with", repr(error), flush=True)
    finally:
        time.sleep(3600.0)  # to be killed


# Fits of more than two iterations.
WITHOUT_END: list[tuple[str, dict[str, Any]]] = [
    ("loss", {"loss": "logistic", "solver": "lbfgs", "C": 1.0, "tol": 1e-9}),
    (
        "family",
        {
            "family": "gamma",
            "link": "auto",
            "beside": [],
            "penalty": {"alpha": 1e-3},
            "solver": "lbfgs",
            "tol": 1e-12,
        },
    ),
]
