"""The command line: `python -m benchmarks.papers.snap_ml FIGURE`, one command for each figure of
the paper.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.papers.snap_ml import figures, storage
from benchmarks.papers.snap_ml import held_out_loss as rivals
from benchmarks.papers.snap_ml.output import FOLDER

FIGURES: dict[str, Callable[..., Any]] = {
    "wild": figures.wild,
    "partitions": figures.partitions,
    "threads": figures.time_to_converge,
    "scaling": figures.scaling,
    "dealing": figures.dealing,
    "buckets": figures.buckets,
    "nodes": figures.nodes,
    "test-loss": rivals.test_loss,
    "pattern": storage.pattern,
    "shrinking": storage.shrinking,
    "roofline": storage.roofline,
}


@click.command(
    help="Measure a figure and write its table and picture.\n\n"
    + "\n\n".join(
        f"{name}: {(function.__doc__ or '').splitlines()[0]}" for name, function in FIGURES.items()
    )
)
@click.argument("figure", type=click.Choice([*FIGURES, "all"]))
@click.option("--rows", type=int, help="Rows of the generated data; default: by figure.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Of what is timed."
)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Default: all processors this process may use."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=FOLDER,
    help="Default: benchmarks/results/sdca",
)
def main(figure: str, rows: int | None, repeats: int, threads: int | None, out: Path) -> None:
    """Measure and write."""
    count = threads or len(os.sched_getaffinity(0))
    for name in FIGURES if figure == "all" else (figure,):
        click.echo(f"wrote {FIGURES[name](rows, repeats, count).write(out)}")


if __name__ == "__main__":
    main()
