"""`python -m benchmarks`: run a suite, report on it, measure rounds and starts."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from benchmarks.contestants import LOSSES, select
from benchmarks.suites.definitions import QUICK_ROWS, QUICK_TOLS, SUITES, Case, Suite

RESULTS = Path(__file__).resolve().parent / "results"
DRAWN = ("mixed", "random")  # suites of problems that are drawn
MEASURED_APART = {"papers": "benchmarks.papers.suite", "scaling": "benchmarks.scaling.strong"}


@click.group()
def main() -> None:
    """Benchmarks of daskglm beside its rivals."""


def _words(_context: Any, _option: Any, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of contestants and packages, with commas or repeated options between them."""
    words = tuple(word for text in given for word in text.split(",") if word)
    try:
        select(words, ())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return words


@main.command()
@click.option(
    "--suite",
    type=click.Choice(sorted([*SUITES, *MEASURED_APART, *DRAWN])),
    help="Default: spine.",
)
@click.option("--data", multiple=True, help="Data sets, instead of the suite's; repeatable.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    help="Of the data files; else DASKGLM_DATA.",
)
@click.option("--rows", type=int, help="Rows of generated sets; others are cut to so many.")
@click.option(
    "--peers",
    multiple=True,
    callback=_words,
    help='Contestants or packages, or "all"; commas between them.',
)
@click.option("--repeats", type=int)
@click.option("--loss", multiple=True, type=click.Choice(LOSSES))
@click.option("--C", "c", multiple=True, type=float)
@click.option(
    "--tol", multiple=True, type=float, help="Each contestant's own tolerance; repeatable."
)
@click.option(
    "--intercept/--no-intercept", default=False, help="Some rivals only know problems without."
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), help="Default: as generated or loaded."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    help="Problems of the suites `mixed` and `random`. Default: 200.",
)
@click.option(
    "--draw-mb",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Largest drawn problem, in MiB of rows.",
)
@click.option(
    "--cpu",
    is_flag=True,
    help="Of drawn problems: CPU seconds of all threads, for machines that others use.",
)
@click.option("--threads", type=int, help="Default: all processors this process may use.")
@click.option(
    "--timeout", type=float, default=300.0, show_default=True, help="Seconds for one process."
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Folder that keeps data and optima for later runs.",
)
@click.option(
    "--lock", type=click.Path(path_type=Path), help="File whose lock each process holds (flock)."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Default: benchmarks/results/<date>-<suite>.jsonl",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Few rows, one tolerance, one repeat; without --suite: about a minute.",
)
def run(suite: str | None, quick: bool, out: Path | None, **given: Any) -> None:
    """Run a suite; every run in a fresh process, contestants interleaved; JSON lines are appended.

    `papers` and `scaling` write tables of their own; of the options they take --folder, --quick,
    --repeats, --lock and --out, a folder. `random` and `mixed` draw problems and compare `auto`
    with every solver by name; they take --draws, --seed, --draw-mb, --cpu, --tol (one), --repeats,
    --threads, --timeout (for one fit), --lock, --quick and --out.
    """
    name = suite or ("quick" if quick else "spine")
    if given["folder"]:
        os.environ["DASKGLM_DATA"] = given["folder"]
    # so that the child in its own session ends too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if name in MEASURED_APART:
        _run_apart(name, quick, out, given)
        return
    if name in DRAWN:
        _run_drawn(name, quick, out, given)
        return
    from benchmarks.suites.runner import Conditions, run_suite

    plan = _plan(SUITES[name], given)
    if quick and name != "quick":
        plan = replace(plan, repeats=given["repeats"] or 1, tols=given["tol"] or QUICK_TOLS)
        given["rows"] = given["rows"] or QUICK_ROWS
    problems = plan.problems(
        limit=given["rows"],
        seed=given["seed"],
        dtype=given["dtype"],
        fit_intercept=given["intercept"],
        peers=given["peers"],
    )
    out = out or RESULTS / f"{date.today()}-{name}.jsonl"
    threads = given["threads"] or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="daskglm-benchmarks-") as scratch:
        cache = given["cache"] or Path(scratch)
        cache.mkdir(parents=True, exist_ok=True)
        conditions = Conditions(threads, given["timeout"], str(cache), given["lock"])
        run_suite(name, plan, problems, out, conditions, say=click.echo)
    click.echo(f"appended to {out}; next: python -m benchmarks report {out}")


def _plan(suite: Suite, given: dict[str, Any]) -> Suite:
    """Return the suite with the changes of the command line."""
    cases = suite.cases
    if given["data"]:
        by_name = {case.data: case for case in cases}
        cases = tuple(
            by_name.get(name, Case(name, contestants=suite.cases[0].contestants))
            for name in given["data"]
        )
    if given["c"]:
        cases = tuple(replace(case, Cs=given["c"]) for case in cases)
    changed: dict[str, Any] = {"cases": cases}
    if given["loss"]:
        changed["losses"] = given["loss"]
    if given["tol"]:
        changed["tols"] = tuple(sorted(given["tol"], reverse=True))
    if given["repeats"]:
        changed["repeats"] = given["repeats"]
    return replace(suite, **changed)


def _run_drawn(name: str, quick: bool, out: Path | None, given: dict[str, Any]) -> None:
    from benchmarks.suites import drawn

    limits = drawn.Limits(
        most_bytes=drawn.QUICK_BYTES if quick else given["draw_mb"] << 20,
        tol=min(given["tol"], default=drawn.TOL),
        repeats=given["repeats"] or (1 if quick else drawn.REPEATS),
        threads=given["threads"] or len(os.sched_getaffinity(0)),
        seconds=given["timeout"],
        cpu=given["cpu"],
    )
    draws = given["draws"] or (drawn.QUICK_DRAWS if quick else drawn.DRAWS)
    out = out or RESULTS / f"{date.today()}-{name}-{given['seed']}.jsonl"
    page = drawn.run(name, out, draws, given["seed"], limits, given["lock"], click.echo)
    click.echo(f"appended to {out}; wrote {page}")


def _run_apart(name: str, quick: bool, out: Path | None, given: dict[str, Any]) -> None:
    import importlib

    module = importlib.import_module(MEASURED_APART[name])
    module.run(
        out or RESULTS / name,
        quick=quick,
        repeats=given["repeats"],
        lock=given["lock"],
        say=click.echo,
    )


@main.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Default: benchmarks/results")
def report(files: tuple[Path, ...], out: Path | None) -> None:
    """Write tables (report.md) and plots of JSON lines; default: all in benchmarks/results."""
    from benchmarks.reports.page import write

    files = files or tuple(sorted(RESULTS.glob("*.jsonl")))
    if not files:
        raise click.ClickException(f"no results in {RESULTS}; first: python -m benchmarks run")
    click.echo(f"wrote {write(files, out or RESULTS)}")


@main.command()
@click.option(
    "--workers", type=int, multiple=True, help="Worker processes; repeatable. Default: 2."
)
@click.option("--repeats", type=int, default=100, show_default=True)
@click.option("--size", type=int, multiple=True, help="Doubles each way; repeatable.")
def rounds(workers: tuple[int, ...], repeats: int, size: tuple[int, ...]) -> None:
    """Compare a bare exchange with all workers, in several ways, with a round of daskglm."""
    from benchmarks.scaling.rounds import SIZES, measure

    for count in workers or (2,):
        click.echo(measure(count, size or SIZES, repeats))


@main.command()
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--lock", type=click.Path(path_type=Path), help="File whose lock each repeat holds (flock)."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Default: benchmarks/results/startup.md"
)
def startup(repeats: int, lock: Path | None, out: Path | None) -> None:
    """Take the CPU time of imports and first fits in fresh processes; write a Markdown page."""
    from benchmarks.machine.startup import measure, page

    out = out or RESULTS / "startup.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(measure(repeats, lock, click.echo), repeats))
    click.echo(out.read_text())


if __name__ == "__main__":
    main()
