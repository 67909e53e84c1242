"""`python -m benchmarks.families`: run the races, interleaved, each contestant in a process."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from benchmarks.families.races import RACES

RESULTS = Path(__file__).resolve().parents[1] / "results" / "families.md"
TARGETS = (1e-3, 1e-6)
# Tolerance of the first fit.
LOOSE = 1e-3

# The fits of one process: a line for each tolerance that it came to.
Run = list[dict[str, Any]]


@click.group()
def main() -> None:
    """Races of families."""


@main.command()
@click.argument("race", type=click.Choice(list(RACES)))
@click.argument("rows", type=int)
@click.argument("contestant")
def one(race: str, rows: int, contestant: str) -> None:
    """Fit one problem by one contestant at every tolerance, and print a line of JSON each."""
    known = RACES[race]
    fit, ladder, prepare, warm_up = known.contestants[contestant]
    fit(prepare(known.make(min(warm_up, rows))), LOOSE)
    given = known.make(rows)
    prepared = prepare(given)
    for tol in ladder:
        began = time.perf_counter()
        w, b, said = fit(prepared, tol)
        seconds = time.perf_counter() - began
        found = {
            "tol": tol,
            "seconds": seconds,
            "value": known.judge(given, w=w, b=b),
            "said": said,
        }
        print(json.dumps(found), flush=True)


@main.command()
@click.option("--race", "names", type=click.Choice(list(RACES)), multiple=True)
@click.option("--rows", type=int, help="Instead of those of the race.")
@click.option("--repeats", type=int, default=3)
@click.option("--limit", type=float, default=600.0, help="Seconds of a process.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS)
def run(names: tuple[str, ...], rows: int | None, repeats: int, limit: float, out: Path) -> None:
    """Run all contestants of races in turn, and write the table of results."""
    lines = [_head(repeats, limit)]
    for race in names or RACES:
        n = rows or RACES[race].rows
        found: dict[str, list[Run]] = {name: [] for name in RACES[race].contestants}
        for _ in range(repeats):
            for name, runs in found.items():
                # one who came to no end of the first tolerance in time is not asked again
                if runs and not runs[-1]:
                    continue
                runs.append(_measure(race, n, name, limit))
                click.echo(f"{race} {name}", err=True)
        lines.append(_table(RACES[race].problem, n, found))
        out.write_text("\n".join(lines) + "\n")
    click.echo(out.read_text())


def _measure(race: str, rows: int, name: str, limit: float) -> Run:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.families", "one"]
    command += [race, str(rows), name]
    try:
        printed = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, timeout=limit, text=True
        ).stdout
    except subprocess.TimeoutExpired as expired:
        # what was printed comes as bytes, though text was asked for
        printed = (expired.stdout or b"").decode()
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def _table(problem: str, rows: int, found: dict[str, list[Run]]) -> str:
    values = [fit["value"] for runs in found.values() for fits in runs for fit in fits]
    if not values:
        raise click.ClickException(f"{problem}: no contestant ended a fit within --limit")
    best = min(values)
    lines = [
        f"\n## {problem}: {rows:,} rows\n",
        "| contestant | s to 1e-3 | s to 1e-6 | times ours at 1e-6 | said at 1e-6 |",
        "|---|---|---|---|---|",
    ]
    reached = {
        name: [_first(runs, best, target) for target in TARGETS] for name, runs in found.items()
    }
    ours = reached["daskglm"][1][0]
    for name, ((loose, _), (tight, said)) in reached.items():
        lines.append(f"| {name} | {loose:.3f} | {tight:.3f} | {tight / ours:.1f} | {said} |")
    return "\n".join(lines)


def _first(runs: list[Run], best: float, target: float) -> tuple[float, str]:
    """Return the median seconds of the fastest tolerance at which all runs reach the target."""
    fits = [
        (statistics.median(run[k]["seconds"] for run in runs), runs[0][k]["said"])
        for k in range(min(len(run) for run in runs))
        if all(run[k]["value"] - best <= target * best for run in runs)
    ]
    return min(fits, default=(float("inf"), "not reached in time"))


def _head(repeats: int, limit: float) -> str:
    names = ("scikit-learn", "glum", "statsmodels", "numpy")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"# Races of families\n\n{os.cpu_count()} cores of a {platform.machine()} machine, "
        f"{packages}, seed 0, medians of {repeats} processes in turn. Every contestant gets the "
        "same matrix and is run at several tolerances, for at most "
        f"{limit:g} s a process; the time is of the fastest tolerance whose objective, judged in "
        "float64 by formulas of the judge's own, is within the target of the best one seen. Not "
        "run: H2O, Spark, cuML, skglm.\n"
    )


if __name__ == "__main__":
    main()
