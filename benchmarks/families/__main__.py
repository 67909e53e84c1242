"""`python -m benchmarks.families`: run the races, interleaved, each fit in a process of its own."""

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

from benchmarks.families.contestants import CONTESTANTS, LADDER, PREPARE
from benchmarks.families.judge import objective
from benchmarks.families.problems import FAMILIES, problem

RESULTS = Path(__file__).resolve().parents[1] / "results" / "families.md"
TARGETS = (1e-3, 1e-6)
# Rows of a first fit, which compiles and imports.
WARM_UP = 20_000


@click.group()
def main() -> None:
    """Races of families."""


@main.command()
@click.argument("shape")
@click.argument("family")
@click.argument("rows", type=int)
@click.argument("alpha", type=float)
@click.argument("contestant")
def one(shape: str, family: str, rows: int, alpha: float, contestant: str) -> None:
    """Fit one problem by one contestant at every tolerance, and print a line of JSON each."""
    fit, prepare = CONTESTANTS[contestant], PREPARE.get(contestant, lambda rows: rows)
    fit(prepare(problem(shape, family, WARM_UP)), family, alpha, 1e-4)
    given = problem(shape, family, rows)
    prepared = prepare(given)
    for tol in LADDER:
        began = time.perf_counter()
        w, b, said = fit(prepared, family, alpha, tol)
        seconds = time.perf_counter() - began
        value = objective(given, family, alpha, w, b)
        print(json.dumps({"tol": tol, "seconds": seconds, "value": value, "said": said}))


@main.command()
@click.option("--shape", type=click.Choice(["one-hot", "dense"]), multiple=True)
@click.option("--rows", type=int, help="Instead of 600,000 one-hot and 2,000,000 dense rows.")
@click.option("--repeats", type=int, default=3)
@click.option("--alpha", type=float, default=1e-3)
def run(shape: tuple[str, ...], rows: int | None, repeats: int, alpha: float) -> None:
    """Run all contestants on all problems in turn, and write the table of results."""
    lines = [_head(alpha, repeats)]
    for each in shape or ("one-hot", "dense"):
        n = rows or (600_000 if each == "one-hot" else 2_000_000)
        for family in FAMILIES:
            found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in CONTESTANTS}
            for _ in range(repeats):
                for name in CONTESTANTS:
                    found[name].append(_measure(each, family, n, alpha, name))
                    click.echo(f"{each} {family} {name}", err=True)
            lines.append(_table(each, family, n, found))
            RESULTS.write_text("\n".join(lines))
    click.echo(RESULTS.read_text())


def _measure(shape: str, family: str, rows: int, alpha: float, name: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.families", "one"]
    command += [shape, family, str(rows), str(alpha), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _table(shape: str, family: str, rows: int, found: dict[str, list[list[dict[str, Any]]]]) -> str:
    best = min(fit["value"] for runs in found.values() for fits in runs for fit in fits)
    lines = [
        f"\n## {family}, {rows:,} {shape} rows\n",
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


def _first(runs: list[list[dict[str, Any]]], best: float, target: float) -> tuple[float, str]:
    """Return the median seconds of the fastest tolerance at which all runs reach the target."""
    fits = [
        (statistics.median(run[k]["seconds"] for run in runs), runs[0][k]["said"])
        for k in range(len(LADDER))
        if all(run[k]["value"] - best <= target * best for run in runs)
    ]
    return min(fits, default=(float("inf"), "not reached"))


def _head(alpha: float, repeats: int) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("scikit-learn", "glum", "numpy"))
    return (
        f"# Ridge regressions of families\n\n{os.cpu_count()} cores of a {platform.machine()} "
        f"machine, {packages}, alpha={alpha:g}, seed 0, medians of {repeats} processes in turn. "
        "Every contestant gets the same matrix and is run at seven tolerances; the time is of the "
        "fastest whose objective, judged in float64 by formulas of the judge's own, is within the "
        "target of the best one seen. Not run: H2O, Spark, cuML, skglm.\n"
    )


if __name__ == "__main__":
    main()
