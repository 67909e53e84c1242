"""`python -m benchmarks`: run a suite, report on it, measure rounds."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from benchmarks.rivals import CONTESTANTS, LOSSES
from benchmarks.suites import SUITES, Problem

RESULTS = Path(__file__).resolve().parent / "results"


@click.group()
def main() -> None:
    """Benchmarks of daskglm beside its rivals."""


@main.command()
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="spine", show_default=True)
@click.option("--data", multiple=True, help="Data sets, instead of the suite's; repeatable.")
@click.option("--rows", type=int, help="Rows of generated sets; others are cut to so many.")
@click.option("--contestant", multiple=True, type=click.Choice(sorted(CONTESTANTS)), help="Repeatable.")
@click.option("--repeats", type=int)
@click.option("--loss", multiple=True, type=click.Choice(LOSSES))
@click.option("--C", "c", multiple=True, type=float)
@click.option("--tol", multiple=True, type=float, help="Each contestant's own tolerance; repeatable.")
@click.option("--intercept/--no-intercept", default=False, help="Some rivals only know problems without.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Default: as generated or loaded.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--threads", type=int, help="Default: all processors this process may use.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds for one process.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: benchmarks/results/<date>-<suite>.jsonl")
@click.option("--quick", is_flag=True, help="The suite `quick`: small data, one repeat, about a minute.")
def run(suite: str, quick: bool, out: Path | None, **given: Any) -> None:
    """Run a suite; every run in a fresh process, contestants interleaved; JSON lines are appended."""
    from benchmarks.runner import run_suite

    name = "quick" if quick else suite
    names = {"data": "data", "contestant": "contestants", "loss": "losses", "c": "Cs", "tol": "tols"}
    chosen = {field: given[option] for option, field in names.items() if given[option]}
    chosen |= {"repeats": given["repeats"]} if given["repeats"] else {}
    plan = replace(SUITES[name], **chosen)
    plan = replace(plan, tols=tuple(sorted(plan.tols, reverse=True)))
    problems = plan.problems(
        limit=given["rows"], seed=given["seed"], dtype=given["dtype"], fit_intercept=given["intercept"]
    )
    out = out or RESULTS / f"{date.today()}-{name}.jsonl"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child in its own session ends too
    threads = given["threads"] or len(os.sched_getaffinity(0))
    run_suite(name, plan, problems, out, threads=threads, timeout=given["timeout"], say=click.echo)
    click.echo(f"appended to {out}; next: python -m benchmarks report {out}")


@main.command(hidden=True)
@click.argument("request")
def one(request: str) -> None:
    """Answer one request of the runner, a JSON object, by a line of JSON."""
    from benchmarks import one as process

    asked = json.loads(request)
    problem = Problem(**asked["problem"])
    if asked["what"] == "reference":
        record = process.reference(problem, asked["cache"])
    else:
        record = process.run(problem, asked["contestant"], asked["tol"], asked["threads"], asked["cache"])
    click.echo("\n" + json.dumps(record))


@main.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Default: benchmarks/results")
def report(files: tuple[Path, ...], out: Path | None) -> None:
    """Write tables (report.md) and plots of JSON lines; default: all in benchmarks/results."""
    from benchmarks.report import write

    files = files or tuple(sorted(RESULTS.glob("*.jsonl")))
    if not files:
        raise click.ClickException(f"no results in {RESULTS}; first: python -m benchmarks run")
    click.echo(f"wrote {write(files, out or RESULTS)}")


@main.command()
@click.option("--workers", type=int, multiple=True, help="Worker processes; repeatable. Default: 2.")
@click.option("--repeats", type=int, default=100, show_default=True)
@click.option("--size", type=int, multiple=True, help="Doubles each way; repeatable.")
def rounds(workers: tuple[int, ...], repeats: int, size: tuple[int, ...]) -> None:
    """Compare a bare exchange with all workers, in several ways, with a round of daskglm."""
    from benchmarks.rounds import SIZES, measure

    for count in workers or (2,):
        click.echo(measure(count, size or SIZES, repeats))


if __name__ == "__main__":
    main()
