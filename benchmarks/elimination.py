"""Newton's method that eliminates one large factor: passes, seconds, peak memory.

    python -m benchmarks.elimination [rows] [levels] [numbers] [--glum] [--poisson]

Rows are drawn with a seed: levels by Zipf's law, so that many have few rows, and numbers. The
target is a class with a logit of both. With `--glum` that package fits the same rows in a process
of its own, if it is installed. With `--poisson` the targets are counts, of which each level has one
at least, and fits have no penalty; pyfixest fits the same rows, if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pandas as pd

SEED = 7
# Strength of the penalty of each coefficient, over the sum of losses.
STRENGTH = 1.0


def table(n: int, levels: int, numbers: int, *, counts: bool = False) -> pd.DataFrame:
    """Draw the rows."""
    rng = np.random.default_rng(SEED)
    shares = 1.0 / np.arange(1.0, levels + 1.0) ** 0.7
    codes = rng.choice(levels, n, p=shares / shares.sum())
    codes[:levels] = np.arange(levels)[: min(n, levels)]
    X = rng.normal(size=(n, numbers))
    z = X @ rng.normal(size=numbers) / 5.0 + rng.normal(size=levels)[codes] - 1.0
    if counts:
        y = rng.poisson(np.exp(z)) + (np.arange(n) < levels)
    else:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.int64)
    names = np.array([f"level {k:07d}" for k in range(levels)])
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(numbers)])
    frame["level"] = pd.Categorical.from_codes(codes, names)
    frame["y"] = y
    return frame


def peak_mib() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def fit_daskglm(frame: pd.DataFrame, solver: str, *, counts: bool) -> None:
    """Fit and print a line."""
    import daskglm

    def fit(rows: pd.DataFrame) -> Any:
        if counts:
            model = daskglm.PoissonRegressor(alpha=0.0, tol=1e-9, solver=solver)
            return model.fit(rows, "y").report_
        return daskglm.fit(rows, "y", C=1.0 / STRENGTH, tol=1e-9, solver=solver).report_

    fit(table(20_000, 3000, len(frame.columns) - 2, counts=counts))  # compiles
    before, began, cpu = peak_mib(), time.perf_counter(), time.process_time()
    report = fit(frame)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"daskglm {report.solver}: {report.passes:.1f} passes, {report.seconds:.2f} s to solve, "
        f"{seconds:.2f} in all ({cpu:.2f} of CPU), gap {report.relative_gap:.1e}, "
        f"objective {report.objective:.10g}, "
        f"{before:,.0f} MiB before, {peak_mib():,.0f} at its peak; {report.why}",
        flush=True,
    )


def fit_glum(frame: pd.DataFrame) -> None:
    """Fit by glum's Newton-like solver and print a line."""
    import glum

    X, y = frame.drop(columns="y"), frame["y"].to_numpy(float)
    before, began = peak_mib(), time.perf_counter()
    model = glum.GeneralizedLinearRegressor(
        family="binomial",
        alpha=STRENGTH / len(y),
        l1_ratio=0.0,
        gradient_tol=1e-8,
        drop_first=False,
        scale_predictors=False,
    ).fit(X, y)
    seconds = time.perf_counter() - began
    z, w = model.linear_predictor(X), model.coef_
    value = float(np.logaddexp(0.0, z).sum() - y @ z) + 0.5 * STRENGTH * float(w @ w)
    print(
        f"glum: {model.n_iter_} iterations, {seconds:.2f} s, objective {value:.10g}, "
        f"{before:,.0f} MiB before, {peak_mib():,.0f} at its peak",
        flush=True,
    )


def fit_pyfixest(frame: pd.DataFrame) -> None:
    """Fit counts by pyfixest, which absorbs the levels, and print a line."""
    import pyfixest

    formula = f"y ~ {' + '.join(c for c in frame.columns if c not in ('level', 'y'))} | level"
    small = table(20_000, 3000, len(frame.columns) - 2, counts=True)
    pyfixest.fepois(formula, data=small)  # compiles
    before, began, cpu = peak_mib(), time.perf_counter(), time.process_time()
    model = pyfixest.fepois(formula, data=frame)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"pyfixest: {seconds:.2f} s ({cpu:.2f} of CPU), "
        f"objective {0.5 * float(model.deviance):.10g}, "
        f"{before:,.0f} MiB before, {peak_mib():,.0f} at its peak",
        flush=True,
    )


def main(given: list[str]) -> None:
    """Run each contestant in a process of its own, whose memory is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[])
    parser.add_argument("--glum", action="store_true")
    parser.add_argument("--poisson", action="store_true")
    parser.add_argument("--only")
    chosen = parser.parse_args(given)
    sizes = [*chosen.sizes, *[1_000_000, 100_000, 30][len(chosen.sizes) :]]
    if chosen.only:
        frame = table(*sizes, counts=chosen.poisson)
        others = {"glum": fit_glum, "pyfixest": fit_pyfixest}
        if chosen.only in others:
            others[chosen.only](frame)
        else:
            fit_daskglm(frame, chosen.only, counts=chosen.poisson)
        return
    if chosen.glum and chosen.poisson:
        parser.error("--glum fits classes: leave out --poisson")
    print(f"{sizes[0]:,} rows, {sizes[1]:,} levels, {sizes[2]} numbers", flush=True)
    has_other = chosen.poisson and importlib.util.find_spec("pyfixest") is not None
    beside = ["glum"] * chosen.glum + ["pyfixest"] * has_other
    for each in ("newton", "auto", *beside):
        command = [sys.executable, "-m", "benchmarks.elimination", *map(str, sizes)]
        command += ["--poisson"] * chosen.poisson
        subprocess.run([*command, "--only", each], check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
