"""`make demo`: `python -m benchmarks.demo`."""

from __future__ import annotations

import importlib
import logging
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
from distributed import Client, LocalCluster

from benchmarks.demo import flights, page, pictures, problem, sides
from benchmarks.demo.page import Figure

# What daskglm says of compiling in other processes is left out: it is said here.
QUIET = logging.getLogger("daskglm").setLevel, (logging.ERROR,)


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="CSV or Parquet (last column: class) or svmlight file of two classes.",
)
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=Path))
def main(data: Path | None, out: Path) -> None:
    """Fit delays of flights on two workers and by scikit-learn; write a page of pictures.

    With --data a file of yours takes the place of the flights.
    """
    warnings.filterwarnings("ignore", message="Sending large graph")
    with ProcessPoolExecutor(1, get_context("spawn"), *QUIET) as pool:
        # what both compile, where the disk has none, is compiled at the same time
        beside = pool.submit(flights.counts) if data is None else None
        asked = flights.flights() if data is None else problem.from_file(data)
        click.echo(f"{asked.title}: {len(asked.y):,} rows. {asked.question}")
        if asked.dropped:
            click.echo(f"left out, as dates or names of rows: {', '.join(asked.dropped)}")
        ours, first, more = _on_a_cluster(asked, beside)
    bound = sides.bound_of(ours)
    fitted = [ours]
    click.echo("scikit-learn's pipeline: with its own tolerance")
    fitted.append(sides.by_scikit_learn(asked, "scikit-learn, default tol"))
    # on the flights lbfgs takes 5 to 15 s, most of the demonstration
    for solver in ("newton-cg",) if data is None else ("lbfgs", "newton-cg"):
        until = f"until it is as near the optimum, or takes {sides.PATIENCE:.0f} s"
        click.echo(f"scikit-learn's pipeline: {solver}, {until}")
        fitted.append(sides.to_the_same(asked, bound, f"scikit-learn, {solver}", solver))

    click.echo(f"\na first fit took {first:.1f} s: what is not on the disk yet was compiled")
    click.echo(f"{ours.model.report_}\n")
    table = page.rows_of(fitted, asked.later[1], bound)
    for row in table:
        click.echo(f"{row[0]:<24}" + "".join(f"{text.split(', ')[-1]:>14}" for text in row[1:]))

    clocks = Figure(
        "From raw table to probabilities",
        pictures.clocks(fitted, bound),
        "Reading levels, fitting, and (pale) predicting rows that were held out, of one model; and "
        "how far above the optimum it may be, relative to it.",
    )
    hero, figures, shown = (
        _of_any(fitted, asked.later[1], bound)
        if more is None
        else _of_flights(fitted, bound, *more)
    )
    out.mkdir(parents=True, exist_ok=True)
    target = out / "index.html"
    figures.insert(1, clocks)
    written = page.write(fitted, asked, bound, hero, figures, shown)
    target.write_text(written, encoding="utf-8")
    click.echo(f"\npictures: {target}")


def _on_a_cluster(
    asked: problem.Problem, beside: Future[Any] | None
) -> tuple[sides.Side, float, tuple[sides.Side, flights.Counts] | None]:
    """Fit twice on two workers, the second time when what is done `beside` the first has ended.

    Returns the second fit, the seconds of the first, and for the flights a third fit, in which the
    ranks of aircraft have settled, and what was done beside.
    """
    click.echo("two workers: starting; a first fit compiles what is not on the disk yet")
    start = time.perf_counter()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(QUIET[0], *QUIET[1])
        client.run(importlib.import_module, "daskglm.frames.take")
        sides.by_daskglm(client, asked)
        first = time.perf_counter() - start
        counted = None if beside is None else beside.result()
        click.echo("two workers: from the raw table")
        ours = sides.by_daskglm(client, asked)
        if counted is None:
            return ours, first, None
        click.echo(f"two workers: until the order of aircraft has settled, {sides.SETTLED:g}")
        return ours, first, (sides.by_daskglm(client, asked, sides.SETTLED), counted)


Shown = tuple[tuple[str, str], list[Figure], tuple[str, str] | None]


def _of_flights(
    fitted: Sequence[sides.Side], bound: float, settled: sides.Side, counted: flights.Counts
) -> Shown:
    """The number of the page, and what is shown beside the clocks: the worst aircraft, hours."""
    ours, early = fitted[:2]
    radius = sides.radius_of(settled)
    listed = flights.aircraft(settled.coefficients, early.coefficients, radius)
    number = f"{len(listed.wrong)} of {flights.LISTED}"
    said = ". It says that it has converged" if early.converged else ". It warns"
    hero = (
        f"aircraft on scikit-learn's list of those that are late most do not belong there{said}, "
        f"and is {early.above(bound):.0e} above the optimum. From the raw table of strings, on two "
        f"workers, daskglm came within {ours.above(bound):.0e} of it in {ours.total:.1f} s, and in "
        f"{settled.total:.1f} s so near that the list is settled. Both are proved."
    )
    figures = [
        Figure(
            f"The {flights.LISTED} aircraft to look at first",
            pictures.ranks(listed.optimum, listed.early, flights.LISTED),
            "By their coefficients, on the left proved to be within "
            f"{radius:.0e} of the optimum's. Orange: not on the other's list. Ranks of single "
            "levels settle long after the probabilities have.",
        ),
        Figure(
            "Late by the hour",
            pictures.effect(counted.by_hour),
            f"A Poisson model of {counted.rows:,} counts: a spline of the hour, for the commonest "
            "airline, airport and month, with 95 % intervals by robust standard errors.",
        ),
    ]
    return (number, hero), figures, ("The Poisson model", str(counted.result.summary()))


def _of_any(fitted: Sequence[sides.Side], y: Any, bound: float) -> Shown:
    """The number of the page, and what is shown beside the clocks, for a file of the user."""
    ours = fitted[0]
    equal = [side for side in fitted[2:] if side.above(bound) <= sides.TOL]
    proved = f"{ours.above(bound):.0e}"
    if equal:
        rival = min(equal, key=lambda side: side.total)
        number = f"{rival.total / ours.total:.1f}"
        hero = (
            f"times the speed of {rival.name}, to the same objective: {ours.total:.1f} s from the "
            f"raw table to probabilities. No model's objective is lower by {proved} of it: that "
            "is proved, not estimated."
        )
    else:
        number = proved
        hero = (
            "of the objective is what any model could be lower by: that is proved, in "
            f"{ours.total:.1f} s from the raw table to probabilities. No solver of scikit-learn's, "
            f"tightened until a fit took {sides.PATIENCE:.0f} s, came within {sides.TOL:.0e}; the "
            "nearest one is off by "
            f"{min(side.above(bound) for side in fitted[1:]):.0e}."
        )
    figures = [
        Figure(
            "Largest coefficients",
            pictures.coefficients(ours.coefficients),
            "To the right: what makes the second class more likely.",
        ),
        Figure(
            "Calibration",
            pictures.calibration(fitted[:2], y),
            "Of rows that were held out: as often as predicted?",
        ),
    ]
    return (number, hero), figures, None


if __name__ == "__main__":
    main()
