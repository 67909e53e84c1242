"""What happens in the fresh process of one run: load, warm up, prepare, fit on the clock, judge.

`python -m benchmarks.suites.single_run REQUEST` answers a request of the runner, a JSON object, by
a line of JSON. It needs NumPy and SciPy beside the contestant's library, nothing else: peers have
environments of their own.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import CONTESTANTS, Contestant, NotApplicable
from benchmarks.datasets import problems
from benchmarks.suites import evaluate, memory
from benchmarks.suites.definitions import Problem
from benchmarks.suites.environments import how_to_install

WARM_UP_ROWS = 2_000
PACKAGES = (
    *(
        "numpy",
        "scipy",
        "scikit-learn",
        "numba",
        "dask",
        "distributed",
        "daskglm",
        "liblinear-official",
    ),
    *(
        "liblinear-multicore",
        "snapml",
        "glum",
        "tabmat",
        "skglm",
        "dask-ml",
        "dask-glm",
        "h2o",
        "pyspark",
        "torch",
        "cuml-cu13",
    ),
)


def main(request: str) -> None:
    """Answer a request on standard output."""
    asked = json.loads(request)
    problem = Problem(**asked["problem"])
    if asked["what"] == "reference":
        record = reference(problem, asked["cache"])
    else:
        contestant = CONTESTANTS[asked["contestant"]]
        contestant = contestant._replace(options=contestant.options | asked.get("options", {}))
        record = {"contestant": asked["contestant"]}
        held_out = asked.get("held_out", 0.0)
        record |= run(
            problem, contestant, asked["tol"], asked["threads"], asked["cache"], held_out=held_out
        )
    print("\n" + json.dumps(record))


def reference(problem: Problem, cache: str | None) -> dict[str, Any]:
    """Return the record of the optimum, or of why there is none; it is cached beside the data."""
    record: dict[str, Any] = {
        "kind": "reference",
        **problem.fields(),
        "source": problems.source(problem.data),
    }
    kept = Path(cache or "", f"reference-{_digest(record)}.json")
    if cache and kept.exists():
        return json.loads(kept.read_text())
    start = time.perf_counter()
    try:
        X, y = _load(problem, cache, record)
        found = evaluate.reference(
            X, y, loss=problem.loss, C=problem.C, fit_intercept=problem.fit_intercept
        )
    except problems.Unavailable as error:
        return record | {"status": "unavailable", "reason": str(error)}
    except Exception as error:
        return record | {"status": "failed", "reason": _reason(error)}
    record |= {"status": "ok", "objective": found.objective, "decrement": found.decrement}
    record |= {
        "iterations": found.iterations,
        "seconds": time.perf_counter() - start,
    } | surroundings()
    if cache:
        kept.write_text(json.dumps(record))
    return record


def _digest(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def run(
    problem: Problem,
    contestant: Contestant,
    tol: float,
    threads: int,
    cache: str | None,
    *,
    held_out: float = 0.0,
) -> dict[str, Any]:
    """Return the record of one run; errors become its status and reason.

    The last rows, `held_out` of them all, are not trained on; the record then has their mean loss
    as `test_loss`.
    """
    record: dict[str, Any] = {"kind": "run", **problem.fields(), "tol": tol, "threads": threads}
    record |= {"ours": contestant.ours} | surroundings()
    try:
        record |= {"status": "ok"} | _measure(
            problem, contestant, tol, threads, cache, held_out, record
        )
    except NotApplicable as error:
        record |= {"status": "not applicable", "reason": str(error)}
    except ImportError as error:
        environment = contestant.environment
        cure = f"; to install it: {how_to_install(environment)}" if environment else ""
        record |= {"status": "missing", "reason": _reason(error) + cure}
    except MemoryError as error:
        record |= {"status": "out of memory", "reason": _reason(error)}
    except problems.Unavailable as error:
        record |= {"status": "unavailable", "reason": str(error)}
    except Exception as error:
        record |= {
            "status": "failed",
            "reason": _reason(error),
            "traceback": traceback.format_exc(limit=-5),
        }
    return record


def _measure(
    problem: Problem,
    contestant: Contestant,
    tol: float,
    threads: int,
    cache: str | None,
    held_out: float,
    record: dict[str, Any],
) -> dict[str, Any]:
    record["memory_limit_mb"] = memory.limit(contestant.options.get("workers", 0))
    if problem.loss not in contestant.losses:
        raise NotApplicable(f"does not know {problem.loss}")
    marks = [time.perf_counter()]
    rival = contestant.load()
    marks.append(time.perf_counter())
    X, y = _load(problem, cache, record)
    if held_out:
        cut = int(len(y) * (1.0 - held_out))
        X, y, test_X, test_y = X[:cut], y[:cut], X[cut:], y[cut:]
    marks.append(time.perf_counter())
    arguments: dict[str, Any] = {
        "fit_intercept": problem.fit_intercept,
        "threads": threads,
        **contestant.options,
    }
    prepare = getattr(rival, "prepare", lambda X, y, **_: (X, y))
    task = arguments | {"loss": problem.loss, "C": problem.C, "tol": tol}
    few = _few_rows(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(rival, "warm_up", rival.fit)(*prepare(X[few], y[few], **arguments), **task)
        gc.collect()
        was_reset = memory.reset_peaks()
        loaded = memory.resident_mb()
        marks.append(time.perf_counter())
        held = prepare(X, y, **arguments)
        marks.append(time.perf_counter())
    gc.collect()
    converting = memory.peak_mb()
    before = memory.resident_mb()
    memory.reset_peaks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        coef, intercept, info = rival.fit(*held, **task)
        seconds = time.perf_counter() - start
    peak = memory.peak_mb()
    names = ("import_seconds", "load_seconds", "warm_up_seconds", "prepare_seconds")
    result = dict(zip(names, np.diff(marks).tolist(), strict=True)) | {"seconds": seconds}
    result |= {
        "rss_loaded_mb": loaded,
        "rss_before_mb": before,
        "peak_rss_mb": peak,
        "peak_prepare_mb": converting,
    }
    result |= {"peak_is_of_fit": was_reset} | info
    result["warnings"] = sorted(
        {f"{w.category.__name__}: {str(w.message).splitlines()[0][:200]}" for w in caught}
    )
    result["objective"] = evaluate.objective(X, y, coef, intercept, loss=problem.loss, C=problem.C)
    result |= {"coef_norm": float(np.linalg.norm(coef)), "intercept": float(intercept)}
    if held_out:
        result["test_loss"] = evaluate.mean_loss(test_X, test_y, coef, intercept, loss=problem.loss)
    return result


def _load(problem: Problem, cache: str | None, record: dict[str, Any]) -> tuple[Any, np.ndarray]:
    folder = Path(cache) if cache else None
    X, y = problems.load(
        problem.data, rows=problem.rows, seed=problem.seed, dtype=problem.dtype, cache=folder
    )
    sparse = not isinstance(X, np.ndarray)
    record |= {
        "n": X.shape[0],
        "d": X.shape[1],
        "nnz": int(X.nnz if sparse else X.size),
        "sparse": sparse,
    }
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse else X.nbytes
    record |= {
        "stored_dtype": str(X.dtype),
        "positive": float((y > 0).mean()),
        "data_mb": (size + y.nbytes) / 2**20,
    }
    record["source"] = problems.source(problem.data)
    return X, y


def _few_rows(y: np.ndarray) -> np.ndarray:
    """Return some rows of both classes, in order."""
    half = WARM_UP_ROWS // 2
    return np.sort(np.concatenate([np.flatnonzero(y > 0)[:half], np.flatnonzero(y <= 0)[:half]]))


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:500]}"


# ---- the machine
def surroundings() -> dict[str, Any]:
    """Versions, machine, load and date."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "absent"
    machine = {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gb": _total_memory_gb(),
        "system": platform.system(),
    }
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "versions": versions,
        "machine": machine,
        "load": load,
        "date": datetime.now(UTC).isoformat("T", "seconds"),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _total_memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


if __name__ == "__main__":
    main(sys.argv[1])
