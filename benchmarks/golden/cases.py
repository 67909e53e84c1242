"""The fits: cases that have most pairs of shape, loss, penalty, storage, solver and view.

Only the public interface is used, so that the same cases run on other commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

import daskglm

COUNT = 400
# Rows and features of a case, by its view: working sets want many features, samples many values.
FEATURES = 9
SIZES = {"columns": (80, 400), "sample": (24_000, 50)}
USUAL = (240, FEATURES)
CANDIDATES = 20  # drawn for each case, of which the one with most new pairs is taken

SHAPES = ("one", "classes", "multinomial", "ordinal", "strengths")
CLASSIFIERS = ("logistic", "squared_hinge", "smoothed_hinge", "hinge")
NUMBERS = ("squared", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive")
FAMILIES = (
    *("poisson", "gamma", "binomial", "negative_binomial(0.5)", "tweedie(1.5)", "tweedie(2.5)"),
    *("inverse_gaussian", "gaussian_log", "binomial_probit", "binomial_cloglog", "poisson_sqrt"),
    *("gamma_inverse", "poisson_identity"),
)
LOSSES = (*CLASSIFIERS, *NUMBERS, *FAMILIES)
PENALTIES: dict[str, dict[str, Any]] = {
    "ridge": {},
    "none": {"C": np.inf},
    "free feature": {"penalty_factor": "all but one"},
    "lasso": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.5},
    "standardized": {"l1_ratio": 0.5, "standardize": True},
    "groups": {"l1_ratio": 1.0, "groups": "threes"},
    "bounds": {"lower_bounds": -0.1, "upper_bounds": 0.4},
    "matrix": {"P2": "neighbours"},
}
STORAGES = (
    "dense",
    "columns first",
    "csr",
    "float32",
    "csr float32",
    "blocks",
    "weights",
    "offset",
)
SMOOTH_SOLVERS = ("auto", "newton", "tron", "lbfgs", "gd")
CORNERS = ("hinge", "quantile", "epsilon_insensitive")
WITH_DUAL = (*CLASSIFIERS, *NUMBERS, "poisson", "gamma", "binomial", "negative_binomial(0.5)")
DUAL_PENALTIES = ("ridge", "lasso", "elastic net", "groups")
VIEWS = ("whole", "folds", "path", "sample", "columns")


@dataclass(frozen=True)
class Case:
    """One fit, by the names of what it is made of."""

    shape: str
    loss: str
    penalty: str
    storage: str
    solver: str
    view: str

    def __str__(self) -> str:
        return ", ".join(astuple(self))


def cases(count: int = COUNT) -> list[Case]:
    """Return so many cases, always the same."""
    rng = np.random.default_rng(7)
    seen: set[tuple[str, str]] = set()
    found: dict[Case, None] = {}
    while len(found) < count:
        fresh = [case for case in (_draw(rng) for _ in range(CANDIDATES)) if case not in found]
        best = max(fresh, key=lambda case: len(_pairs(case) - seen))
        seen |= _pairs(best)
        found[best] = None
    return list(found)


def _pairs(case: Case) -> set[tuple[str, str]]:
    return set(itertools.combinations((f"{k} {v}" for k, v in vars(case).items()), 2))


def _draw(rng: np.random.Generator) -> Case:
    """Draw a case whose parts mostly go together; a refusal is an answer, too."""
    shape = _one(rng, SHAPES)
    view = _one(rng, VIEWS if shape == "one" else ("whole", "columns"))
    losses: tuple[str, ...] = LOSSES
    if view in ("folds", "path"):
        losses = ("logistic", "squared", *FAMILIES)
    elif shape != "one":
        losses = {"classes": CLASSIFIERS, "strengths": (*CLASSIFIERS, *NUMBERS)}.get(
            shape, ("logistic",)
        )
    loss = _one(rng, losses)
    kinks = rng.random() < 0.5
    penalty = _one(rng, [name for name in PENALTIES if _has_kinks(name) == kinks])
    solvers: tuple[str, ...] = ("auto",)
    if view not in ("folds", "path") and loss not in CORNERS:
        solvers = ("auto", "proximal_newton", "owlqn") if kinks else SMOOTH_SOLVERS
    if loss in WITH_DUAL and shape != "multinomial" and penalty in DUAL_PENALTIES:
        solvers = (*solvers, "sdca") if view not in ("folds", "path") else solvers
    return Case(shape, loss, penalty, _one(rng, STORAGES), _one(rng, solvers), view)


def _one(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _has_kinks(penalty: str) -> bool:
    return "l1_ratio" in PENALTIES[penalty] or penalty == "bounds"


@dataclass
class _Rows:
    X: Any
    y: Any
    sample_weight: Any
    offset: Any

    def sides(self) -> dict[str, Any]:
        sides = {"sample_weight": self.sample_weight, "offset": self.offset}
        return {name: side for name, side in sides.items() if side is not None}


def _rows(case: Case, seed: int) -> _Rows:
    rng = np.random.default_rng(seed)
    n, d = SIZES.get(case.view, USUAL)
    if case.view == "columns" and case.loss in CORNERS:  # each point solves many systems
        n, d = n // 2, d // 2
    X = rng.standard_normal((n, d)) * np.logspace(0.0, -1.0, d)
    if "csr" in case.storage:
        X *= rng.random((n, d)) < 0.3
    z = X[:, :FEATURES] @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(n)
    X = X.astype(np.float32 if "float32" in case.storage else np.float64)
    stored: Any = sp.csr_matrix(X) if "csr" in case.storage else X
    y: Any = _targets(case, z, rng)
    weight = 0.5 + rng.random(n) if case.storage == "weights" else None
    offset = 0.1 * rng.standard_normal(n) if case.storage == "offset" else None
    if case.storage == "columns first":
        stored = np.asfortranarray(X)
    if case.storage == "blocks":
        stored, y = da.from_array(X, chunks=(n // 3, d)), da.from_array(y, chunks=n // 3)
    return _Rows(stored, y, weight, offset)


def _targets(case: Case, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if case.shape in ("classes", "multinomial", "ordinal"):
        return np.digitize(z, [-0.5, 0.5])
    if case.loss in CLASSIFIERS:
        return (z > 0.3 * rng.standard_normal(len(z))).astype(int)
    if case.loss in NUMBERS:
        return z
    if case.loss.startswith("binomial"):
        return np.clip(np.round(1.0 / (1.0 + np.exp(-z)), 1), 0.1, 0.9)
    mean = np.exp(0.3 * np.clip(z, -3.0, 3.0))
    if case.loss.startswith(("poisson", "negative_binomial", "tweedie(1.5)")):
        return rng.poisson(2.0 * mean).astype(float)
    return mean * rng.gamma(3.0, 1.0 / 3.0, len(z)) + 1e-3


def _settings(case: Case, d: int) -> dict[str, Any]:
    given = dict(PENALTIES[case.penalty])
    factors = np.r_[0.0, np.ones(d - 1)]
    neighbours = 2.0 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)
    values = {
        "all but one": factors,
        "threes": np.arange(d) // 3,
        "neighbours": sp.csr_matrix(neighbours),
    }
    return {
        key: values.get(value, value) if isinstance(value, str) else value
        for key, value in given.items()
    }


def fits(case: Case, seed: int) -> Any:
    """Fit a case in this process, on one thread; return the model, or models, or the path."""
    rows = _rows(case, seed)
    given = _settings(case, rows.X.shape[1])
    C = given.pop("C", 0.5)
    how = {**given, **rows.sides()}
    far = {"tol": 1e-4, "max_iter": 20} if case.loss in CORNERS else {"tol": 1e-8, "max_iter": 60}
    alone: dict[str, Any] = {"solver": case.solver, "random_state": 0, "n_jobs": 1, **far}
    if case.view == "path":
        how["l1_ratio"] = how.get("l1_ratio", 0.0)
        return daskglm.regularization_path(rows.X, rows.y, n_alphas=5, **_family(case), **how)
    if case.view == "folds":
        return _folds(case, rows, given)
    if case.shape == "multinomial":
        model = daskglm.LogisticRegression(C=C, multi_class="multinomial", **alone, **given)
        return model.fit(rows.X, rows.y, **rows.sides())
    if case.shape == "ordinal":
        alone.pop("random_state")
        return daskglm.OrdinalRegression(C=C, **alone, **given).fit(rows.X, rows.y, **rows.sides())
    if case.shape == "strengths":
        C = [0.1, 1.0]
    return daskglm.fit(rows.X, rows.y, loss=case.loss, C=C, **alone, **how)


def _folds(case: Case, rows: _Rows, given: dict[str, Any]) -> Any:
    ratio = given.pop("l1_ratio", 0.0)
    alone: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
    if case.loss == "logistic":
        model = daskglm.LogisticRegressionCV(Cs=3, cv=3, l1_ratios=[ratio], **alone, **given)
    elif case.loss == "squared":
        model = daskglm.ElasticNetCV(l1_ratio=[ratio], alphas=3, cv=3, **alone, **given)
    else:
        model = daskglm.GeneralizedLinearRegressorCV(
            l1_ratio=[ratio], alphas=3, cv=3, **alone, **_family(case), **given
        )
    return model.fit(rows.X, rows.y, **rows.sides())


def _family(case: Case) -> dict[str, str]:
    """Return the loss of a case as family and link."""
    if case.loss == "logistic":
        return {"loss": "logistic"}
    if case.loss == "squared":
        return {"family": "gaussian"}
    for link in ("log", "probit", "cloglog", "sqrt", "inverse", "identity"):
        if case.loss.endswith(f"_{link}"):
            return {"family": case.loss.removesuffix(f"_{link}"), "link": link}
    return {"family": case.loss}
