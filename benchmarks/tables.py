"""`python -m benchmarks.tables`: regressions of a table with text, beside glum and scikit-learn.

The table has factors alone; what turns it into what a package fits is counted. Each contestant has
a process of its own, in turns; memory is the peak of that process over what it had before its fit,
with everything imported and compiled. All are asked for the same objective, and told by how much
theirs lies above the lowest found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from statistics import median
from typing import Any

import click
import numpy as np
import pandas as pd
import psutil

# Levels of the factors: 315 columns of ones.
LEVELS = (100, 60, 50, 40, 25, 15, 12, 8, 5)
ALPHA = 1e-4
FAMILIES = ("poisson", "gamma")
CONTESTANTS = ("daskglm", "glum", "scikit-learn")
# Seconds between two looks at the memory of a process.
LOOK = 0.002


def problem(rows: int, family: str, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return the table, targets and exposures."""
    rng = np.random.default_rng(seed)
    columns, margin = {}, np.full(rows, -1.0)
    for j, count in enumerate(LEVELS):
        codes = rng.choice(count, rows, p=rng.dirichlet(np.full(count, 2.0)))
        columns[f"f{j}"] = np.array([f"level {k:03d}" for k in range(count)])[codes]
        margin += 0.2 * rng.normal(size=count)[codes]
    exposure = 0.1 + rng.random(rows)
    if family == "poisson":
        y: np.ndarray = rng.poisson(np.exp(margin) * exposure).astype(float)
    else:
        y = rng.gamma(2.0, np.exp(margin) / 2.0)
    return pd.DataFrame(columns, dtype="str"), y, exposure


def daskglm(frame: Any, y: Any, exposure: Any, family: str) -> Any:
    """Fit the table as it is."""
    import daskglm as package

    model = package.GeneralizedLinearRegressor(family, link="log", alpha=ALPHA, tol=1e-9)
    return model.fit(frame, y, exposure=exposure if family == "poisson" else None)


def glum(frame: Any, y: Any, exposure: Any, family: str) -> Any:
    """Fit the table once its text is categorical, which glum wants."""
    import glum as package

    model = package.GeneralizedLinearRegressor(
        family=family, link="log", alpha=ALPHA, l1_ratio=0, gradient_tol=1e-7
    )
    offset = np.log(exposure) if family == "poisson" else None
    return model.fit(frame.astype("category"), y, offset=offset)


def sklearn(frame: Any, y: Any, exposure: Any, family: str) -> Any:
    """Fit a pipeline; exposures are weights of rates, which is the same objective but a factor."""
    from sklearn.linear_model import GammaRegressor, PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if family == "gamma":
        model = GammaRegressor(alpha=ALPHA, tol=1e-7, max_iter=1000)
        return make_pipeline(OneHotEncoder(), model).fit(frame, y)
    # weights are normalised there
    alpha = ALPHA / float(exposure.mean())
    model = PoissonRegressor(alpha=alpha, tol=1e-7, max_iter=1000)
    pipeline = make_pipeline(OneHotEncoder(), model)
    return pipeline.fit(frame, y / exposure, poissonregressor__sample_weight=exposure)


FITS = {"daskglm": daskglm, "glum": glum, "scikit-learn": sklearn}


def objective(model: Any, frame: Any, y: Any, exposure: Any, family: str) -> float:
    """Return the mean loss and penalty of coefficients, in the order of one-hot columns."""
    last = model[-1] if hasattr(model, "steps") else model
    coef, z = np.asarray(last.coef_), np.full(len(y), float(last.intercept_))
    first = 0
    for name, count in zip(frame.columns, LEVELS, strict=True):
        codes, levels = pd.factorize(frame[name], sort=True)
        assert len(levels) == count
        z += coef[first : first + count][codes]
        first += count
    penalty = 0.5 * ALPHA * float(coef @ coef)
    if family == "poisson":
        z += np.log(exposure)
        return float(np.mean(np.exp(z) - y * z)) + penalty
    return float(np.mean(y * np.exp(-z) + z)) + penalty


def one(contestant: str, rows: int, family: str, seed: int) -> dict[str, Any]:
    """Fit once in this process, after a small fit that imports and compiles."""
    warm = problem(2000, family, seed)
    FITS[contestant](*warm, family)
    data = problem(rows, family, seed)
    process, peak, done = psutil.Process(), [0], threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        while not done.wait(LOOK):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    model = FITS[contestant](*data, family)
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return {
        "contestant": contestant,
        "family": family,
        "seconds": seconds,
        "megabytes": (peak[0] - before) / 2**20,
        "objective": objective(model, *data, family),
    }


@click.command()
@click.option("--rows", default=600_000, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", hidden=True, nargs=2)
def main(rows: int, repeats: int, seed: int, only: tuple[str, str] | None) -> None:
    """Compare seconds, peaks of memory and objectives."""
    if only:
        click.echo(json.dumps(one(*only[:1], rows, only[1], seed)))
        return
    names = {"daskglm": "daskglm", "glum": "glum", "scikit-learn": "scikit-learn"}
    versions = ", ".join(f"{name} {version(package)}" for name, package in names.items())
    click.echo(
        f"{rows:,} rows, {len(LEVELS)} factors, {sum(LEVELS)} columns, seed {seed}; {versions}"
    )
    for family in FAMILIES:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS}
        for _ in range(repeats):
            for name in CONTESTANTS:
                command = [sys.executable, "-m", "benchmarks.tables", "--rows", str(rows)]
                command += ["--seed", str(seed), "--only", name, family]
                said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                runs[name].append(json.loads(said.splitlines()[-1]))
        least = min(run["objective"] for each in runs.values() for run in each)
        ours = median(run["seconds"] for run in runs["daskglm"])
        for name, each in runs.items():
            seconds = median(run["seconds"] for run in each)
            above = max(run["objective"] for run in each) / abs(least) - least / abs(least)
            click.echo(
                f"{family:8} {name:13} {seconds:7.3f} s (x{seconds / ours:.1f})  "
                f"{median(run['megabytes'] for run in each):7.1f} MB  {above:.1e} above the lowest"
            )


if __name__ == "__main__":
    main()
