"""`make demo`: `python -m benchmarks.demo`."""

from __future__ import annotations

import importlib
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import click
from distributed import Client, LocalCluster

import daskglm
from benchmarks.demo import page, problem, sides


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="svmlight or CSV (last column: class) file of two classes, instead of the flights.",
)
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=Path))
def main(data: Path | None, out: Path) -> None:
    """Fit delays of flights on two workers and by scikit-learn; write a page of pictures."""
    warnings.filterwarnings("ignore", message="Sending large graph")
    # scikit-learn's encoder says nothing of such rows either
    warnings.filterwarnings("ignore", category=daskglm.UnseenLevelWarning)
    start = time.perf_counter()
    asked = problem.flights() if data is None else problem.from_file(data)
    reading = time.perf_counter() - start
    click.echo(f"{asked.title}: {len(asked.y):,} rows. {asked.question}")

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        board = f"; its dashboard: {client.dashboard_link}" if find_spec("bokeh") else ""
        click.echo(f"a cluster of two workers{board}")
        # as here, libraries are imported before the clock starts
        client.run(importlib.import_module, "daskglm.frames.take")
        ours = sides.by_daskglm(client, asked)
    theirs, encoder = sides.by_scikit_learn(asked)

    fitted = [ours, theirs]
    for side in fitted:
        side.seconds["loading"] = side.seconds.get("loading", 0.0) + reading
    bound = sides.judge(ours, theirs, encoder, asked)
    usual = [f"column {j}" for j in range(ours.model.n_features_in_)]
    names = list(getattr(ours.model, "feature_names_out_", usual))

    first = ours.seconds[sides.FIRST_FIT]
    click.echo(f"\na first fit, which compiles kernels (once per machine): {first:.2f} s")
    click.echo(f"{ours.model.report_}\n")
    for row in page.rows_of(fitted, asked.y[len(asked.y) - asked.held_out :], bound):
        click.echo(f"{row[0]:<28}" + "".join(f"{text:>22}" for text in row[1:]))

    out.mkdir(parents=True, exist_ok=True)
    target = out / "index.html"
    target.write_text(page.write(fitted, asked, names, bound), encoding="utf-8")
    click.echo(f"\nfour pictures: {target}")


if __name__ == "__main__":
    main()
