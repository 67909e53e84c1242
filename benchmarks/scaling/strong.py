"""Strong scaling: the same fit by 1, 2, 4 ... threads of one process and by as many workers of one
thread; and rounds.

`python -m benchmarks run --suite scaling` runs it. Every fit is a fresh process, settings in turn,
medians of repeats.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.reports.tabular import table
from benchmarks.suites.definitions import QUICK_ROWS, Problem
from benchmarks.suites.runner import Conditions, child, commit, locked

CASES = (("HIGGS", "newton"), ("RCV1", "tron"), ("epsilon", "lbfgs"), ("Criteo", "sdca"))
TOL = 1e-6
TIMEOUT = 600.0
ABOUT = f"""\
Logistic, C = 1, no intercept, to a bound of {TOL:g} on the relative suboptimality. *Threads*: of
one process; *workers*: processes of one thread each with the data on them, so one worker beside one
thread shows what Dask costs. Speed-up: over one of the same kind. Passes over the rows tell how
much of a loss is more work: partitions cost sdca epochs."""


class Setting(NamedTuple):
    """A fit: data, solver, threads in all, worker processes (0: in process)."""

    data: str
    solver: str
    threads: int
    workers: int


def run(
    out: Path,
    *,
    quick: bool = False,
    repeats: int | None = None,
    lock: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Time fits, then rounds by number of workers, into a folder.

    It writes fits.jsonl, fits.md, rounds.jsonl and its pages.
    """
    out.mkdir(parents=True, exist_ok=True)
    records = fits(QUICK_ROWS if quick else None, repeats or (1 if quick else 3), lock, say)
    (out / "fits.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (out / "fits.md").write_text(page(records))
    with locked(lock):
        _rounds(out, quick)
    say(f"wrote fits.md, rounds.md and model.md in {out}")


def settings(cores: int) -> list[Setting]:
    """Return all fits: powers of two up to the number of cores."""
    counts = [2**k for k in range(cores.bit_length())]
    return [
        Setting(data, solver, count, workers)
        for data, solver in CASES
        for count in counts
        for workers in (0, count)
    ]


def fits(
    rows: int | None, repeats: int, lock: Path | None, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return a record for each fit."""
    records = []
    with tempfile.TemporaryDirectory(prefix="daskglm-benchmarks-") as cache:
        for repeat in range(repeats):
            for setting in settings(len(os.sched_getaffinity(0))):
                problem = Problem(setting.data, rows, 0, None, "logistic", 1.0, False)
                request = {
                    "what": "run",
                    "problem": problem.fields(),
                    "contestant": f"daskglm-{setting.solver}",
                }
                request |= {"tol": TOL, "options": {"workers": setting.workers}}
                found = child(request, Conditions(setting.threads, TIMEOUT, cache, lock))
                records.append(
                    found | setting._asdict() | {"repeat": repeat, "rows": rows, "commit": commit()}
                )
                if found["status"] == "ok":
                    outcome = f"{found['seconds']:.3f} s"
                else:
                    outcome = found["reason"]
                say(f"{setting.data} {setting.solver}, {_who(setting)}: {outcome}")
    return records


def page(records: list[dict[str, Any]]) -> str:
    """Seconds, speed-up and passes of each setting."""
    groups: dict[Setting, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(Setting(*(record[field] for field in Setting._fields)), []).append(record)
    rows = []
    for setting, some in groups.items():
        seconds = [record["seconds"] for record in some if record["status"] == "ok"]
        if not seconds:
            rows.append([setting.data, setting.solver, _who(setting), some[0]["reason"], "", ""])
            continue
        one = setting._replace(threads=1, workers=min(setting.workers, 1))
        alone = [record["seconds"] for record in groups[one] if record["status"] == "ok"]
        spread = f"{median(seconds):.3g} ({min(seconds):.3g} - {max(seconds):.3g})"
        gain = f"{median(alone) / median(seconds):.2f}" if alone else ""
        rows.append(
            [setting.data, setting.solver, _who(setting), spread, gain, f"{some[0]['passes']:.4g}"]
        )
    head = ["data", "solver", "by", "seconds", "speed-up", "passes"]
    done = next((record for record in records if record["status"] == "ok"), None)
    if done:
        where = (
            f"{done['machine']['cpu']}, {done['machine']['cores']} cores; commit {done['commit']}."
        )
    else:
        where = ""
    sizes = {
        r["data"]: f"{r['data']}: {r['n']:,} x {r['d']:,}, {r['source']}"
        for r in records
        if r["status"] == "ok"
    }
    parts = ["# Strong scaling of fits", ABOUT, table(head, rows), "; ".join(sizes.values()), where]
    return "\n\n".join(filter(None, parts)) + "\n"


def _who(setting: Setting) -> str:
    if setting.workers:
        return f"{setting.workers} worker{'s' * (setting.workers > 1)}"
    return f"{setting.threads} thread{'s' * (setting.threads > 1)}"


def _rounds(out: Path, quick: bool) -> None:
    """Do what `python -m benchmarks.scaling measure`, `counts` and `report` do."""
    from benchmarks.scaling import __main__ as scaling

    file = out / "rounds.jsonl"
    file.unlink(missing_ok=True)
    few = ["--workers", "1,2", "--sizes", "28,1000", "--repeats", "3"] if quick else []
    scaling.measure.main([*few, "--out", str(file)], standalone_mode=False)
    scaling.counts.main(
        [*(["--rows", str(QUICK_ROWS)] if quick else []), "--out", str(file)], standalone_mode=False
    )
    scaling.report.main([str(file), "--out", str(out)], standalone_mode=False)
