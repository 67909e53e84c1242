"""Tables of two papers: `python -m benchmarks.tables tron`, Table 1 of Halloran & Rocke 2020, and `... hpc`, Tables II
and III of Mouhajir, Nechba & Sedjari (HPC applied to logistic regression).

Every measurement is a process of its own, contestants in turn, a fit of few rows to warm up and one of all that is
timed; the parent judges coefficients in float64. `--device both` adds the same fits on a GPU.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from benchmarks.evaluate import objective, reference, suboptimality
from benchmarks.one import surroundings
from benchmarks.problems import Unavailable, load

RESULTS = Path(__file__).resolve().parent / "results" / "tables"
SETTINGS = ((0.1, 0.01), (0.01, 0.008))  # alpha and epsilon of Tables II and III
PAPER = {  # seconds, as printed
    "tron": "Their Table 1 was measured on other hardware; only the ranking is comparable.",
    "hpc": "As printed (Colab, Tesla K80; 11,000,000 rows): Table II F1 and seconds: sequential 0.668, 73.4; parallel "
    "0.679, 14.8; scikit-learn 0.686, 19.4. Table III: 0.668, 930; 0.692, 9.4; 0.686, 17.7.",
}

WARM_ROWS = 2_000
Job = dict[str, Any]


# ---------------------------------------------------------------------------- what is measured
def tron_jobs(devices: list[str]) -> list[Job]:
    """Gradient descent, L-BFGS and TRON, ours on each device; scikit-learn's and PyTorch's L-BFGS."""
    jobs = [
        {
            "name": f"daskglm {solver}, {device}",
            "by": "daskglm",
            "solver": solver,
            "device": device,
            "C": 1.0,
            **options,
        }
        for device in devices
        for solver, options in (
            ("gd", {"tol": 1e-4, "max_iter": 3000}),
            ("lbfgs", {"tol": 1e-4}),
            ("tron", {"tol": 1e-4}),
        )
    ]
    # its tol bounds the largest entry of the mean loss's gradient, so several are needed to meet our accuracy
    jobs += [
        {"name": f"scikit-learn lbfgs, tol {tol:g}", "by": "sklearn", "C": 1.0, "tol": tol} for tol in (1e-4, 1e-6)
    ]
    jobs += [{"name": f"PyTorch L-BFGS, {device}", "by": "torch", "C": 1.0, "device": device} for device in devices]
    return jobs


def hpc_jobs(devices: list[str]) -> list[Job]:
    """Plain gradient descent at the papers' two settings, sequential and parallel; scikit-learn at its own rule."""
    jobs: list[Job] = []
    for alpha, epsilon in SETTINGS:
        plain = {"by": "daskglm", "solver": "gd", "C": None, "step": alpha, "epsilon": epsilon, "tol": 0.0}
        at = f"alpha {alpha}, epsilon {epsilon}"
        jobs.append({**plain, "name": f"sequential, {at}", "threads": 1, "device": "cpu"})
        jobs += [{**plain, "name": f"parallel {device}, {at}", "device": device} for device in devices]
    jobs.append({"name": "scikit-learn, its own rule (C = 1, tol 1e-4)", "by": "sklearn", "C": 1.0, "tol": 1e-4})
    return jobs


# ---------------------------------------------------------------------------- one measurement, in its own process
def child(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, float, float, int]:
    """Coefficients, intercept, seconds and iterations of a job."""
    fit = {"daskglm": _daskglm, "sklearn": _sklearn, "torch": _torch}[job["by"]]
    fit(job, X[:WARM_ROWS], y[:WARM_ROWS])
    start = time.perf_counter()
    coef, intercept, iterations = fit(job, X, y)
    return np.ravel(coef).astype(float), float(intercept), time.perf_counter() - start, iterations


def _daskglm(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, float, int]:
    import daskglm

    options = {name: job[name] for name in ("step", "epsilon") if name in job}
    model = daskglm.fit(
        X, y, C=math.inf if job["C"] is None else job["C"], solver=job["solver"], tol=job["tol"], fit_intercept=False,
        max_iter=job.get("max_iter", 100_000), device=job["device"], solver_options=options, progress=False,
    )  # fmt: skip
    return model.coef_, 0.0, model.report_.n_iter


def _sklearn(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, float, int]:
    from sklearn.linear_model import LogisticRegression

    C = np.inf if job["C"] is None else job["C"]
    model = LogisticRegression(C=C, tol=job["tol"], max_iter=job.get("max_iter", 1000), fit_intercept=False).fit(X, y)
    return model.coef_, 0.0, int(model.n_iter_[0])


def _torch(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, float, int]:
    import torch

    device = job["device"]
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU")
    parts = [torch.as_tensor(part) for part in (X.indptr, X.indices, X.data)]
    rows = torch.sparse_csr_tensor(*parts, size=X.shape, dtype=torch.float32).to(device)
    labels = torch.as_tensor(y, dtype=torch.float32, device=device)
    w = torch.zeros(X.shape[1], device=device, requires_grad=True)
    method = torch.optim.LBFGS([w], max_iter=500, tolerance_grad=1e-4, line_search_fn="strong_wolfe")

    def closure() -> Any:
        method.zero_grad()
        value = 0.5 * w @ w + job["C"] * torch.nn.functional.softplus(-labels * (rows @ w)).sum()
        value.backward()
        return value

    method.step(closure)
    return w.detach().cpu().numpy(), 0.0, method.state[w]["n_iter"]


def measure(job: Job, folder: Path) -> Job:
    """Run a job in a fresh process; a job that cannot run says why."""
    if importlib.util.find_spec({"sklearn": "sklearn"}.get(job["by"], job["by"])) is None:
        return {**job, "not run": f"{job['by']} is not installed"}
    out = folder / "coef.npy"
    out.unlink(missing_ok=True)
    environment = dict(os.environ)
    if "threads" in job:
        environment |= dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(job["threads"])
        )
    command = [sys.executable, "-m", "benchmarks.tables", "child", json.dumps(job), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {**job, "not run": done.stderr.strip().splitlines()[-1][:200] if done.stderr else "no output"}
    return {**job, **json.loads(done.stdout.splitlines()[-1]), "coef": np.load(out)}


def same_value(X: Any, y: np.ndarray, value: float, folder: Path) -> Job:
    """scikit-learn without penalty, stopped as soon as its mean loss is that of gradient descent: an equal rule."""
    low, high = 0, 1
    job: Job = {"name": "scikit-learn, stopped at the same loss", "by": "sklearn", "C": None, "tol": 0.0}
    found = job
    while high <= 1024:
        found = measure({**job, "max_iter": high}, folder)
        if "coef" not in found or _mean_loss(X, y, found["coef"]) <= value:
            break
        low, high = high, 2 * high
    while "coef" in found and high - low > 1:
        middle = (low + high) // 2
        tried = measure({**job, "max_iter": middle}, folder)
        low, high, found = (low, middle, tried) if _mean_loss(X, y, tried["coef"]) <= value else (middle, high, found)
    return found


def _mean_loss(X: Any, y: np.ndarray, coef: np.ndarray) -> float:
    return float(np.logaddexp(0.0, -y * (X @ coef)).mean())


def f1(y: np.ndarray, predicted: np.ndarray) -> float:
    """F1 score of the positive class."""
    hits = np.sum((predicted > 0) & (y > 0))
    return float(2 * hits / max(np.sum(predicted > 0) + np.sum(y > 0), 1))


# ---------------------------------------------------------------------------- tables
def tron_table(X: Any, y: np.ndarray, devices: list[str], repeats: int, folder: Path) -> list[Job]:
    """Table 1: seconds and relative suboptimality."""
    best = reference(X, y, loss="logistic", C=1.0, fit_intercept=False).objective
    lines = _interleaved(tron_jobs(devices), repeats, folder)
    for line in lines:
        if "coef" in line:
            value = objective(X, y, line.pop("coef"), 0.0, loss="logistic", C=1.0)
            line["suboptimality"] = suboptimality(value, best)
    return lines


def hpc_table(X: Any, y: np.ndarray, devices: list[str], repeats: int, folder: Path) -> list[Job]:
    """Tables II and III: F1 on a fifth of the rows that was held out, mean loss of the others, seconds."""
    held = np.random.default_rng(0).random(len(y)) < 0.2
    train = X[~held], y[~held]
    _give(folder, *train)
    lines = _interleaved(hpc_jobs(devices), repeats, folder)
    for setting in SETTINGS:
        plain = next(line for line in lines if line.get("step") == setting[0] and "coef" in line)
        equal = same_value(*train, _mean_loss(*train, plain["coef"]), folder)
        lines.append({**equal, "name": f"{equal['name']} as gradient descent at alpha {setting[0]}"})
    for line in lines:
        if "coef" in line:
            coef = line.pop("coef")
            line |= {"F1": f1(y[held], X[held] @ coef), "mean loss": _mean_loss(*train, coef)}
    return lines


def _interleaved(jobs: list[Job], repeats: int, folder: Path) -> list[Job]:
    runs: list[list[Job]] = [[] for _ in jobs]
    for _ in range(repeats):
        for job, records in zip(jobs, runs, strict=True):
            if not records or "not run" not in records[-1]:
                records.append(measure(job, folder))
    return [{**records[-1], "seconds": _median(records)} for records in runs]


def _median(records: list[Job]) -> float | None:
    seconds = [record["seconds"] for record in records if "seconds" in record]
    return median(seconds) if seconds else None


def _give(folder: Path, X: Any, y: np.ndarray) -> None:
    import pickle

    (folder / "data.pickle").write_bytes(pickle.dumps((X, y), protocol=5))


def _data(table: str, path: Path | None, rows: int | None, quick: bool) -> tuple[str, Any, np.ndarray]:
    """The set a table wants: a file of the user's, else a real set where there is one, else a generated one."""
    if path is not None:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(str(path), dtype=np.float32)
        return path.name, X if table == "tron" else X.toarray(), np.where(y > 0, 1.0, -1.0)
    if table == "hpc":
        count = rows or (5_000 if quick else 2_000_000)
        return ("higgs-like (generated)", *load("higgs-like", rows=count, seed=0))
    try:
        return ("rcv1_binary", *load("rcv1_binary", rows=500 if quick else rows, dtype="float32"))
    except Unavailable:
        return ("rcv1-like (generated)", *load("rcv1-like", rows=500 if quick else rows or 20_242, seed=0))


def write(table: str, about: Job, lines: list[Job], out: Path) -> Path:
    """JSON lines and a Markdown table."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{table}.jsonl").write_text("\n".join(json.dumps(line) for line in [about, *lines]) + "\n")
    shown = ["name", "seconds", "iterations", "suboptimality", "F1", "mean loss", "not run"]
    keys = [key for key in shown if any(key in line for line in lines)]
    rows = ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    rows += ["| " + " | ".join(_cell(line.get(key)) for key in keys) + " |" for line in lines]
    head = [f"# {table}: {about['data']}, {about['rows']:,} x {about['columns']:,}", "", PAPER[table], ""]
    tail = ["", f"{about['date']}, medians of {about['repeats']}, seed 0; {about['machine']}; {about['versions']}."]
    path = out / f"{table}.md"
    path.write_text("\n".join([*head, *rows, *tail]) + "\n")
    return path


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------- command line
@click.group()
def main() -> None:
    """Tables of two papers."""


def _command(table: str) -> Any:
    @click.option("--device", type=click.Choice(["cpu", "cuda", "both"]), default="cpu", show_default=True)
    @click.option("--data", type=click.Path(path_type=Path, exists=True), help="svmlight file, such as LIBSVM's HIGGS.")
    @click.option("--rows", type=int, help="Of generated data, or at most of others.")
    @click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
    @click.option("--quick", is_flag=True, help="Little data, one repeat.")
    @click.option("--out", type=click.Path(path_type=Path), default=RESULTS)
    def run(device: str, data: Path | None, rows: int | None, repeats: int, quick: bool, out: Path) -> None:
        devices = ["cpu", "cuda"] if device == "both" else [device]
        name, X, y = _data(table, data, rows, quick)
        repeats = 1 if quick else repeats
        with tempfile.TemporaryDirectory() as folder:
            _give(Path(folder), X, y)
            make = tron_table if table == "tron" else hpc_table
            lines = make(X, y, devices, repeats, Path(folder))
        around = surroundings()
        about = {
            "data": name, "rows": X.shape[0], "columns": X.shape[1], "date": date.today().isoformat(),
            "repeats": repeats, "machine": f"{around['machine']['cpu']}, {around['machine']['cores']} cores",
            "versions": ", ".join(f"{k} {v}" for k, v in around["versions"].items() if v != "absent"),
        }  # fmt: skip
        click.echo(write(table, about, lines, out).read_text())

    run.__doc__ = (tron_table if table == "tron" else hpc_table).__doc__
    return main.command(name=table)(run)


for _table in ("tron", "hpc"):
    _command(_table)


@main.command(name="child", hidden=True)
@click.argument("job")
@click.argument("folder", type=click.Path(path_type=Path))
def _child(job: str, folder: Path) -> None:
    import pickle

    X, y = pickle.loads((folder / "data.pickle").read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coef, intercept, seconds, iterations = child(json.loads(job), X, y)
    np.save(folder / "coef.npy", coef)
    click.echo(json.dumps({"seconds": seconds, "iterations": iterations, "intercept": intercept}))


if __name__ == "__main__":
    main()
