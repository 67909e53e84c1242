"""Jobs of families: fits with all penalties, a parameter that is estimated, and inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import daskglm
from benchmarks.soak.cases import (
    CURRENT_CLIENT,
    NAN,
    OUTSIDE,
    Answer,
    Asked,
    Block,
    Case,
    Kind,
    beside,
    truth,
)
from benchmarks.soak.checks import check_fit, check_optimal
from benchmarks.soak.reference import (
    FAMILIES,
    linear,
    negative_binomial,
    optimum,
    standard_errors,
)

# Standard deviation of the margins: means of log links are then within a factor of some ten.
SPREAD = 0.5
THETA = 0.7
DRAWN: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "gaussian": lambda mu, rng: mu + rng.standard_normal(len(mu)),
    "poisson": lambda mu, rng: rng.poisson(mu).astype(float),
    "gamma": lambda mu, rng: rng.gamma(5.0, mu / 5.0),
    "inverse_gaussian": lambda mu, rng: rng.wald(mu, 4.0),
    "tweedie(1.5)": lambda mu, rng: _compound(mu, rng),
    "negative_binomial(0.7)": lambda mu, rng: rng.poisson(
        rng.gamma(1.0 / THETA, mu * THETA)
    ).astype(float),
}
LOG_LINK = tuple(name for name in DRAWN if name != "gaussian")
# Whose targets have a domain, so that some are outside; least squares has jobs of its own.
BOUNDED = tuple(name for name in FAMILIES if name != "gaussian")
# In the margin, with the link that is drawn.
NOT_CONVEX = ("inverse_gaussian",)
TRIALS = 8
COVARIANCES = ("classical", "HC0", "HC1", "HC2", "HC3", "cluster")
CLUSTERS = 40
# Of standard errors. The fit's own tolerance of 1e-10 moves them by some 1e-7; Hessians of float32
# rows are added up in single precision within tiles.
SAME_ERRORS = {"float64": 1e-5, "float32": 1e-3}
# By how much the logarithm of the likelihood may be less than at a theta nearby: a statistician
# sees a half.
SAME_LIKELIHOOD = 1e-4


def _compound(mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return sums of a Poisson number of gamma variables, zeros among them."""
    number = rng.poisson(1.5, len(mu))
    return np.where(number > 0, rng.gamma(2.0 * np.maximum(number, 1), mu / 3.0), 0.0)


# ---- drawn
def _ridge(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {}


def _none(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {"alpha": 0.0}


def _lasso(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {"l1_ratio": 1.0}


def _elastic_net(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {"l1_ratio": 0.5}


def _factors(rng: np.random.Generator, d: int) -> dict[str, Any]:
    """The first feature is free."""
    factors = [0.0, 1.0, *rng.choice([0.0, 0.5, 2.0], d - 2)]
    return {"penalty_factor": list(map(float, factors)), "l1_ratio": float(rng.choice([0.0, 0.7]))}


def _bounds(rng: np.random.Generator, d: int) -> dict[str, Any]:
    low, high = -rng.uniform(0.0, 0.1), rng.uniform(0.05, 0.2)
    return {
        "lower_bounds": float(low),
        "upper_bounds": float(high),
        "l1_ratio": float(rng.choice([0.0, 0.5])),
    }


def _groups(rng: np.random.Generator, d: int) -> dict[str, Any]:
    return {"l1_ratio": 1.0, "groups": [j // 3 for j in range(d)]}


PENALTIES = (_none, _ridge, _lasso, _elastic_net, _factors, _bounds, _groups)


def draw_penalty(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw a penalty, as daskglm's arguments; they go into JSON as they are."""
    how = PENALTIES[int(rng.integers(len(PENALTIES)))]
    return {"alpha": float(10 ** rng.uniform(-4, -1.5)), **how(rng, columns)}


def draw_family(
    rng: np.random.Generator, among: tuple[str, ...] = tuple(FAMILIES)
) -> dict[str, Any]:
    """Draw a family and what is beside the rows."""
    family = str(rng.choice(among))
    names = ["sample_weight", "offset", *(["exposure"] if family in LOG_LINK else [])]
    return {
        "family": family,
        "link": "probit" if family == "binomial" else "auto",
        "beside": [name for name in names if rng.random() < 0.4],
    }


def draw(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw a family, a penalty and a tolerance."""
    return {
        **draw_family(rng, BOUNDED),
        "penalty": draw_penalty(rng, columns),
        "tol": float(10 ** rng.uniform(-8, -4)),
        "solver": "auto",
    }


def draw_estimated(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw what is beside counts whose theta is estimated; no penalty."""
    return {
        **draw_family(rng),
        "family": "negative_binomial(estimate)",
        "link": "auto",
        "penalty": {"alpha": 0.0},
        "tol": 1e-8,
        "solver": "auto",
    }


def draw_inference(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw a family and a covariance."""
    drawn = draw_family(rng)
    convex = drawn["family"] not in NOT_CONVEX
    return {
        **drawn,
        "penalty": {"alpha": 0.0},
        "tol": 1e-10,
        "solver": "auto",
        "covariance": str(rng.choice(COVARIANCES)),
        "observed": bool(convex and rng.random() < 0.3),
        # whether the fault comes amid the fit, or amid the inference
        "amid": str(rng.choice(["fit", "inference"])),
    }


def margins(case: Case, X: np.ndarray) -> np.ndarray:
    """Return margins of the truth."""
    w = truth(case)
    return SPREAD * (X @ w) / np.linalg.norm(w)


def targets(case: Case, X: np.ndarray, rng: np.random.Generator, k: int) -> Block:
    """Targets with the mean of the family at the margins, and what is beside."""
    n, family = len(X), str(case.options["family"]).replace("estimate", str(THETA))
    drawn = {
        "sample_weight": rng.uniform(0.5, 2.0, n),
        "offset": rng.uniform(-0.3, 0.3, n),
        "exposure": rng.uniform(0.2, 3.0, n),
    }
    made: Block = {name: drawn[name] for name in case.options["beside"]}
    z = 0.2 + margins(case, X) + shift(made)
    if family == "binomial":
        trials = rng.integers(1, TRIALS, n)
        counts = np.arange(TRIALS) < trials[:, None]
        y = (counts & (rng.standard_normal((n, TRIALS)) < z[:, None])).sum(axis=1) / trials
        if "sample_weight" in made:
            made["sample_weight"] = trials.astype(float)
    else:
        y = DRAWN[family](z if family == "gaussian" else np.exp(z), rng)
    if "covariance" in case.options:
        made["clusters"] = rng.integers(0, CLUSTERS, n)
    return {"y": y, **made}


def shift(data: Block) -> Any:
    """Return what is added to the margins: the offset, and the logarithm of the exposure."""
    return data.get("offset", 0.0) + np.log(data.get("exposure", 1.0))


# ---- run
def arguments(case: Case) -> dict[str, Any]:
    """Return the arguments that are the same for fits and paths."""
    named = {name: case.options[name] for name in ("family", "link", "tol")}
    return {**named, **as_arrays(case.options["penalty"])}


def as_arrays(penalty: dict[str, Any]) -> dict[str, Any]:
    """Return a penalty with arrays for lists: a list of groups would be of their members."""
    return {n: np.array(v) if isinstance(v, list) else v for n, v in penalty.items()}


def _fit(case: Case, data: Block, asked: Asked) -> Any:
    return daskglm.fit(
        data["X"],
        data["y"],
        **beside(data),
        **arguments(case),
        solver=case.options["solver"],
        callback=asked.callback,
        **asked.where,
    )


def fit(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit by `daskglm.fit`."""
    asked.begin()
    model = _fit(case, data, asked)
    return Answer(model, model.report_.repairs)


def fit_regressor(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit the estimator, and score."""
    model = daskglm.GeneralizedLinearRegressor(**arguments(case))
    asked.begin()
    model.fit(data["X"], data["y"], **beside(data))
    if case.fault != "kill scheduler":
        model.score(data["X"], data["y"], **beside(data))
    return Answer(model, model.report_.repairs)


def infer(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit, and infer; the fault comes amid the one or the other."""
    amid_fit = case.options["amid"] == "fit"
    if amid_fit:
        asked.begin()
    model = _fit(case, data, asked)
    if not amid_fit:
        asked.begin()
    covariance = case.options["covariance"]
    found = model.inference(
        data["X"],
        data["y"],
        **beside(data),
        covariance=covariance,
        observed=case.options["observed"],
        clusters=data["clusters"] if covariance == "cluster" else None,
        **asked.where,
    )
    return Answer((model, found), model.report_.repairs)


# ---- right?
def objective_of(case: Case, data: Block, **penalty: Any) -> Any:
    """Return the objective: the weighted mean of half unit deviances, and a penalty."""
    s = data.get("sample_weight", np.ones(len(data["y"])))
    law = FAMILIES[case.options["family"]].law
    found = linear(data["X"], data["y"], law, s / s.sum(), shift(data), **penalty)
    alpha = penalty.get("alpha", 0.0)
    scale = 1.0 / alpha if alpha > 0.0 else float(s.sum())
    return replace(found, scale=scale, convex=case.options["family"] not in NOT_CONVEX)


def coefficients(model: Any) -> np.ndarray:
    """Return coefficients and intercept as one vector."""
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def check(case: Case, data: Block, model: Any) -> None:
    """The model is optimal."""
    check_fit(
        objective_of(case, data, **case.options["penalty"]),
        coefficients(model),
        model.report_,
        case.options["tol"],
        single_precision=case.dtype == "float32",
    )


def check_estimated(case: Case, data: Block, model: Any) -> None:
    """No theta nearby, with coefficients of its own, has a larger likelihood."""
    from scipy.stats import nbinom

    y, s = data["y"], data.get("sample_weight", np.ones(len(data["y"])))

    def likelihood(theta: float) -> float:
        law = negative_binomial(theta).law
        w, _ = optimum(linear(data["X"], y, law, s, shift(data), alpha=0.0))
        mu = np.exp(data["X"] @ w[:-1] + w[-1] + shift(data))
        return float(s @ nbinom.logpmf(y, 1.0 / theta, 1.0 / (1.0 + theta * mu)))

    found = likelihood(model.theta_)
    nearby = max(likelihood(model.theta_ * (1.0 + step)) for step in (-0.02, -1e-3, 1e-3, 0.02))
    assert found >= nearby - SAME_LIKELIHOOD, f"theta={model.theta_}: {found!r} < {nearby!r}"
    law = negative_binomial(model.theta_).law
    objective = linear(data["X"], y, law, s, shift(data), alpha=0.0)
    # the report is of the last theta but one
    check_optimal(objective, coefficients(model), model.report_, case.options["tol"])


def check_inference(case: Case, data: Block, found: Any) -> None:
    """Standard errors are those at NumPy's optimum."""
    model, inferred = found
    check(case, data, model)
    w, _ = optimum(objective_of(case, data, alpha=0.0))
    wanted = standard_errors(
        data["X"],
        data["y"],
        FAMILIES[case.options["family"]],
        data.get("sample_weight", np.ones(len(data["y"]))),
        shift(data),
        w,
        covariance=case.options["covariance"],
        observed=case.options["observed"],
        clusters=data["clusters"],
    )
    off = np.abs(inferred.bse.to_numpy() / wanted - 1.0).max()
    assert off <= SAME_ERRORS[case.dtype], f"standard errors are off by {off:.1e}"


SPOILS = {**NAN, **OUTSIDE}
KINDS = {
    "family": Kind(draw, targets, fit, check, spoils=SPOILS, tells_iterations=True, share=4.0),
    "family regressor": Kind(
        draw, targets, fit_regressor, check, storages=CURRENT_CLIENT, spoils=NAN, share=2.0
    ),
    "estimated theta": Kind(
        draw_estimated, targets, fit, check_estimated, spoils=SPOILS, tells_iterations=True
    ),
    "inference": Kind(draw_inference, targets, infer, check_inference, spoils=NAN, share=3.0),
}
