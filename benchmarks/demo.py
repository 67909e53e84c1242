"""What `make demo` runs: two data sets on a cluster of two workers, beside scikit-learn, with a
report and a plot.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import click
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import daskglm
from benchmarks.datasets.problems import higgs_like_dask
from benchmarks.suites.evaluate import objective

PARTITIONS, HELD_OUT = 10, 2  # the last two tenths of the rows are not trained on


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="svmlight or CSV (last column: label) file.",
)
@click.option("--rows", default=1_000_000, show_default=True, help="Rows of the HIGGS-shaped set.")
@click.option("--out", default="demo-output", show_default=True, type=click.Path(path_type=Path))
def main(data: Path | None, rows: int, out: Path) -> None:
    """Fit a real data set and a HIGGS-shaped one, and show how well it went."""
    out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", message="Sending large graph")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        click.echo(
            f"a cluster of {len(client.nthreads())} workers is up at {client.scheduler.address}\n"
        )
        fitted = {}
        for name, X, y in (_real(data), _higgs(rows)):
            fitted[name] = _show(name, X, y)
    picture = out / "convergence.png"
    _plot(fitted, picture)
    click.echo(f"convergence plot: {picture}")


def _real(path: Path | None) -> tuple[str, da.Array, da.Array]:
    """Return the user's file, or scikit-learn's breast cancer data with standardised columns."""
    if path is None:
        from sklearn.datasets import load_breast_cancer
        from sklearn.preprocessing import StandardScaler

        X, y = load_breast_cancer(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        rows = -(-len(y) // PARTITIONS)
        X = StandardScaler().fit_transform(X)[order]
        return (
            "breast_cancer",
            da.from_array(X, chunks=(rows, X.shape[1])),
            da.from_array(y[order], chunks=rows),
        )
    if path.suffix == ".csv" or path.name.endswith(".csv.gz"):
        import pandas as pd

        frame = pd.read_csv(path)
        X = frame.iloc[:, :-1].to_numpy(dtype=float)
        y = frame.iloc[:, -1].to_numpy()
    else:
        X, y = dask.compute(*daskglm.read_svmlight(str(path)))
    order = np.random.default_rng(0).permutation(len(y))  # files are often sorted by label
    rows = -(-len(y) // PARTITIONS)
    blocks = [dask.delayed(X[order[a : a + rows]]) for a in range(0, len(y), rows)]
    sizes = [len(order[a : a + rows]) for a in range(0, len(y), rows)]
    parts = [
        da.from_delayed(b, (n, X.shape[1]), X.dtype) for b, n in zip(blocks, sizes, strict=True)
    ]
    return path.name, da.concatenate(parts), da.from_array(y[order], chunks=rows)


def _higgs(rows: int) -> tuple[str, Any, str]:
    return f"HIGGS-shaped, {rows:,} rows", higgs_like_dask(rows, PARTITIONS), "label"


def _cut(X: Any, y: Any, part: slice) -> tuple[Any, Any]:
    """Whole partitions of rows and labels."""
    if isinstance(y, str):
        frame = X.partitions[part]
        return frame.drop(columns=y), frame[y]
    return X.blocks[part], y.blocks[part]


def _show(name: str, X: Any, y: Any) -> tuple[list[dict[str, Any]], float]:
    """Fit, report, compare; return the history and the optimum for the plot."""
    count = X.npartitions if isinstance(y, str) else X.numblocks[0]
    train = slice(0, count - HELD_OUT)
    test = slice(count - HELD_OUT, count)
    X_train, y_train = _cut(X, y, train)
    start = time.perf_counter()
    model = daskglm.fit(X_train, y_train, progress=True)
    wall = time.perf_counter() - start
    accuracy = model.score(*_cut(X, y, test))
    rows, labels = (
        np.asarray(v) if not hasattr(v, "tocsr") else v for v in dask.compute(X_train, y_train)
    )
    X_test, y_test = (
        np.asarray(v) if not hasattr(v, "tocsr") else v for v in dask.compute(*_cut(X, y, test))
    )
    theirs, seconds = _scikit_learn(rows, labels)
    signs = np.where(labels == model.classes_[1], 1.0, -1.0)
    values = [
        objective(rows, signs, m.coef_[0], float(m.intercept_[0]), loss="logistic", C=1.0)
        for m in (model, theirs)
    ]
    best = daskglm.fit(rows, labels, tol=1e-12).report_.objective
    click.echo(f"== {name}\n{model.report_}")
    click.echo(
        f"{'':<22}{'objective':>18}{'above optimum':>15}{'held-out accuracy':>19}{'seconds':>9}"
    )
    for who, value, score, took in (
        ("daskglm, cluster", values[0], accuracy, wall),
        ("scikit-learn, lbfgs", values[1], theirs.score(X_test, y_test), seconds),
    ):
        click.echo(
            f"{who:<22}{value:>18.8g}{max(value / best - 1, 0):>15.1e}{score:>19.4f}{took:>9.2f}"
        )
    click.echo(
        "(seconds: daskglm's include loading the partitions and, at the very first run, "
        "compiling kernels)\n"
    )
    return model.report_.history, best


def _scikit_learn(X: Any, y: np.ndarray) -> tuple[Any, float]:
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops early shows in the table
        model = LogisticRegression(max_iter=1000).fit(X, y)
    return model, time.perf_counter() - start


def _plot(fitted: dict[str, tuple[list[dict[str, Any]], float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(1, len(fitted), figsize=(5.5 * len(fitted), 4), squeeze=False)
    for axes, (name, (history, best)) in zip(all_axes[0], fitted.items(), strict=True):
        passes = [record["passes"] for record in history]
        axes.semilogy(
            passes, [r["relative_gap"] for r in history], "o-", label="bound (relative gap)"
        )
        above = [max(r["objective"] / best - 1, 1e-16) for r in history]
        axes.semilogy(passes, above, "s--", label="true distance from the optimum")
        axes.set(
            title=name, xlabel="passes over X", ylabel="relative suboptimality", ylim=(1e-16, None)
        )
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
