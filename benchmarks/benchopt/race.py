"""`python -m benchmarks.benchopt.race FOLDER`: the benchmarks of benchopt in FOLDER, as tables.

Each of benchmark_lasso, benchmark_logreg_l1, benchmark_logreg_l2 and benchmark_ridge that is there
is given our solver and the real sets, and run by the benchopt of this Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = (1e-3, 1e-6)


class Race(NamedTuple):
    """What is run of a benchmark, as benchopt selects it."""

    benchmark: str
    objective: str
    data: tuple[str, ...]
    solvers: tuple[str, ...]


def _real(*names: str) -> tuple[str, ...]:
    return tuple(f"real[set={name}]" for name in names)


L1 = "*[fit_intercept=False,reg=[0.1,0.01]]"
L1_DATA = ("simulated", *_real("ALLAML", "rcv1_binary", "news20_text"))
L1_SOLVERS = ("daskglm", "celer", "skglm", "sklearn")
OURS = "daskglm[solver=auto]"
L2_SOLVERS = (OURS, *(f"sklearn[solver={name}]" for name in ("liblinear", "lbfgs", "newton-cg")))
RACES = (
    Race("lasso", L1, L1_DATA, L1_SOLVERS),
    Race("logreg_l1", L1, L1_DATA, L1_SOLVERS),
    # its Hessian would not fit in memory with the columns of texts
    Race(
        *("logreg_l2", "*", ("simulated", *_real("covtype15k"))),
        (*L2_SOLVERS, "sklearn[solver=newton-cholesky]"),
    ),
    Race("logreg_l2", "*", _real("rcv1_binary", "news20_text"), L2_SOLVERS),
    Race("ridge", "*", ("simulated", *_real("ALLAML")), (OURS, "sklearn")),
)


def run(race: Race, folder: Path, data: list[str], repeats: int, limit: float) -> pd.DataFrame:
    """Run a benchmark with our solver and the real sets; return the points of its curves."""
    shutil.copy(HERE / f"{race.benchmark}.py", folder / "solvers" / "daskglm_solver.py")
    shutil.copy(HERE / "real_sets.py", folder / "datasets")
    out = folder / "outputs" / "daskglm.parquet"
    out.unlink(missing_ok=True)
    options = [f"--n-repetitions={repeats}", f"--timeout={limit:g}", f"--output={out.stem}"]
    options += ["--no-cache", "--no-plot", f"--objective={race.objective}"]
    options += [f"--solver={solver}" for solver in race.solvers]
    options += [f"--dataset={each}" for each in data]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [str(Path(sys.executable).with_name("benchopt")), "run", str(folder), *options]
    said = {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, check=True, env=os.environ | said, stdout=sys.stderr)
    return pd.read_parquet(out)


def table(points: pd.DataFrame) -> str:
    """Return a line for each problem and solver: seconds to each target, and the least excess."""
    lines = [
        "| data | objective | solver | s to 1e-3 | s to 1e-6 | least excess |",
        "|---" * 6 + "|",
    ]
    for (data, objective), problem in points.groupby(["data_name", "objective_name"], sort=False):
        best = problem["objective_value"].min()
        for solver, curve in problem.groupby("solver_name", sort=False):
            stops = curve.groupby("stop_val")
            excess = stops["objective_value"].max() / best - 1.0
            seconds = stops["time"].median()
            reached = [seconds[excess <= target].min() for target in TARGETS]
            cells = " | ".join("-" if pd.isna(each) else f"{each:.3g}" for each in reached)
            lines.append(f"| {data} | {objective} | {solver} | {cells} | {excess.min():.0e} |")
    return "\n".join(lines)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--only", multiple=True, help="Names of benchmarks; repeatable. Default: all.")
@click.option("--data", "wanted", multiple=True, help="Parts of names of data. Default: all.")
@click.option("--repeats", default=5, show_default=True)
@click.option("--limit", default=60.0, show_default=True, help="Seconds of a solver's curve.")
def main(
    folder: Path, only: tuple[str, ...], wanted: tuple[str, ...], repeats: int, limit: float
) -> None:
    """Run benchmarks with celer, skglm and scikit-learn where they take part."""
    for race in RACES:
        where = folder / f"benchmark_{race.benchmark}"
        data = [each for each in race.data if any(word in each for word in wanted or ("",))]
        if where.exists() and data and race.benchmark in (only or (race.benchmark,)):
            found = table(run(race, where, data, repeats, limit))
            click.echo(f"## {race.benchmark}\n\n{found}\n")


if __name__ == "__main__":
    sys.exit(main())
