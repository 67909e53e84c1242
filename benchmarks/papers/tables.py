"""Tables of two papers: `python -m benchmarks.papers.tables tron`, Table 1 of Halloran & Rocke
2020, and `... hpc`, Tables II and III of Mouhajir, Nechba & Sedjari (HPC applied to logistic
regression).

Every measurement is a process of its own (`table_fits.py`), contestants in turn; the parent judges
coefficients in float64. `--device both` adds the same fits on a GPU. What the papers printed stands
beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from benchmarks.datasets.problems import Unavailable, load, source
from benchmarks.papers.table_fits import Job
from benchmarks.reports.tabular import table as markdown
from benchmarks.suites.environments import how_to_install, interpreter
from benchmarks.suites.evaluate import objective, reference, suboptimality
from benchmarks.suites.runner import ROOT, locked
from benchmarks.suites.single_run import surroundings

RESULTS = Path(__file__).resolve().parents[1] / "results" / "tables"
SETTINGS = ((0.1, 0.01), (0.01, 0.008))  # alpha and epsilon of Tables II and III
STEP, STEPS = 0.001, 3_000  # of gradient descent in Table 1
ABOUT = {
    "tron": "Logistic, C = 1, no intercept. *Paper*: seconds of their Table 1 on 24 threads of "
    "another machine (TRON: "
    "one thread), LIBSVM's rcv1; only the ranking is comparable. Their gradient descent took "
    "3,000 iterations, their "
    "L-BFGS 100; tol is each library's own, 1e-4 where none is said.",
    "hpc": "Plain gradient descent until the gradient of the mean loss is at most epsilon in "
    "norm. The paper set it "
    "beside scikit-learn at scikit-learn's own, unequal rule (and with a penalty): those rows are "
    "marked. At the equal "
    "rule scikit-learn has no penalty and stops as soon as its mean loss is that of gradient "
    "descent. F1 is of a fifth "
    "of the rows that was held out. *Paper*: as printed (Colab, 11,000,000 rows; parallel: on a "
    "Tesla K80).",
}
PAPER_HPC = {  # F1 and seconds by alpha, as printed
    0.1: {
        "sequential": (0.668, 73.383),
        "parallel": (0.679, 14.779),
        "scikit-learn": (0.686, 19.378),
    },
    0.01: {
        "sequential": (0.668, 930.11),
        "parallel": (0.692, 9.4),
        "scikit-learn": (0.686, 17.696),
    },
}
TORCH = {"by": "torch", "C": 1.0}


# ---- what is measured
def tron_jobs(devices: list[str], quick: bool = False) -> list[Job]:
    """Table 1's gradient descent, L-BFGS and single-threaded TRON, and ours on each device."""
    paper = {"cpu": {"gd": 395.58, "lbfgs": 40.56}, "cuda": {"gd": 27.05, "lbfgs": 3.1}}
    jobs: list[Job] = []
    for device in devices:
        gd = {**TORCH, "solver": "gd", "step": STEP, "max_iter": STEPS // 100 if quick else STEPS}
        lbfgs = {**TORCH, "solver": "lbfgs", "tol": 1e-4, "max_iter": 100}
        jobs += [
            {
                **gd,
                "name": f"PyTorch gradient descent, {device}",
                "device": device,
                "paper": paper[device]["gd"],
            },
            {
                **lbfgs,
                "name": f"PyTorch L-BFGS, {device}",
                "device": device,
                "paper": paper[device]["lbfgs"],
            },
        ]
    tron = {"by": "sklearn", "solver": "liblinear", "C": 1.0, "threads": 1, "paper": 0.29}
    jobs += [
        {**tron, "name": f"scikit-learn TRON, 1 thread, tol {tol:g}", "tol": tol}
        for tol in (1e-2, 1e-4)
    ]
    # its tol bounds the largest entry of the mean loss's gradient, so several are needed to meet
    # our accuracy
    jobs += [
        {"name": f"scikit-learn L-BFGS, tol {tol:g}", "by": "sklearn", "C": 1.0, "tol": tol}
        for tol in (1e-4, 1e-6)
    ]
    for device in devices:
        ours = {"by": "daskglm", "device": device, "C": 1.0, "tol": 1e-4}
        own = ("gd", "lbfgs", "tron")
        jobs += [
            {**ours, "name": f"daskglm {solver}, {device}", "solver": solver} for solver in own
        ]
    return jobs


def hpc_jobs(devices: list[str], setting: tuple[float, float]) -> list[Job]:
    """Return the fits of plain gradient descent at a setting, sequential and parallel, and rivals.

    scikit-learn stops by its own rule.
    """
    alpha, epsilon = setting
    paper = PAPER_HPC[alpha]
    plain = {
        "by": "daskglm",
        "solver": "gd",
        "C": None,
        "step": alpha,
        "epsilon": epsilon,
        "tol": 0.0,
    }
    jobs: list[Job] = [
        {**plain, "name": "sequential", "threads": 1, "device": "cpu"}
        | _printed(paper["sequential"])
    ]
    parallel = plain | _printed(paper["parallel"])
    jobs += [{**parallel, "name": f"parallel, {device}", "device": device} for device in devices]
    unequal = {
        "by": "sklearn",
        "C": 1.0,
        "tol": 1e-4,
        "name": "scikit-learn, its own rule (unequal)",
    }
    return [*jobs, unequal | _printed(paper["scikit-learn"])]


def _printed(pair: tuple[float, float]) -> Job:
    return {"paper F1": pair[0], "paper": pair[1]}


# ---- one measurement, in its own process
def measure(job: Job, folder: Path, lock: Path | None = None) -> Job:
    """Run a job in a fresh process; a job that cannot run says why."""
    out = folder / "coef.npy"
    out.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    }
    if "threads" in job:
        environment |= dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(job["threads"])
        )
    command = [
        interpreter("torch" if job["by"] == "torch" else None),
        "-m",
        "benchmarks.papers.table_fits",
    ]
    with locked(lock):
        done = subprocess.run(
            [*command, json.dumps(job), str(folder)],
            env=environment,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1][:200] if done.stderr else "no output"
        if "No module named 'torch'" in reason:
            cure = f"; to install it: {how_to_install(job['by'])}"
        else:
            cure = ""
        return {**job, "not run": reason + cure}
    return {**job, **json.loads(done.stdout.splitlines()[-1]), "coef": np.load(out)}


def same_value(X: Any, y: np.ndarray, value: float, folder: Path, lock: Path | None = None) -> Job:
    """Run scikit-learn without penalty until it has the mean loss of gradient descent."""
    low, high = 0, 1
    job: Job = {
        "name": "scikit-learn, stopped at the same loss",
        "by": "sklearn",
        "C": None,
        "tol": 0.0,
    }
    found = job
    while high <= 1024:
        found = measure({**job, "max_iter": high}, folder, lock)
        if "coef" not in found or _mean_loss(X, y, found["coef"]) <= value:
            break
        low, high = high, 2 * high
    while "coef" in found and high - low > 1:
        middle = (low + high) // 2
        tried = measure({**job, "max_iter": middle}, folder, lock)
        if _mean_loss(X, y, tried["coef"]) <= value:
            low, high, found = (low, middle, tried)
        else:
            low, high, found = (middle, high, found)
    return found


def _mean_loss(X: Any, y: np.ndarray, coef: np.ndarray) -> float:
    return float(np.logaddexp(0.0, -y * (X @ coef)).mean())


def f1(y: np.ndarray, predicted: np.ndarray) -> float:
    """F1 score of the positive class."""
    hits = np.sum((predicted > 0) & (y > 0))
    return float(2 * hits / max(np.sum(predicted > 0) + np.sum(y > 0), 1))


# ---- tables
def tron_table(
    X: Any, y: np.ndarray, devices: list[str], repeats: int, folder: Path, lock: Path | None
) -> list[Job]:
    """Table 1: seconds and relative suboptimality."""
    best = reference(X, y, loss="logistic", C=1.0, fit_intercept=False).objective
    _give(folder, X, y)
    lines = _interleaved(
        tron_jobs(devices, quick=len(y) <= QUICK_ROWS["tron"]), repeats, folder, lock
    )
    for line in lines:
        if "coef" in line:
            value = objective(X, y, line.pop("coef"), 0.0, loss="logistic", C=1.0)
            line["suboptimality"] = suboptimality(value, best)
    return lines


def hpc_table(
    X: Any, y: np.ndarray, devices: list[str], repeats: int, folder: Path, lock: Path | None
) -> list[Job]:
    """Make Tables II and III: F1 on a fifth of the rows, mean loss of the others, seconds."""
    held = np.random.default_rng(0).random(len(y)) < 0.2
    train = X[~held], y[~held]
    _give(folder, *train)
    lines: list[Job] = []
    for number, setting in zip(("II", "III"), SETTINGS, strict=True):
        some = _interleaved(hpc_jobs(devices, setting), repeats, folder, lock)
        plain = next((line for line in some if line["by"] == "daskglm" and "coef" in line), None)
        if plain:
            equal = same_value(*train, _mean_loss(*train, plain["coef"]), folder, lock)
            if "coef" in equal:
                again = [measure(equal, folder, lock) for _ in range(repeats - 1)]
            else:
                again = []
            some.append({**equal, "seconds": _median([equal, *again])})
        about = {"table": f"{number}: alpha {setting[0]:g}, epsilon {setting[1]:g}"}
        lines += [about | line for line in some]
    for line in lines:
        if "coef" in line:
            coef = line.pop("coef")
            line |= {"F1": f1(y[held], X[held] @ coef), "mean loss": _mean_loss(*train, coef)}
    return lines


MAKERS = {"tron": tron_table, "hpc": hpc_table}


def _interleaved(jobs: list[Job], repeats: int, folder: Path, lock: Path | None) -> list[Job]:
    runs: list[list[Job]] = [[] for _ in jobs]
    for _ in range(repeats):
        for job, records in zip(jobs, runs, strict=True):
            if not records or "not run" not in records[-1]:
                records.append(measure(job, folder, lock))
    return [{**records[-1], "seconds": _median(records)} for records in runs]


def _median(records: list[Job]) -> float | None:
    seconds = [record["seconds"] for record in records if "seconds" in record]
    return median(seconds) if seconds else None


def _give(folder: Path, X: Any, y: np.ndarray) -> None:
    import pickle

    (folder / "data.pickle").write_bytes(pickle.dumps((X, y), protocol=5))


QUICK_ROWS = {"tron": 500, "hpc": 5_000}


def _data(
    table: str, path: Path | None, rows: int | None, quick: bool
) -> tuple[str, Any, np.ndarray]:
    """Return a table's set: the user's file, the papers' set, a real set, or a generated one."""
    rows = rows or (QUICK_ROWS[table] if quick else None)
    if path is not None:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(str(path), dtype=np.float32)
        X, y = X[:rows], y[:rows]
        return path.name, X if table == "tron" else X.toarray(), np.where(y > 0, 1.0, -1.0)
    name = "RCV1" if table == "tron" else "HIGGS"
    if table == "tron" and not source(name).startswith("file"):
        try:
            return ("rcv1_binary", *load("rcv1_binary", rows=rows, dtype="float32"))
        except Unavailable:
            rows = rows or 20_242  # as many as LIBSVM's file has
    return (f"{name} ({source(name)})", *load(name, rows=rows))


def make(
    table: str,
    out: Path,
    *,
    device: str = "cpu",
    data: Path | None = None,
    rows: int | None = None,
    repeats: int = 3,
    quick: bool = False,
    lock: Path | None = None,
) -> Path:
    """Measure a table and write it into a folder; the path of its Markdown."""
    devices = ["cpu", "cuda"] if device == "both" else [device]
    name, X, y = _data(table, data, rows, quick)
    repeats = 1 if quick else repeats
    with tempfile.TemporaryDirectory() as folder:
        lines = MAKERS[table](X, y, devices, repeats, Path(folder), lock)
    around = surroundings()
    about = {
        "data": name,
        "rows": X.shape[0],
        "columns": X.shape[1],
        "date": date.today().isoformat(),
        "repeats": repeats,
        "machine": f"{around['machine']['cpu']}, {around['machine']['cores']} cores",
        "versions": ", ".join(f"{k} {v}" for k, v in around["versions"].items() if v != "absent"),
    }
    return write(table, about, lines, out)


def write(table: str, about: Job, lines: list[Job], out: Path) -> Path:
    """JSON lines and a Markdown table."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{table}.jsonl").write_text(
        "\n".join(json.dumps(line) for line in [about, *lines]) + "\n"
    )
    shown = [
        "table",
        "name",
        "library",
        "seconds",
        "iterations",
        "suboptimality",
        "F1",
        "mean loss",
    ]
    shown += ["paper", "paper F1", "not run"]
    keys = [key for key in shown if any(key in line for line in lines)]
    rows = [[_cell(line.get(key)) for key in keys] for line in lines]
    head = [f"# {table}: {about['data']}, {about['rows']:,} x {about['columns']:,}", ABOUT[table]]
    tail = (
        f"{about['date']}, medians of {about['repeats']}, seed 0; {about['machine']}; "
        f"{about['versions']}."
    )
    path = out / f"{table}.md"
    path.write_text("\n\n".join([*head, markdown(keys, rows), tail]) + "\n")
    return path


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- command line
@click.group()
def main() -> None:
    """Tables of two papers."""


def _command(table: str) -> Any:
    @click.option(
        "--device", type=click.Choice(["cpu", "cuda", "both"]), default="cpu", show_default=True
    )
    @click.option(
        "--data",
        type=click.Path(path_type=Path, exists=True),
        help="svmlight file, such as LIBSVM's HIGGS.",
    )
    @click.option("--rows", type=int, help="Of generated data, or at most of others.")
    @click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
    @click.option("--quick", is_flag=True, help="Little data, one repeat.")
    @click.option(
        "--lock",
        type=click.Path(path_type=Path),
        help="File whose lock each process holds (flock).",
    )
    @click.option("--out", type=click.Path(path_type=Path), default=RESULTS)
    def run(out: Path, **given: Any) -> None:
        click.echo(make(table, out, **given).read_text())

    run.__doc__ = MAKERS[table].__doc__
    return main.command(name=table)(run)


for _table in MAKERS:
    _command(_table)


if __name__ == "__main__":
    main()
