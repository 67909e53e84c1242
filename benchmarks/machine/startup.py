"""What a start costs: CPU seconds of whole processes, and of the first fit of a process beyond its
second, with kernels on disk.

Every measurement is a fresh process with one thread. One that is not counted comes first, so that
numba's disk cache is warm.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.reports.tabular import table
from benchmarks.suites.runner import ROOT, commit, locked
from benchmarks.suites.single_run import surroundings

FIT = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((1_000, 10))
y = X[:, 0] + rng.standard_normal(1_000) > 0
model = LogisticRegression().fit(X, y)
"""
# Code of whole processes; "model.json" is there.
WHOLE = {
    "import numpy": "import numpy",
    "import sklearn": "import sklearn",
    "import sklearn.linear_model": "import sklearn.linear_model",
    "a first fit of scikit-learn": f"from sklearn.linear_model import LogisticRegression{FIT}",
    "a first fit of daskglm": f"from daskglm import LogisticRegression{FIT}",
    "daskglm info": "from daskglm.cli import main; main(['info', 'model.json'])",
    "daskglm --help": "from daskglm.cli import main; main(['--help'])",
}
KINDS = ("dense float32", "dense float64", "CSR", "one-hot")
SOLVERS = ("newton", "tron", "lbfgs", "sdca")
ROWS, COLUMNS, FIELDS = 20_000, 200, 10
ABOUT = f"""\
CPU time, user and system, with one thread: medians (least - most) of {{repeats}} fresh
processes each, in turn, after one that filled numba's disk cache. Whole processes first; their fits
are of 1,000 x 10 numbers with all defaults. Then fits after daskglm's import: logistic, C = 1,
intercept, {ROWS:,} rows, {COLUMNS} columns ({COLUMNS // 10} stored a row of CSR, {FIELDS} of
one-hot), defaults otherwise; *beyond* is the first fit of the process less the second, which is the
same fit."""


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
    """CPU seconds of the first and of the second fit of this process."""
    import time
    import warnings

    from daskglm import fit

    X, y = data(kind)
    seconds = []
    for _ in range(2):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(X, y, solver=solver, progress=False)
        seconds.append(time.process_time() - start)
    return {"first": seconds[0], "second": seconds[1]}


def measure(repeats: int, lock: Path | None, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a record for each process that is counted."""
    starts = [
        (
            {"what": "fit", "kind": kind, "solver": solver},
            ["-m", "benchmarks.machine.startup", kind, solver],
        )
        for kind in KINDS
        for solver in SOLVERS
    ]
    records = []
    with tempfile.TemporaryDirectory() as folder:
        saved = (
            f"{WHOLE['a first fit of daskglm']}import daskglm; daskglm.save(model, 'model.json')"
        )
        _fresh(["-c", saved], folder)
        for repeat in range(-1, repeats):
            with locked(lock):
                found = [
                    {"what": "whole", "name": name, "seconds": _fresh(["-c", code], folder)[1]}
                    for name, code in WHOLE.items()
                ]
                found += [
                    about | json.loads(_fresh(arguments, folder)[0].splitlines()[-1])
                    for about, arguments in starts
                ]
            records += found if repeat >= 0 else []
            say(f"{repeat + 1} of {repeats} repeats")
    return records


def _fresh(arguments: list[str], folder: str) -> tuple[str, float]:
    """Run Python in a folder; return what it prints, and the CPU seconds it took."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    before = _cpu_of_children()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(arguments[-2:])}: "
            f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    return done.stdout, _cpu_of_children() - before


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def page(records: list[dict[str, Any]], repeats: int) -> str:
    """Two tables: of whole processes and of first fits."""
    whole, starts = [], []
    for name in WHOLE:
        seconds = [r["seconds"] for r in records if r["what"] == "whole" and r["name"] == name]
        whole.append([name, _spread(seconds)])
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
        table(["process", "CPU, s"], whole),
        table(["rows", "solver", "first, ms", "second, ms", "beyond, ms"], starts),
    ]
    return (
        "\n\n".join(["# What a start costs", ABOUT.format(repeats=repeats), *tables, where]) + "\n"
    )


def _milliseconds(seconds: list[float]) -> str:
    return _spread([1e3 * each for each in seconds])


def _spread(values: list[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} - {max(values):.3g})"


if __name__ == "__main__":
    print(json.dumps(fits(*sys.argv[1:])))
