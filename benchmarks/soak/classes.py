"""Jobs of several classes: multinomial ones and ordered ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import daskglm
from benchmarks.soak.cases import NAN, ONE_CLASS, Answer, Asked, Block, Case, Kind, truth
from benchmarks.soak.checks import check_fit
from benchmarks.soak.reference import multinomial, ordinal

CLASSES = 4


def draw(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw C, the share of L1, and a tolerance."""
    return {
        "loss": "multinomial",
        "C": float(10 ** rng.uniform(-2, 1)),
        "tol": float(10 ** rng.uniform(-7, -4)),
        "penalty": {"l1_ratio": float(rng.choice([0.0, 0.0, 0.5, 1.0]))},
    }


def draw_ordinal(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw the same of ordered classes, some without a penalty."""
    drawn = {**draw(rng, columns), "loss": "ordinal", "penalty": {}}
    return {**drawn, "C": None} if rng.random() < 0.25 else drawn


def targets(case: Case, X: np.ndarray, rng: np.random.Generator, k: int) -> Block:
    """Classes that are more or less likely by a number, or by one for each of them."""
    if case.options["loss"] == "ordinal":
        z = X @ truth(case) + rng.logistic(size=len(X))
        return {"y": np.digitize(z, [-1.0, 0.5, 2.0])}
    w = np.random.default_rng(case.number).standard_normal((CLASSES, case.columns))
    return {"y": (X @ w.T + rng.gumbel(size=(len(X), CLASSES))).argmax(axis=1)}


def _C(case: Case) -> float:
    """Return C; None stands for infinity, of which there is no JSON."""
    return math.inf if case.options["C"] is None else case.options["C"]


def fit(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit by `daskglm.fit`."""
    asked.begin()
    model = daskglm.fit(
        **data,
        loss=case.options["loss"],
        C=_C(case),
        tol=case.options["tol"],
        **case.options["penalty"],
        callback=asked.callback,
        **asked.where,
    )
    return Answer(model, model.report_.repairs)


def check(case: Case, data: Block, model: Any) -> None:
    """The model is optimal."""
    objective = multinomial(data["X"], data["y"], _C(case), alpha=1.0, **case.options["penalty"])
    w = np.column_stack([model.coef_, model.intercept_]).ravel()
    _check(case, objective, w, model)


def check_ordinal(case: Case, data: Block, model: Any) -> None:
    """The same of ordered classes."""
    C, strength = (1.0, 0.0) if case.options["C"] is None else (_C(case), 1.0)
    objective = ordinal(data["X"], data["y"], C, strength)
    _check(case, objective, np.append(np.ravel(model.coef_), model.thresholds_), model)


def _check(case: Case, objective: Any, w: np.ndarray, model: Any) -> None:
    single = case.dtype == "float32"
    check_fit(objective, w, model.report_, case.options["tol"], single_precision=single)


SPOILS = {**NAN, **ONE_CLASS}
KINDS = {
    "multinomial": Kind(
        draw, targets, fit, check, spoils=SPOILS, tells_iterations=True, most_rows=6_000, share=2.0
    ),
    "ordinal": Kind(
        draw_ordinal, targets, fit, check_ordinal, spoils=SPOILS, tells_iterations=True, share=2.0
    ),
}
