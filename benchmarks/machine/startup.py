"""What a start costs: importing daskglm, and the first fit of a process beyond its second, with
kernels on disk.

Every measurement is a fresh process. One that is not counted comes first, so that numba's disk
cache is warm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.reports.tabular import table
from benchmarks.suites.runner import ROOT, commit, locked
from benchmarks.suites.single_run import surroundings

BEFORE = {
    "dask, scikit-learn": "import dask, sklearn",
    "dask.array, dask.dataframe, distributed, sklearn.linear_model": (
        "import dask.array, dask.dataframe, distributed, sklearn.linear_model"
    ),
}
IMPORT = """
import json, sys, time
exec(sys.argv[1])
start = time.perf_counter()
import daskglm
print(json.dumps({"seconds": time.perf_counter() - start}))
"""
KINDS = ("dense float32", "dense float64", "CSR", "one-hot")
SOLVERS = ("newton", "tron", "lbfgs", "sdca")
ROWS, COLUMNS, FIELDS = 20_000, 200, 10
ABOUT = f"""\
Medians (least - most) of {{repeats}} fresh processes each, in turn, after one that filled numba's
disk cache. Fits: logistic, C = 1, intercept, {ROWS:,} rows, {COLUMNS} columns ({COLUMNS // 10}
stored a row of CSR, {FIELDS} of one-hot), defaults otherwise; *beyond* is the first fit of the
process less the second, which is the same fit."""


def data(kind: str) -> tuple[Any, Any]:
    """Generate rows of a kind and labels of a noisy linear model."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    if kind == "one-hot":
        columns = rng.integers(0, COLUMNS // FIELDS, (ROWS, FIELDS)) + np.arange(FIELDS) * (
            COLUMNS // FIELDS
        )
        indptr = np.arange(0, ROWS * FIELDS + 1, FIELDS)
        ones = np.ones(ROWS * FIELDS, np.float32)
        X: Any = sp.csr_matrix(
            (ones, columns.ravel().astype(np.int32), indptr), shape=(ROWS, COLUMNS)
        )
    elif kind == "CSR":
        X = sp.random(ROWS, COLUMNS, 0.1, format="csr", dtype=np.float32, random_state=0)
    else:
        X = rng.standard_normal((ROWS, COLUMNS)).astype(kind.split()[1])
    margins = X @ rng.standard_normal(COLUMNS)
    return X, np.where(margins + rng.standard_normal(ROWS) > np.median(margins), 1.0, -1.0)


def fits(kind: str, solver: str) -> dict[str, float]:
    """Seconds of the first and of the second fit of this process."""
    import time
    import warnings

    import daskglm

    X, y = data(kind)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            daskglm.fit(X, y, solver=solver, progress=False)
        seconds.append(time.perf_counter() - start)
    return {"first": seconds[0], "second": seconds[1]}


def measure(repeats: int, lock: Path | None, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a record for each process that is counted."""
    imports = [
        ({"what": "import", "before": name}, ["-c", IMPORT, code]) for name, code in BEFORE.items()
    ]
    starts = [
        (
            {"what": "fit", "kind": kind, "solver": solver},
            ["-m", "benchmarks.machine.startup", kind, solver],
        )
        for kind in KINDS
        for solver in SOLVERS
    ]
    records = []
    for repeat in range(-1, repeats):
        with locked(lock):
            found = [about | _fresh(arguments) for about, arguments in imports + starts]
        records += found if repeat >= 0 else []
        say(f"{repeat + 1} of {repeats} repeats")
    return records


def _fresh(arguments: list[str]) -> dict[str, float]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    }
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(arguments[-2:])}: "
            f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def page(records: list[dict[str, Any]], repeats: int) -> str:
    """Two tables: of imports and of first fits."""
    imports, starts = [], []
    for name in BEFORE:
        seconds = [r["seconds"] for r in records if r["what"] == "import" and r["before"] == name]
        imports.append([name, _milliseconds(seconds)])
    for kind in KINDS:
        for solver in SOLVERS:
            some = [
                r
                for r in records
                if r["what"] == "fit" and (r["kind"], r["solver"]) == (kind, solver)
            ]
            columns = (
                [r["first"] for r in some],
                [r["second"] for r in some],
                [r["first"] - r["second"] for r in some],
            )
            starts.append([kind, solver, *map(_milliseconds, columns)])
    around = surroundings()
    versions = ", ".join(
        f"{name} {version}" for name, version in around["versions"].items() if version != "absent"
    )
    machine = f"{around['machine']['cpu']}, {around['machine']['cores']} cores"
    when, load = around["date"][:10], around["load"]
    where = f"{when}, {machine}, load {load} at the end; commit {commit()}; {versions}."
    tables = [
        table(["imported before", "import daskglm, ms"], imports),
        table(["rows", "solver", "first, ms", "second, ms", "beyond, ms"], starts),
    ]
    return (
        "\n\n".join(["# What a start costs", ABOUT.format(repeats=repeats), *tables, where]) + "\n"
    )


def _milliseconds(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.3g} ({1e3 * min(seconds):.3g} - {1e3 * max(seconds):.3g})"


if __name__ == "__main__":
    print(json.dumps(fits(*sys.argv[1:])))
