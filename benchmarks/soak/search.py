"""Jobs that try many strengths: regularization paths, and cross-validation of families."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import daskglm
from benchmarks.soak import families
from benchmarks.soak.cases import (
    CURRENT_CLIENT,
    NAN,
    Answer,
    Asked,
    Block,
    Case,
    Kind,
    beside,
)
from benchmarks.soak.checks import UNPROVED, check_converged, check_fit, check_gap
from benchmarks.soak.families import as_arrays, coefficients, draw_family, objective_of, targets

# Strengths of a path, from the largest to a hundredth of it.
STRENGTHS, SHARE = 6, 1e-2
FOLDS = 3


# ---- drawn
def draw_path(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw a family and what a path of it has beside strengths."""
    penalty = families.draw_penalty(rng, columns)
    del penalty["alpha"]
    return {
        **draw_family(rng),
        "penalty": {**penalty, "l1_ratio": float(rng.choice([0.5, 1.0]))},
        "tol": float(10 ** rng.uniform(-8, -4)),
    }


def draw_search(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw a family, three strengths and one or two mixes."""
    return {
        **draw_family(rng),
        "penalty": {"l1_ratio": [[0.0], [1.0], [0.5, 1.0]][int(rng.integers(3))]},
        "alphas": [0.1, 0.01, 0.001],
        "tol": float(10 ** rng.uniform(-8, -5)),
    }


def draw_elastic_net(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw least squares."""
    drawn = draw_family(rng)
    kept = [name for name in drawn["beside"] if name == "sample_weight"]
    return {
        "family": "gaussian",
        "beside": kept,
        "penalty": {"l1_ratio": [0.5, 1.0]},
        "tol": float(10 ** rng.uniform(-8, -5)),
    }


# ---- run
def path(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit a path."""
    asked.begin()
    found = daskglm.regularization_path(
        data["X"],
        data["y"],
        **beside(data),
        family=case.options["family"],
        link=case.options["link"],
        tol=case.options["tol"],
        **as_arrays(case.options["penalty"]),
        n_alphas=STRENGTHS,
        eps=SHARE,
        **asked.where,
    )
    return Answer(found, found.report_.repairs)


def search(case: Case, data: Block, asked: Asked) -> Answer:
    """Choose the strength of a family's penalty."""
    model = daskglm.GeneralizedLinearRegressorCV(
        case.options["family"],
        link=case.options["link"],
        alphas=case.options["alphas"],
        l1_ratio=case.options["penalty"]["l1_ratio"],
        cv=FOLDS,
        tol=case.options["tol"],
        random_state=case.number,
    )
    return _fitted(model, data, asked)


def elastic_net(case: Case, data: Block, asked: Asked) -> Answer:
    """Choose strength and mix for least squares."""
    model = daskglm.ElasticNetCV(
        l1_ratio=case.options["penalty"]["l1_ratio"],
        alphas=STRENGTHS,
        cv=FOLDS,
        tol=case.options["tol"],
        random_state=case.number,
    )
    return _fitted(model, data, asked)


def _fitted(model: Any, data: Block, asked: Asked) -> Answer:
    asked.begin()
    model.fit(data["X"], data["y"], **beside(data))
    return Answer(model, model.report_.repairs)


# ---- right?
def check_path(case: Case, data: Block, found: Any) -> None:
    """Strengths fall to a hundredth, and each fit is optimal for its own; its bound is true."""
    alphas, tol = found.alphas, case.options["tol"]
    check_converged(found.report_, convex=case.options["family"] not in families.NOT_CONVEX)
    assert len(alphas) == STRENGTHS, alphas
    assert (np.diff(alphas) < 0).all(), alphas
    assert math.isclose(alphas[-1] / alphas[0], SHARE, rel_tol=1e-6), alphas
    each = zip(alphas, found.coefs, found.intercepts, found.gaps, strict=True)
    for alpha, coef, intercept, gap in each:
        objective = objective_of(case, data, **{**case.options["penalty"], "alpha": alpha})
        w = np.append(coef, intercept)
        check_gap(objective, w, min(gap, tol) if math.isfinite(gap) else UNPROVED * tol)


def _refitted(case: Case, data: Block, model: Any) -> None:
    """The model is optimal for the strength and mix that it chose."""
    chosen = {"alpha": float(model.alpha_), "l1_ratio": float(model.l1_ratio_)}
    objective, w = objective_of(case, data, **chosen), coefficients(model)
    tol = case.options["tol"]
    check_converged(model.report_, convex=objective.convex)
    if chosen["l1_ratio"] == 0.0:  # its report is of the last fit
        single = case.dtype == "float32"
        check_fit(objective, w, model.report_, tol, single_precision=single)
        return
    gap = model.report_.relative_gap
    check_gap(objective, w, tol if math.isfinite(gap) else UNPROVED * tol)


def check_search(case: Case, data: Block, model: Any) -> None:
    """The strength has the least mean deviance over the folds, and the model is optimal for it."""
    assert sorted(model.alphas_) == sorted(case.options["alphas"]), model.alphas_
    assert model.deviance_path_.shape == (len(model.alphas_), FOLDS)
    best = model.alphas_[model.deviance_path_.mean(axis=1).argmin()]
    assert model.alpha_ == best, f"{model.alpha_} was chosen, not {best}"
    assert np.isfinite(model.deviance_path_).all(), model.deviance_path_
    _refitted(case, data, model)


def check_elastic_net(case: Case, data: Block, model: Any) -> None:
    """The pair has the least mean squared error, and the model is optimal for it."""
    means = model.mse_path_.mean(axis=-1)
    r, k = np.unravel_index(means.argmin(), means.shape)
    assert model.alpha_ == model.alphas_[r, k], (model.alpha_, means)
    assert model.l1_ratio_ == case.options["penalty"]["l1_ratio"][r], (model.l1_ratio_, means)
    _refitted(case, data, model)


KINDS = {
    "path": Kind(draw_path, targets, path, check_path, spoils=NAN, most_rows=6_000, share=2.0),
    "family CV": Kind(
        draw_search, targets, search, check_search, storages=CURRENT_CLIENT, spoils=NAN, share=2.0
    ),
    "elastic net CV": Kind(
        draw_elastic_net,
        targets,
        elastic_net,
        check_elastic_net,
        storages=CURRENT_CLIENT,
        spoils=NAN,
    ),
}
