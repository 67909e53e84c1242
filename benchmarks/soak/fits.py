"""Random fits, and whether each ended as it should: with the optimum, to the gap it was asked for,
or the error.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import daskglm

STORAGES = ("process", "sent", "dask", "out of core", "path", "cross-validation")
SOLVERS = ("auto", "newton", "tron", "lbfgs", "sdca")
LOSSES = ("logistic", "squared_hinge", "squared", "smoothed_hinge")
INPUT_FAULTS = ("NaN", "one class", "callback")
CHUNKS = 6


@dataclass(frozen=True)
class Case:
    """One fit: shape and seed of its rows, storage, solver, and faults meanwhile."""

    number: int
    rows: int
    columns: int
    dtype: str
    loss: str
    solver: str
    storage: str
    C: float
    tol: float
    fault: str
    iteration: int


def draw(number: int, rng: np.random.Generator, faults: tuple[str, ...]) -> Case:
    """Draw a random case."""
    storage = str(rng.choice(STORAGES))
    loss = str(rng.choice(LOSSES))
    solver = str(rng.choice(SOLVERS))
    if storage == "cross-validation":
        loss, solver = "logistic", "newton"
    if storage == "path" and solver == "sdca":
        solver = "newton"
    fault = str(rng.choice(faults))
    if fault == "one class" and loss == "squared":
        fault = "NaN"
    if storage in ("process", "path", "cross-validation") and fault == "callback":
        fault = "NaN"  # paths and cross-validation take no callback
    return Case(
        number,
        rows=int(rng.integers(300, 12_000)),
        columns=int(rng.integers(2, 25)),
        dtype=str(rng.choice(["float64", "float32"])),
        loss=loss,
        solver=solver,
        storage=storage,
        C=float(10 ** rng.uniform(-2, 1)),
        tol=1e-2 if solver == "sdca" else float(10 ** rng.uniform(-6, -4)),
        fault=fault,
        iteration=int(rng.integers(0, 3)),
    )


def block(case: Case, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate rows and targets of one of `CHUNKS` chunks, anew at every call."""
    rng = np.random.default_rng((case.number, k))
    X = rng.standard_normal((case.rows // CHUNKS + 1, case.columns))
    truth = np.random.default_rng(case.number).standard_normal(case.columns)
    z = X @ truth + 0.3 + rng.logistic(size=len(X))
    y = z if case.loss == "squared" else np.where(z > 0, 1.0, -1.0)
    if case.fault == "NaN" and k == CHUNKS - 1:
        X[-1, 0] = np.nan
    if case.fault == "one class":
        y[:] = 1.0
    return X.astype(case.dtype), y


def fit(case: Case, client: Any, callback: Any) -> str:
    """Fit, check, and say how it ended; raises AssertionError where that is not how it should.

    An error that the case's fault explains is an expected end.
    """
    expected = {
        "NaN": (ValueError, "NaN"),
        "one class": (ValueError, "one class|no class"),
        "callback": (RuntimeError, "the callback fails"),
        "kill": (RuntimeError, "cannot be computed again|lost") if case.storage == "sent" else None,
        "retire": (RuntimeError, "cannot be computed again|lost")
        if case.storage == "sent"
        else None,
    }.get(case.fault)
    try:
        models = _models(case, client, callback)
    except Exception as error:
        import re

        if expected and isinstance(error, expected[0]) and re.search(expected[1], str(error)):
            return type(error).__name__
        raise AssertionError(f"{case} ended with {error!r}") from error
    assert case.fault not in INPUT_FAULTS, f"{case} should have failed"
    parts = [block(case, k) for k in range(CHUNKS)]
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    for C, model in models:
        check(X.astype(np.float64), y, case, C, model)
    return "optimum"


def _models(case: Case, client: Any, callback: Any) -> list[tuple[float, Any]]:
    """Yield the fitted models with their C."""
    import dask
    import dask.array as da

    options: dict[str, Any] = {
        "loss": case.loss,
        "solver": case.solver,
        "tol": case.tol,
        "random_state": case.number,
    }
    if case.storage in ("process", "sent"):
        parts = [block(case, k) for k in range(CHUNKS)]
        X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        if case.storage == "sent":
            options["client"] = client
    else:
        made = [dask.delayed(block, nout=2)(case, k) for k in range(CHUNKS)]
        n = case.rows // CHUNKS + 1
        X = da.concatenate(
            [da.from_delayed(part[0], (n, case.columns), case.dtype) for part in made]
        )
        y = da.concatenate([da.from_delayed(part[1], (n,), np.float64) for part in made])
        options["out_of_core"] = case.storage == "out of core"
    if case.storage == "path":
        Cs = [case.C / 10, case.C]
        return list(zip(Cs, daskglm.fit(X, y, C=Cs, **options), strict=True))
    if case.storage == "cross-validation":
        model = daskglm.LogisticRegressionCV(
            Cs=[case.C / 10, case.C], cv=3, tol=case.tol, random_state=case.number
        )
        model.fit(X, y)
        return [(float(model.C_[0]), model)]
    model = daskglm.fit(X, y, C=case.C, callback=callback, **options)
    model.score(X, y)
    return [(case.C, model)]


# ---- what is right, by NumPy alone
def check(X: np.ndarray, y: np.ndarray, case: Case, C: float, model: Any) -> None:
    """Raise AssertionError unless the model has the wanted gap; for sdca, the gap that it reports.

    sdca may take more rounds than there are for a set; then it says so, and its bound has to be
    true.
    """
    report = model.report_
    assert report.converged or case.solver == "sdca", f"{case} did not converge: {report.reason}"
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
    value = evaluate(X, y, case.loss, C, w)[0]
    best = optimum(X, y, case.loss, C)
    if report.converged:
        bound = case.tol
    else:
        bound = report.relative_gap / max(1.0 - report.relative_gap, 1e-9)
    gap = (value - best) / best
    assert gap <= 1.01 * bound + 1e-9, f"{case}: the gap is {gap:.2e}, more than {bound:.2e}"


def optimum(X: np.ndarray, y: np.ndarray, loss: str, C: float) -> float:
    """Return the least objective, by Newton's method with halved steps.

    It ends at a decrement of 1e-12 of the objective.
    """
    w = np.zeros(X.shape[1] + 1)
    value, gradient, hessian = evaluate(X, y, loss, C, w)
    for _ in range(200):
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        if -gradient @ step <= 1e-12 * value:
            return value
        length = 1.0
        while length > 1e-10:
            found = evaluate(X, y, loss, C, w + length * step)
            if found[0] <= value + 1e-4 * length * (gradient @ step):
                break
            length /= 2
        w, (value, gradient, hessian) = w + length * step, found
    raise AssertionError("the reference did not converge")


def evaluate(
    X: np.ndarray, y: np.ndarray, loss: str, C: float, w: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Evaluate objective, gradient and (generalised) Hessian at w in float64.

    The last entry of w is the intercept.
    """
    coef = w[:-1]
    z = X @ coef + w[-1]
    values, slopes, curvatures = {
        "logistic": functools.partial(_logistic, y, z),
        "squared": lambda: (0.5 * (z - y) ** 2, z - y, np.ones_like(z)),
        "squared_hinge": functools.partial(_squared_hinge, y, z),
        "smoothed_hinge": functools.partial(_smoothed_hinge, y, z),
    }[loss]()
    ones = np.column_stack([X, np.ones(len(X))])
    gradient = np.append(coef, 0.0) + C * (slopes @ ones)
    hessian = np.diag(np.append(np.ones_like(coef), 0.0)) + C * (ones.T * curvatures) @ ones
    return float(0.5 * coef @ coef + C * values.sum()), gradient, hessian


def _logistic(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        p = 1.0 / (1.0 + np.exp(y * z))
    return np.logaddexp(0.0, -y * z), -y * p, p * (1.0 - p)


def _squared_hinge(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    short = np.maximum(0.0, 1.0 - y * z)
    return short**2, -2.0 * y * short, 2.0 * (short > 0)


def _smoothed_hinge(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    short = 1.0 - y * z
    bent, straight = (short > 0) & (short < 1), short >= 1
    values = np.where(straight, short - 0.5, np.where(bent, 0.5 * short**2, 0.0))
    return values, -y * np.clip(short, 0.0, 1.0), bent * 1.0


def fit_for_ever(address: str, number: int) -> None:
    """Run a fit that waits after its second iteration, in a client process that is to be killed."""
    import time

    from distributed import Client

    def wait(record: dict[str, Any]) -> None:
        print("iteration", record["iteration"], flush=True)
        time.sleep(3600.0 if record["iteration"] == 2 else 0.0)

    storage = ("sent", "dask", "out of core")[number % 3]
    case = Case(number, 12_000, 8, "float64", "logistic", "lbfgs", storage, 1.0, 1e-9, "none", 0)
    with contextlib.suppress(OSError), Client(address) as client:
        _models(case, client, wait)
