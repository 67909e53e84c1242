"""`Ridge`, `Lasso`, `ElasticNet` and their cross-validated forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.accel.leave_one_out import LeaveOneOut
from daskglm.accel.record import (
    FLOATS,
    VERBOSE,
    WARM_START,
    Asked,
    Record,
    Rule,
    fewer_steps,
)

# What scikit-learn calls the solver that it takes by itself.
DIRECT, OF_SPARSE, OF_BOUNDS = "cholesky", "sparse_cg", "lbfgs"
COUNTING = ("lsqr", "sag", "saga")
# Those that fit an intercept of sparse rows without a warning.
SPARSE_WITH_INTERCEPT = ("auto", "lsqr", "sparse_cg")


def _resolved(asked: Asked) -> str:
    """The solver that scikit-learn's `solver_` names."""
    model = asked.model
    if model.positive:
        return OF_BOUNDS
    if model.solver != "auto":
        if asked.sparse and model.fit_intercept and model.solver != "lsqr":
            return OF_SPARSE
        return str(model.solver)
    return OF_SPARSE if asked.sparse else DIRECT


def _ridge_refuses(asked: Asked) -> bool:
    model, solver = asked.model, asked.model.solver
    if model.positive:
        return solver not in ("auto", "lbfgs")
    if solver == "lbfgs":
        return True
    if asked.sparse:
        return solver == "svd" or (model.fit_intercept and solver not in SPARSE_WITH_INTERCEPT)
    return False


def _ridge_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    return {
        "alpha": model.alpha,
        "fit_intercept": model.fit_intercept,
        "positive": model.positive,
    }


def _coefficients(asked: Asked, ours: Any) -> dict[str, Any]:
    intercept = asked.numbers(ours.intercept_) if asked.model.fit_intercept else 0.0
    if asked.model.fit_intercept and np.ndim(asked.y) == 2:
        intercept = np.atleast_1d(intercept)
    return {"coef_": asked.numbers(ours.coef_), "intercept_": intercept}


def _ridge_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    solver = _resolved(asked)
    steps = np.atleast_1d(np.asarray(ours.n_iter_, dtype=np.int32))
    return {
        **_coefficients(asked, ours),
        "n_iter_": steps if solver in COUNTING else None,
        "solver_": solver,
    }


RIDGE = Record(
    name="Ridge",
    checks={
        **FLOATS,
        "accept_sparse": ["csr", "csc", "coo"],
        "multi_output": True,
        "y_numeric": True,
    },
    parameters=_ridge_parameters,
    attributes=_ridge_attributes,
    exact=True,
    by_parameters=(
        fewer_steps(100),
        Rule("alpha=0: no penalty", lambda asked: not np.all(np.asarray(asked.model.alpha) > 0)),
    ),
    by_rows=(
        Rule("a solver that scikit-learn refuses or warns of for these rows", _ridge_refuses),
    ),
)


def _ridge_cv_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    return {
        "alphas": np.atleast_1d(np.asarray(model.alphas, dtype=float)),
        "fit_intercept": model.fit_intercept,
        "each": model.alpha_per_target,
        "store": model.store_cv_results,
    }


def _ridge_cv_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    by_column = asked.model.alpha_per_target and np.ndim(asked.y) == 2
    found = {
        **_coefficients(asked, ours),
        "alpha_": ours.alpha_,
        "best_score_": np.atleast_1d(ours.best_score_) if by_column else ours.best_score_,
    }
    if ours.errors_ is None:
        return found
    errors = asked.numbers(ours.errors_)
    return found | {"cv_results_": errors[:, 0] if np.ndim(asked.y) == 1 else errors}


RIDGE_CV = Record(
    name="RidgeCV",
    ours=LeaveOneOut,
    checks=RIDGE.checks,
    parameters=_ridge_cv_parameters,
    attributes=_ridge_cv_attributes,
    exact=True,
    by_parameters=(
        Rule("scoring, of rows left out", lambda asked: asked.model.scoring is not None),
        Rule("gcv_mode='svd': a decomposition of X itself", lambda a: a.model.gcv_mode == "svd"),
        Rule("alphas that are not positive", lambda a: not np.all(np.asarray(a.model.alphas) > 0)),
    ),
    by_rows=(
        Rule(
            "no more rows than columns: scikit-learn decomposes XX'",
            lambda asked: asked.X.shape[0] <= asked.X.shape[1],
        ),
    ),
    is_search=lambda model: model.cv is not None,
)


def _steps(ours: Any) -> Any:
    """Steps of a fit, or a list of those of each target."""
    if np.ndim(ours.n_iter_) == 0:
        return int(ours.n_iter_)
    return [int(steps) for steps in ours.n_iter_]


def _net_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    given = {
        "alpha": model.alpha,
        "fit_intercept": model.fit_intercept,
        "positive": model.positive,
    }
    return given | ({} if _is_lasso(model) else {"l1_ratio": model.l1_ratio})


def _is_lasso(model: Any) -> bool:
    """Whether the class has no parameter l1_ratio."""
    return "l1_ratio" not in model.get_params(deep=False)


def _net_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    return {
        **_coefficients(asked, ours),
        "n_iter_": _steps(ours),
        "dual_gap_": asked.numbers(ours.dual_gap_),
    }


GIVEN_GRAM = Rule(
    "a Gram matrix is given", lambda asked: not isinstance(asked.model.precompute, (bool, str))
)
NET_CHECKS = {**FLOATS, "accept_sparse": "csc", "accept_large_sparse": False, "y_numeric": True}


def _net(name: str) -> Record:
    return Record(
        name=name,
        checks={**NET_CHECKS, "multi_output": True},
        parameters=_net_parameters,
        attributes=_net_attributes,
        by_parameters=(
            fewer_steps(1000),
            WARM_START,
            GIVEN_GRAM,
            Rule("alpha=0: no penalty", lambda asked: not asked.model.alpha > 0),
            Rule(
                "l1_ratio below 0.01: scikit-learn advises against it",
                lambda asked: getattr(asked.model, "l1_ratio", 1.0) < 0.01,
            ),
        ),
    )


def _alphas(model: Any) -> Any:
    """Return the strengths; the default of scikit-learn 1.7 and 1.8 is a word for 100 of them."""
    return 100 if isinstance(model.alphas, str) else model.alphas


def _cv_parameters(asked: Asked) -> dict[str, Any]:
    model = asked.model
    names = ["eps", "fit_intercept", "cv", "positive"]
    names += [] if _is_lasso(model) else ["l1_ratio"]
    return {"alphas": _alphas(model), **{name: getattr(model, name) for name in names}}


def _cv_attributes(asked: Asked, ours: Any) -> dict[str, Any]:
    found = {
        **_coefficients(asked, ours),
        "n_iter_": int(ours.n_iter_),
        "dual_gap_": asked.numbers(ours.dual_gap_),
        "alpha_": ours.alpha_,
        "alphas_": ours.alphas_,
        "mse_path_": np.squeeze(ours.mse_path_),
    }
    return found | ({} if _is_lasso(asked.model) else {"l1_ratio_": ours.l1_ratio_})


def _unlike_grid(asked: Asked) -> bool:
    """Whether scikit-learn 1.7 or 1.8 warns of the strengths, or one of them is no penalty."""
    alphas = _alphas(asked.model)
    deprecated = getattr(asked.model, "n_alphas", "deprecated") != "deprecated"
    return deprecated or alphas is None or not np.all(np.asarray(alphas, dtype=float) > 0)


def _net_cv(name: str) -> Record:
    return Record(
        name=name,
        checks=NET_CHECKS,
        parameters=_cv_parameters,
        attributes=_cv_attributes,
        by_parameters=(
            fewer_steps(1000),
            GIVEN_GRAM,
            VERBOSE,
            Rule("alphas that are none, or 0", _unlike_grid),
            Rule(
                "l1_ratio below 0.01: scikit-learn advises against it",
                lambda asked: np.min(getattr(asked.model, "l1_ratio", 1.0)) < 0.01,
            ),
        ),
        by_rows=(Rule("a y that is constant", lambda asked: np.ptp(asked.y) == 0),),
    )


RECORDS = (
    RIDGE,
    RIDGE_CV,
    _net("Lasso"),
    _net("ElasticNet"),
    _net_cv("LassoCV"),
    _net_cv("ElasticNetCV"),
)
