"""Jobs of the losses of the first release: single fits, paths of C, and cross-validation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import daskglm
from benchmarks.soak.cases import (
    CURRENT_CLIENT,
    NAN,
    ONE_CLASS,
    Answer,
    Asked,
    Block,
    Case,
    Kind,
    Spoil,
    truth,
)
from benchmarks.soak.checks import check_fit, check_optimal
from benchmarks.soak.reference import LOSSES, linear

SOLVERS = ("auto", "newton", "tron", "lbfgs", "sdca")


def draw(rng: np.random.Generator, columns: int, *, one: bool = True) -> dict[str, Any]:
    """Draw loss, solver, C and tolerance; sdca takes a wide one, and no path."""
    solver = str(rng.choice(SOLVERS if one else SOLVERS[:-1]))
    return {
        "loss": str(rng.choice(list(LOSSES))),
        "solver": solver,
        "C": float(10 ** rng.uniform(-2, 1)),
        "tol": 1e-2 if solver == "sdca" else float(10 ** rng.uniform(-6, -4)),
    }


def draw_search(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw C and tolerance of logistic regression."""
    return {**draw(rng, columns), "loss": "logistic", "solver": "newton", "tol": 1e-5}


def targets(case: Case, X: np.ndarray, rng: np.random.Generator, k: int) -> Block:
    """Numbers, or two classes."""
    z = X @ truth(case) + 0.3 + rng.logistic(size=len(X))
    return {"y": z if case.options["loss"] == "squared" else np.where(z > 0, 1.0, -1.0)}


def _options(case: Case) -> dict[str, Any]:
    named = {name: case.options[name] for name in ("loss", "solver", "tol")}
    return {**named, "random_state": case.number}


def fit(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit once, and score."""
    asked.begin()
    model = daskglm.fit(
        **data, C=case.options["C"], callback=asked.callback, **asked.where, **_options(case)
    )
    if case.fault != "kill scheduler":
        model.score(data["X"], data["y"])
    return Answer([(case.options["C"], model)], model.report_.repairs)


def path(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit two values of C."""
    Cs = [case.options["C"] / 10, case.options["C"]]
    asked.begin()
    models = daskglm.fit(**data, C=Cs, **asked.where, **_options(case))
    return Answer(list(zip(Cs, models, strict=True)), models[0].report_.repairs)


def search(case: Case, data: Block, asked: Asked) -> Answer:
    """Choose among two values of C."""
    model = daskglm.LogisticRegressionCV(
        Cs=[case.options["C"] / 10, case.options["C"]],
        cv=3,
        tol=case.options["tol"],
        random_state=case.number,
    )
    asked.begin()
    model.fit(**data)
    return Answer([(float(model.C_[0]), model)], model.report_.repairs)


def check(case: Case, data: Block, found: list[tuple[float, Any]]) -> None:
    """Each model is optimal for its C; the report of a single fit has its objective."""
    law, tol = LOSSES[case.options["loss"]], case.options["tol"]
    for C, model in found:
        objective = linear(data["X"], data["y"], law, np.full(len(data["y"]), C), alpha=1.0)
        w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
        if case.kind == "loss":
            single = case.dtype == "float32"
            check_fit(objective, w, model.report_, tol, single_precision=single)
        else:
            check_optimal(objective, w, model.report_, tol)


def _of_one_class(block: Block) -> None:
    if set(np.unique(block["y"])) <= {-1.0, 1.0}:
        block["y"][:] = 1.0
    else:  # least squares has no classes
        block["y"][-1] = np.nan


SPOILS = {**NAN, "one class": Spoil(_of_one_class, f"{ONE_CLASS['one class'].error}|NaN")}
KINDS = {
    "loss": Kind(draw, targets, fit, check, spoils=SPOILS, tells_iterations=True, share=3.0),
    "loss path": Kind(partial(draw, one=False), targets, path, check, spoils=SPOILS),
    "logistic CV": Kind(
        draw_search, targets, search, check, storages=CURRENT_CLIENT, spoils={**NAN, **ONE_CLASS}
    ),
}
