"""`python -m benchmarks.inference`: standard errors of a logit, beside statsmodels and glum.

Each contestant and covariance has a process of its own, whose peak of memory is that of the fit and
the inference beyond what was there before: imports, compiled kernels, and the rows.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil

COVARIANCES = ("classical", "HC1", "cluster")
# Clusters, and rows of one at least.
MOST_CLUSTERS, OF_CLUSTER = 100_000, 10
# Rows of a first fit, which compiles and imports.
WARM_UP = 2000


def problem(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, classes and clusters, which are scattered over the rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns))
    w = rng.standard_normal(columns) / 4.0
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-X @ w))).astype(float)
    # glum wants clusters that are numbered without gaps
    drawn = rng.integers(0, min(MOST_CLUSTERS, rows // OF_CLUSTER), rows)
    clusters = np.unique(drawn, return_inverse=True)[1]
    return X, y, clusters


def daskglm(X: Any, y: Any, clusters: Any, covariance: str) -> tuple[float, Any]:
    """Return the seconds of the fit, and standard errors of the columns."""
    import daskglm as package

    began = time.perf_counter()
    model = package.LogisticRegression(C=np.inf).fit(X, y)
    seconds = time.perf_counter() - began
    of = clusters if covariance == "cluster" else None
    found = model.inference(X, y, covariance=covariance, clusters=of)
    return seconds, found.bse.to_numpy()[:-1]


def statsmodels(X: Any, y: Any, clusters: Any, covariance: str) -> tuple[float, Any]:
    """Return the same of its GLM, which fits and infers at once."""
    import statsmodels.api as package

    how = {
        "classical": {},
        "HC1": {"cov_type": "HC1"},
        "cluster": {"cov_type": "cluster", "cov_kwds": {"groups": clusters}},
    }[covariance]
    constant = np.column_stack([X, np.ones(len(y))])
    fit = package.GLM(y, constant, family=package.families.Binomial()).fit(**how)
    return float("nan"), np.asarray(fit.bse)[:-1]


def glum(X: Any, y: Any, clusters: Any, covariance: str) -> tuple[float, Any]:
    """Return the same of glum, whose standard errors have one more factor."""
    from glum import GeneralizedLinearRegressor

    began = time.perf_counter()
    model = GeneralizedLinearRegressor(family="binomial", alpha=0, gradient_tol=1e-6).fit(X, y)
    seconds = time.perf_counter() - began
    how = {
        "classical": {"robust": False},
        "HC1": {"robust": True},
        "cluster": {"clusters": clusters},
    }[covariance]
    return seconds, np.asarray(model.std_errors(X=X, y=y, **how))[1:]


CONTESTANTS: dict[str, Callable[..., tuple[float, Any]]] = {
    "daskglm": daskglm,
    "statsmodels": statsmodels,
    "glum": glum,
}


@click.group()
def main() -> None:
    """Inference beside other packages."""


@main.command()
@click.argument("contestant")
@click.argument("covariance")
@click.option("--rows", type=int, required=True)
@click.option("--columns", type=int, required=True)
def one(contestant: str, covariance: str, rows: int, columns: int) -> None:
    """Fit and infer once, and print a line of JSON."""
    work = CONTESTANTS[contestant]
    X, y, clusters = problem(rows, columns)
    work(*problem(WARM_UP, columns), covariance)
    # the peak counts from here, not from the making of the rows (Linux)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = psutil.Process().memory_info().rss / 2**20, time.perf_counter()
    fit, errors = work(X, y, clusters, covariance)
    seconds = time.perf_counter() - began
    found = {"seconds": seconds, "fit": fit, "peak": _peak() - before, "errors": errors.tolist()}
    print(json.dumps(found))


@main.command()
@click.option("--rows", type=int, default=1_000_000)
@click.option("--columns", type=int, default=30)
@click.option("--contestant", "names", multiple=True, default=tuple(CONTESTANTS))
def run(rows: int, columns: int, names: tuple[str, ...]) -> None:
    """Run the contestants, and print a table in Markdown."""
    click.echo(f"Logistic regression, {rows:,} x {columns}, float64; fit and inference.\n")
    click.echo(
        "| covariance | contestant | seconds | of it the fit | peak, MiB | largest difference |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- |")
    for covariance in COVARIANCES:
        ours: Any = None
        for name in names:
            found = _measure(name, covariance, rows, columns)
            if found is None:
                click.echo(f"| {covariance} | {name} | ended without a result | | | |")
                continue
            errors = np.array(found["errors"])
            ours = errors if ours is None else ours
            apart = np.abs(errors / ours - 1.0).max()
            click.echo(
                f"| {covariance} | {name} | {found['seconds']:.2f} | {found['fit']:.2f} | "
                f"{found['peak']:.0f} | {apart:.1e} |"
            )


def _measure(name: str, covariance: str, rows: int, columns: int) -> dict[str, Any] | None:
    """Return what a contestant's process prints; None if it ended without, as for memory."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.inference", "one"]
    command += [name, covariance, "--rows", str(rows), "--columns", str(columns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[0]) if lines else None


def _peak() -> float:
    """Return the largest resident size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


if __name__ == "__main__":
    main()
