"""The process of one contestant: it reads a problem, warms up, and fits as often as it is told.

`python -P -m benchmarks.unseen.side REQUEST` answers each line of standard input, a tolerance, by a
line of JSON. Which commit of daskglm that is depends on the path of modules.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import CONTESTANTS
from benchmarks.datasets.problems import read
from benchmarks.suites import evaluate, memory

WARM_UP_ROWS = 2_000  # of both classes together


def main(request: str) -> None:
    """Answer `ready` or why there is nothing to time, then every line until there is none."""
    asked = json.loads(request)
    warnings.simplefilter("ignore")
    contestant = CONTESTANTS[asked["contestant"]]
    arguments = {"fit_intercept": False, "threads": asked["threads"], **contestant.options}
    task = {"loss": asked["loss"], "C": asked["C"]}
    try:
        rival = contestant.load()
        X, y = read(Path(asked["folder"]))
        prepare = getattr(rival, "prepare", lambda X, y, **_: (X, y))
        half = WARM_UP_ROWS // 2
        few = np.sort(np.concatenate([np.flatnonzero(y > 0)[:half], np.flatnonzero(y < 0)[:half]]))
        warm_up = getattr(rival, "warm_up", rival.fit)
        warm_up(*prepare(X[few], y[few], **arguments), **arguments, **task, tol=1e-4)
        rows = prepare(X, y, **arguments)
    except Exception as error:  # a rival that is missing, or does not apply, is a result
        _say({"refused": f"{type(error).__name__}: {str(error)[:200]}"})
        return
    _say({"ready": getattr(sys.modules.get("daskglm"), "__file__", None)})
    for line in sys.stdin:
        gc.collect()
        memory.reset_peaks()
        before, began = memory.resident_mb() or 0.0, time.perf_counter()
        cpu = time.process_time()
        coef, intercept, info = rival.fit(*rows, **arguments, **task, tol=float(line))
        found: dict[str, Any] = {
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - cpu,
        }
        found["beyond_mb"] = (memory.peak_mb() or 0.0) - before
        found["objective"] = evaluate.objective(X, y, coef, intercept, **task)
        _say({**info, **found})


def _say(record: dict[str, Any]) -> None:
    print(json.dumps(record, default=float), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
