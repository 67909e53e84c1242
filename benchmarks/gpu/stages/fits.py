"""Stages solves, tables and stream: whole fits."""

from __future__ import annotations

import time
import warnings
from typing import Any

import daskglm
from benchmarks.gpu.lines import Lines
from benchmarks.gpu.measure import judged, on_device
from benchmarks.gpu.rows import QUICK, SIZES, data, higgs
from benchmarks.tables import ALPHA, problem

FITS = (  # set, solver, whether to LIBLINEAR's default rule
    ("higgs", "newton", False),
    ("higgs", "tron", False),
    ("rcv1", "tron", True),
    ("rcv1", "tron", False),
    ("rcv1", "lbfgs", False),
    ("higgs", "lbfgs", False),
)
LIBLINEAR_EPS = 0.01  # of -s 0
VECTORS = 24  # bytes a row that a solve keeps beside X


def solves(lines: Lines, quick: bool) -> None:
    """Fits from rows on the device: seconds of solves and of their first iterations, judged."""
    for name, solver, liblinear in FITS:
        try:
            X, y = data(name, quick)
            model, reports = _fits(on_device(X), y, solver, liblinear, 2 if quick else 6)
            objective, bound = judged(X, y, model.coef_)
            report = reports[-1]
            lines.add(
                "solves",
                set=name,
                solver=solver,
                to="LIBLINEAR's rule" if liblinear else 1e-6,
                ms=[1e3 * each.seconds for each in reports],
                first_iteration_ms=[1e3 * each.history[0]["seconds"] for each in reports],
                loading_ms=[1e3 * each.seconds_loading for each in reports],
                iterations=report.n_iter,
                passes=report.passes,
                rounds=report.rounds,
                objective=objective,
                proved_suboptimality=bound,
            )
        except Exception:
            lines.failed("solves", set=name, solver=solver)


def _fits(X: Any, y: Any, solver: str, liblinear: bool, repeats: int) -> tuple[Any, list[Any]]:
    """Return the last model and the reports of all."""
    share = LIBLINEAR_EPS * min((y > 0).sum(), (y < 0).sum()) / len(y)
    first: list[float] = []

    def enough(record: Any) -> bool:
        if record["iteration"] == 0:
            first[:] = [record["gradient_norm"]]
        return liblinear and bool(record["gradient_norm"] <= share * first[0])

    options = {
        "solver": solver,
        "tol": 0.0 if liblinear else 1e-6,
        "fit_intercept": False,
        "callback": enough,
    }
    with warnings.catch_warnings(action="ignore"):  # the callback ends it before tol does
        models = [daskglm.fit(X, y, progress=False, **options) for _ in range(repeats)]
    return models[-1], [model.report_ for model in models]


def tables(lines: Lines, quick: bool) -> None:
    """Tables of nine factors on the device and on the host; the last of some fits counts."""
    for rows, family in ((600_000, "poisson"), (600_000, "gamma"), (10_000_000, "poisson")):
        frame, y, exposure = problem(2_000 if quick else rows, family, 0)
        objectives = {}
        for device in ("cuda", "cpu"):
            try:
                for _ in range(1 if quick or rows > 1_000_000 else 3):
                    began = time.perf_counter()
                    model = _of_table(frame, y, exposure, family, device)
                report = model.report_
                objectives[device] = report.objective
                lines.add(
                    "tables",
                    family=family,
                    rows=rows,
                    device=device,
                    on=report.device,
                    solver=report.solver,
                    wall_seconds=time.perf_counter() - began,
                    seconds=report.seconds,
                    loading_seconds=report.seconds_loading,
                    passes=report.passes,
                    relative_gap=report.relative_gap,
                )
            except Exception:
                lines.failed("tables", family=family, rows=rows, device=device)
        if len(objectives) > 1:
            apart = objectives["cuda"] / objectives["cpu"] - 1.0
            lines.add("tables", family=family, rows=rows, objectives_apart=apart)


def _of_table(frame: Any, y: Any, exposure: Any, family: str, device: str) -> Any:
    """Fit as `benchmarks.tables` does."""
    model = daskglm.GeneralizedLinearRegressor(
        family, link="log", alpha=ALPHA, tol=1e-9, device=device
    )
    return model.fit(frame, y, exposure=exposure if family == "poisson" else None)


def stream(lines: Lines, quick: bool) -> None:
    """Host rows, all of them allowed on the device and a third; the second fit of each counts."""
    X, y = higgs((QUICK if quick else SIZES)["higgs"] // 4)
    # a Gram for each of the tiny chunks takes the stand-in long
    solver = "tron" if quick else "newton"
    for limit in (None, X.nbytes // 3 + VECTORS * len(y)):
        for _ in range(2):
            model = daskglm.fit(
                X,
                y,
                solver=solver,
                tol=1e-6,
                fit_intercept=False,
                device="cuda",
                device_memory_limit=limit,
                progress=False,
            )
        objective, bound = judged(X, y, model.coef_)
        report = model.report_
        lines.add(
            "stream",
            limit=limit,
            bytes=X.nbytes,
            seconds=report.seconds,
            passes=report.passes,
            objective=objective,
            proved_suboptimality=bound,
            GBps=report.passes * X.nbytes / report.seconds / 1e9,
        )
