"""What happens in the process of a contestant: read, warm up, prepare, fit on the clock, judge.

`python -m benchmarks.penalties.single REQUEST` prints a line of JSON when it is ready and after
each fit. It needs NumPy and SciPy beside the contestant's package: peers have environments of
their own.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import NotApplicable
from benchmarks.penalties import judge
from benchmarks.penalties.contestants import Answer
from benchmarks.penalties.problems import Problem, read
from benchmarks.penalties.races import CONTESTANTS
from benchmarks.suites import memory

# Rows of a first fit, which compiles and imports.
WARM_UP = 2000
# Excess over the best objective known, relative, at which no tighter tolerance is tried.
ENOUGH = 5e-7


def main(request: str) -> None:
    """Answer a request: {"contestant", "folder", "tols", "threads", "best"}."""
    warnings.simplefilter("ignore")
    asked = json.loads(request)
    contestant = CONTESTANTS[asked["contestant"]]
    try:
        _run(
            asked, importlib.import_module(f"benchmarks.penalties.contestants.{contestant.module}")
        )
    except NotApplicable as reason:
        _say({"refused": str(reason)})
    except ImportError as error:
        _say({"refused": f"not installed: {error}"})


def _run(asked: dict[str, Any], rival: Any) -> None:
    options = CONTESTANTS[asked["contestant"]].options or {}
    problem, threads = read(Path(asked["folder"])), asked["threads"]
    prepare = getattr(rival, "prepare", lambda problem, **_: problem.X)
    few = problem.first_rows(WARM_UP)
    rival.fit(few, prepare(few, **options), asked["tols"][0], threads, **options)
    rows = prepare(problem, **options)
    _say({"ready": True, "versions": _versions(rival.packages)})
    for tol in asked["tols"]:
        gc.collect()
        memory.reset_peaks()
        before, began = memory.resident_mb() or 0.0, time.perf_counter()
        answer = rival.fit(problem, rows, tol, threads, **options)
        seconds = time.perf_counter() - began
        beyond = (memory.peak_mb() or 0.0) - before
        values = _judge(problem, answer)
        found = {"tol": tol, "seconds": seconds, "beyond_mb": beyond, "said": answer.said}
        _say(found | values)
        if _is_enough(values, asked["best"]):
            break


def _judge(problem: Problem, answer: Answer) -> dict[str, Any]:
    """Return the objectives of a fit; of one by folds the proved gap, and what it chose."""
    if problem.task != "folds":
        return {"values": judge.objectives(problem, answer.coefs, answer.intercepts).tolist()}
    assert answer.alpha is not None
    gap = judge.gaussian_gap(problem, answer.alpha, answer.coefs[0], float(answer.intercepts[0]))
    errors = None if answer.errors is None else np.mean(answer.errors, axis=-1).tolist()
    place = int(np.argmin(np.abs(problem.alphas - answer.alpha)))
    return {"gap": gap, "chosen": place, "errors": errors}


def _is_enough(values: dict[str, Any], best: list[float] | None) -> bool:
    if "gap" in values:
        return bool(values["gap"] <= ENOUGH)
    if best is None:
        return False
    return bool(np.max(np.array(values["values"]) / best - 1.0) <= ENOUGH)


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _say(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
