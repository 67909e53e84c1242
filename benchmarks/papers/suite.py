"""All tables and figures of the three papers that a CPU can run: `python -m benchmarks run --suite
papers`.

Into one folder: tables/ (Table 1 of the TRON paper, Tables II and III of the HPC paper),
tron-sparse/ (TRON against multi-threaded LIBLINEAR on sparse sets) and sdca/ (the figures of the
Snap ML paper). Hours; --quick: minutes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.papers import tables
from benchmarks.papers.snap_ml.__main__ import FIGURES
from benchmarks.reports import page as report
from benchmarks.suites.definitions import QUICK_ROWS, QUICK_TOLS, SUITES
from benchmarks.suites.runner import Conditions, locked, run_suite

TIMEOUT = 600.0
QUICK_FIGURE_ROWS = 800


def run(
    out: Path,
    *,
    quick: bool = False,
    repeats: int | None = None,
    lock: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Measure everything into a folder, the quickest first."""
    repeats = repeats or (1 if quick else 3)
    for table in tables.MAKERS:
        say(f"wrote {tables.make(table, out / 'tables', repeats=repeats, quick=quick, lock=lock)}")
    _tron_sparse(out / "tron-sparse", quick, repeats, lock, say)
    threads = len(os.sched_getaffinity(0))
    for name, figure in FIGURES.items():
        with locked(lock):
            made = figure(QUICK_FIGURE_ROWS if quick else None, repeats, threads)
        say(f"wrote {made.write(out / 'sdca')} ({name})")


def _tron_sparse(
    out: Path, quick: bool, repeats: int, lock: Path | None, say: Callable[[str], None]
) -> None:
    suite = replace(SUITES["tron-sparse"], repeats=repeats)
    suite = replace(suite, tols=QUICK_TOLS) if quick else suite
    runs = out / "runs.jsonl"
    runs.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="daskglm-benchmarks-") as cache:
        conditions = Conditions(len(os.sched_getaffinity(0)), TIMEOUT, cache, lock)
        problems = suite.problems(limit=QUICK_ROWS if quick else None)
        run_suite("tron-sparse", suite, problems, runs, conditions, say=say)
    say(f"wrote {report.write([runs], out)}")
