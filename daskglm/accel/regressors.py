"""Families, `HuberRegressor`, `QuantileRegressor` and `LinearSVR`."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.accel.record import (
    FLOATS,
    VERBOSE,
    WARM_START,
    Asked,
    Record,
    Rule,
    fewer_steps,
    refused_by_liblinear,
    with_constant,
    without_constant,
)


def _intercept(asked: Asked, value: Any) -> Any:
    return value if asked.model.fit_intercept else 0.0


def _glm_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    given = {"alpha": model.alpha, "fit_intercept": model.fit_intercept}
    if "power" in model.get_params(deep=False):
        given |= {"power": model.power, "link": model.link}
    return given


def _glm_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    return {
        # its `score` and `predict` are of this object
        "_base_loss": asked.model._get_loss(),
        "coef_": asked.numbers(ours.coef_),
        "intercept_": _intercept(asked, asked.numbers(ours.intercept_)),
        "n_iter_": int(ours.n_iter_),
    }


def _glm(name: str) -> Record:
    return Record(
        name=name,
        checks={
            **FLOATS,
            "accept_sparse": ["csc", "csr"],
            "y_numeric": True,
            "multi_output": False,
        },
        parameters=_glm_parameters,
        attributes=_glm_attributes,
        by_parameters=(
            fewer_steps(100),
            WARM_START,
            VERBOSE,
            Rule(
                "a solver of the caller's own",
                lambda asked: asked.model.solver not in ("lbfgs", "newton-cholesky"),
            ),
        ),
    )


def _huber_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    residual = np.abs(asked.y - asked.X @ ours.coef_ - ours.intercept_)
    return {
        "coef_": ours.coef_,
        "intercept_": _intercept(asked, ours.intercept_),
        "scale_": ours.scale_,
        "outliers_": residual > ours.scale_ * asked.model.epsilon,
        "n_iter_": int(ours.n_iter_),
    }


HUBER = Record(
    name="HuberRegressor",
    checks={**FLOATS, "accept_sparse": ["csr"], "y_numeric": True},
    parameters=lambda asked: {
        "epsilon": asked.model.epsilon,
        "alpha": asked.model.alpha,
        "fit_intercept": asked.model.fit_intercept,
    },
    attributes=_huber_attributes,
    by_parameters=(fewer_steps(100), WARM_START),
)

QUANTILE = Record(
    name="QuantileRegressor",
    exact=True,
    checks={"accept_sparse": ["csc", "csr", "coo"], "y_numeric": True, "multi_output": False},
    parameters=lambda asked: {
        "quantile": asked.model.quantile,
        "alpha": asked.model.alpha,
        "fit_intercept": asked.model.fit_intercept,
    },
    attributes=lambda asked, ours: {
        "coef_": ours.coef_,
        "intercept_": _intercept(asked, ours.intercept_),
        "n_iter_": int(ours.n_iter_),
    },
    by_parameters=(
        Rule(
            "solver_options, or a solver other than those of HiGHS",
            lambda asked: (
                asked.model.solver_options is not None
                or asked.model.solver not in ("highs", "highs-ds", "highs-ipm")
            ),
        ),
    ),
)


def _svr_refused(asked: Asked) -> bool:
    return bool(
        asked.model.loss == "epsilon_insensitive" and asked.model.dual not in (True, "auto")
    )


SVR = Record(
    name="LinearSVR",
    folder="svm",
    checks={
        "dtype": np.float64,
        "accept_sparse": "csr",
        "order": "C",
        "accept_large_sparse": False,
    },
    parameters=lambda asked: {
        "C": asked.model.C,
        "epsilon": asked.model.epsilon,
        "loss": asked.model.loss,
        "fit_intercept": False,
    },
    attributes=lambda asked, ours: {
        "n_iter_": int(ours.n_iter_),
        **without_constant(asked, np.atleast_2d(ours.coef_)),
        "coef_": without_constant(asked, np.atleast_2d(ours.coef_))["coef_"].ravel(),
    },
    by_parameters=(
        fewer_steps(1000),
        VERBOSE,
        Rule("a combination that LIBLINEAR refuses", _svr_refused),
    ),
    by_rows=(Rule("what LIBLINEAR refuses", refused_by_liblinear),),
    rows=with_constant,
    has_corners=lambda asked: bool(asked.model.loss == "epsilon_insensitive"),
)

RECORDS = (
    _glm("PoissonRegressor"),
    _glm("GammaRegressor"),
    _glm("TweedieRegressor"),
    HUBER,
    QUANTILE,
    SVR,
)
