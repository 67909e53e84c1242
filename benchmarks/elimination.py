"""Newton's method that eliminates large factors: passes, seconds, peak memory.

    python -m benchmarks.elimination [rows] [levels] [numbers] [second]
        [--counts] [--glum] [--pyfixest PYTHON]

Rows are drawn with a seed: levels by Zipf's law, so that many have few rows, and numbers; and
levels of a second factor, if there is one, all alike. The target is a class with a logit of all.
With `--counts` it is a count, and the factors are absorbed, without a penalty. With `--glum` that
package fits the same rows of classes in a process of its own, if it is installed; with
`--pyfixest` that one fits the counts, by the interpreter that has it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd

SEED = 7
# Strength of the penalty of each coefficient, over the sum of losses.
STRENGTH = 1.0


def table(n: int, levels: int, numbers: int, second: int, *, counts: bool) -> pd.DataFrame:
    """Draw the rows."""
    rng = np.random.default_rng(SEED)
    shares = 1.0 / np.arange(1.0, levels + 1.0) ** 0.7
    codes = rng.choice(levels, n, p=shares / shares.sum())
    codes[:levels] = np.arange(levels)[: min(n, levels)]
    X = rng.normal(size=(n, numbers))
    z = X @ rng.normal(size=numbers) / 5.0 + rng.normal(size=levels)[codes] - 1.0
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(numbers)])
    frame["level"] = pd.Categorical.from_codes(codes, names(levels))
    if second:
        others = rng.integers(0, second, n)
        frame["second"] = pd.Categorical.from_codes(others, names(second))
        z += rng.normal(size=second)[others] / 3.0
    if counts:
        frame["y"] = rng.poisson(np.exp(0.3 * z + 1.0)).astype(float)
    else:
        frame["y"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.int64)
    return frame


def names(levels: int) -> np.ndarray:
    """Return names of so many levels."""
    return np.array([f"level {k:07d}" for k in range(levels)])


def peak_mib() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def fit_daskglm(frame: pd.DataFrame, solver: str, numbers: int, *, counts: bool) -> None:
    """Fit and print a line."""
    import daskglm

    how = {"tol": 1e-9, "solver": solver, "C": np.inf if counts else 1.0 / STRENGTH}
    factors = [name for name in ("level", "second") if name in frame]
    if counts:
        how |= {"loss": "poisson", "schema": {"absorb": factors}}
        warnings.simplefilter("ignore", daskglm.LeftOutWarning)
    second = 1000 if "second" in frame else 0
    daskglm.fit(table(20_000, 3000, numbers, second, counts=counts), "y", **how)  # compiles
    before, began, cpu = peak_mib(), time.perf_counter(), time.process_time()
    model = daskglm.fit(frame, "y", **how)
    seconds, cpu, report = time.perf_counter() - began, time.process_time() - cpu, model.report_
    fitted = f"objective {report.objective:.10g}"
    fitted = f"coefficient {model.coef_[0]:.10g}" if counts else fitted
    print(
        f"daskglm {report.solver}: {report.passes:.1f} passes, {report.seconds:.2f} s to solve, "
        f"{seconds:.2f} in all ({cpu:.2f} of CPU), gap {report.relative_gap:.1e}, {fitted}, "
        f"{before:,.0f} MiB before, {peak_mib():,.0f} at its peak; {report.why}",
        flush=True,
    )
    if counts:
        began = time.perf_counter()
        found = model.inference(frame, "y", covariance="cluster", clusters="level")
        seconds = time.perf_counter() - began
        print(f"    inference by clusters: {seconds:.2f} s, error {found.bse.iloc[0]:.8g}")


def fit_pyfixest(frame: pd.DataFrame, numbers: int) -> None:
    """Fit counts by pyfixest, with clustered errors, and print a line."""
    import pyfixest

    second = 1000 if "second" in frame else 0
    of = " + ".join(["level", "second"] if second else ["level"])
    formula = f"y ~ {' + '.join(f'x{j}' for j in range(numbers))} | {of}"
    how = {"vcov": {"CRV1": "level"}, "ssc": pyfixest.ssc(k_fixef="full")}
    pyfixest.fepois(formula, data=table(20_000, 3000, numbers, second, counts=True), **how)
    before, began, cpu = peak_mib(), time.perf_counter(), time.process_time()
    model = pyfixest.fepois(formula, data=frame, **how)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"pyfixest: {seconds:.2f} s with inference ({cpu:.2f} of CPU), "
        f"coefficient {float(model.coef().iloc[0]):.10g}, error {float(model.se().iloc[0]):.8g}, "
        f"{before:,.0f} MiB before, {peak_mib():,.0f} at its peak",
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


def main(given: list[str]) -> None:
    """Run each contestant in a process of its own, whose memory is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[])
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--glum", action="store_true")
    parser.add_argument("--pyfixest", metavar="PYTHON")
    parser.add_argument("--only")
    chosen = parser.parse_args(given)
    sizes = [*chosen.sizes, *[1_000_000, 100_000, 30, 0][len(chosen.sizes) :]]
    if chosen.only:
        frame = table(*sizes, counts=chosen.counts)
        if chosen.only == "glum":
            fit_glum(frame)
        elif chosen.only == "pyfixest":
            fit_pyfixest(frame, sizes[2])
        else:
            fit_daskglm(frame, chosen.only, sizes[2], counts=chosen.counts)
        return
    shape = f"{sizes[0]:,} rows, {sizes[1]:,} levels, {sizes[2]} numbers"
    print(f"{shape}, a second factor of {sizes[3]:,}" if sizes[3] else shape, flush=True)
    contestants = {"newton": sys.executable, "auto": sys.executable}
    contestants |= {"glum": sys.executable} if chosen.glum else {}
    contestants |= {"pyfixest": chosen.pyfixest} if chosen.pyfixest else {}
    for each, python in contestants.items():
        command = [python, "-m", "benchmarks.elimination", *map(str, sizes), "--only", each]
        subprocess.run([*command, *(["--counts"] if chosen.counts else [])], check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
