"""What peers return on small problems: `python -m tests.penalised_peers NAME` in the environment
of the package NAME, at its tightest tolerance. A line of JSON for each problem that it solves.

Needs NumPy, SciPy and what the peer needs. Cases that a peer does not know are left out.
"""

import json
import sys
import warnings

import numpy as np

from tests.penalised_cases import ALPHA, CASES, FAMILIES, arguments, rows, targets


def glum(X, y, family, power, case, given):
    from glum import GeneralizedLinearRegressor, NegativeBinomialDistribution

    how = {
        "penalty_factor": "P1",
        "P2": "P2",
        "lower_bounds": "lower_bounds",
        "upper_bounds": "upper_bounds",
        "standardize": "scale_predictors",
        "fit_intercept": "fit_intercept",
        "l1_ratio": "l1_ratio",
    }
    if "groups" in given:
        return None
    options = {how[name]: value for name, value in given.items() if name in how}
    if "P1" in options:
        options["P2"] = options["P1"]
    if given.get("positive"):
        options["lower_bounds"] = np.zeros(X.shape[1])
    for name in {"lower_bounds", "upper_bounds"} & set(options):
        options[name] = np.broadcast_to(options[name], X.shape[1:]).astype(float)
    if family == "tweedie":
        law = f"tweedie ({power})"
    elif family == "negative_binomial":
        law = NegativeBinomialDistribution(power)
    else:
        law = family
    model = GeneralizedLinearRegressor(
        family=law,
        link={"gaussian": "identity", "binomial": "logit"}.get(family, "log"),
        alpha=ALPHA,
        gradient_tol=1e-12,
        max_iter=100,
        **({"l1_ratio": 1.0} | options),
    )
    model.fit(X, y, sample_weight=given.get("sample_weight"), offset=given.get("offset"))
    return model.coef_, model.intercept_


def statsmodels(X, y, family, power, case, given):
    import statsmodels.api as sm

    if set(given) - {"l1_ratio", "penalty_factor", "fit_intercept", "offset"}:
        return None
    if given.get("l1_ratio", 1.0) == 0.0:
        return None
    if family == "tweedie":  # its likelihood is a series, not the deviance
        return None
    families = sm.families
    law = {
        "gaussian": families.Gaussian,
        "binomial": families.Binomial,
        "poisson": families.Poisson,
        "gamma": lambda: families.Gamma(families.links.Log()),
        "negative_binomial": lambda: families.NegativeBinomial(alpha=power),
    }[family]
    alpha = ALPHA * given.get("penalty_factor", np.ones(X.shape[1]))
    if given.get("fit_intercept", True):
        X, alpha = np.column_stack([X, np.ones(len(y))]), np.append(alpha, 0.0)
    model = sm.GLM(y, X, family=law(), offset=given.get("offset"))
    w = model.fit_regularized(
        alpha=alpha,
        L1_wt=given.get("l1_ratio", 1.0),
        maxiter=100_000,
        cnvrg_tol=1e-14,
        zero_tol=1e-14,
    ).params
    return (w[:-1], w[-1]) if given.get("fit_intercept", True) else (w, 0.0)


def celer(X, y, family, power, case, given):
    from celer import ElasticNet, LogisticRegression

    ratio = given.get("l1_ratio", 1.0)
    intercept = given.get("fit_intercept", True)
    if set(given) - {"l1_ratio", "fit_intercept", "positive"} or ratio == 0.0:
        return None
    X = np.asfortranarray(X)
    if family == "binomial" and ratio == 1.0 and not intercept:  # all that it has
        model = LogisticRegression(C=1.0 / (ALPHA * len(y)), tol=1e-14, max_iter=1000).fit(X, y)
        return model.coef_.ravel(), 0.0
    if family != "gaussian":
        return None
    model = ElasticNet(
        ALPHA,
        l1_ratio=ratio,
        tol=1e-15,
        max_iter=1000,
        fit_intercept=intercept,
        positive=given.get("positive", False),
    ).fit(X, y)
    return model.coef_, model.intercept_


def skglm(X, y, family, power, case, given):
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Gamma, Logistic, Poisson, Quadratic, QuadraticGroup
    from skglm.penalties import L1, L1_plus_L2, WeightedGroupL2
    from skglm.solvers import AndersonCD, GroupBCD, ProxNewton
    from skglm.utils.data import grp_converter

    if set(given) - {"l1_ratio", "penalty_factor", "fit_intercept", "groups", "positive"}:
        return None
    ratio, intercept = given.get("l1_ratio", 1.0), given.get("fit_intercept", True)
    datafits = {"gaussian": Quadratic, "poisson": Poisson, "gamma": Gamma, "binomial": Logistic}
    if family not in datafits or ratio == 0.0:
        return None
    law = datafits[family]()
    if "groups" in given:
        if family != "gaussian" or case != "groups":
            return None
        sizes = [len(members) for members in given["groups"]]
        indices, pointers = grp_converter(sizes, X.shape[1])
        law = QuadraticGroup(pointers, indices)
        penalty = WeightedGroupL2(ALPHA, np.sqrt(np.array(sizes, float)), pointers, indices)
        solver = GroupBCD(tol=1e-14, max_iter=1000, fit_intercept=intercept)
    else:
        if "penalty_factor" in given:
            return None  # its weighted penalty has no L2 part
        if given.get("positive") and family != "gaussian":
            return None
        penalty = (
            L1(ALPHA, positive=given.get("positive", False))
            if ratio == 1.0
            else L1_plus_L2(ALPHA, ratio)
        )
        kinds = {"tol": 1e-14, "max_iter": 1000, "fit_intercept": intercept}
        solver = AndersonCD(**kinds) if family == "gaussian" else ProxNewton(**kinds)
    model = GeneralizedLinearEstimator(law, penalty, solver).fit(np.asfortranarray(X), y)
    return np.ravel(model.coef_), np.ravel(model.intercept_)[0]


def adelie(X, y, family, power, case, given):
    import adelie as ad

    known = {"l1_ratio", "penalty_factor", "fit_intercept", "groups", "sample_weight", "offset"}
    if set(given) - known or case == "some groups":
        return None
    law = {"gaussian": ad.glm.gaussian, "binomial": ad.glm.binomial, "poisson": ad.glm.poisson}
    if family not in law:
        return None
    options = {}
    if "groups" in given:
        options["groups"] = np.array([members[0] for members in given["groups"]])
    if "penalty_factor" in given:
        options["penalty"] = given["penalty_factor"]
    weights = given.get("sample_weight", np.ones(len(y)))
    state = ad.grpnet(
        np.asfortranarray(X),
        law[family](y, weights=weights / weights.sum()),
        alpha=given.get("l1_ratio", 1.0),
        offsets=given.get("offset"),
        lmda_path=np.array([4.0 * ALPHA, 2.0 * ALPHA, ALPHA]),
        intercept=given.get("fit_intercept", True),
        tol=1e-18,
        irls_tol=1e-18,
        early_exit=False,
        progress_bar=False,
        **options,
    )
    return state.betas[-1].toarray().ravel(), state.intercepts[-1]


def glmnet(X, y, family, power, case, given):
    from glmnet import ElasticNet, LogitNet

    known = {"l1_ratio", "penalty_factor", "fit_intercept", "positive", "standardize"}
    known |= {"lower_bounds", "upper_bounds", "sample_weight"}
    if set(given) - known or family not in ("gaussian", "binomial"):
        return None
    factor = given.get("penalty_factor", np.ones(X.shape[1]))
    kind = ElasticNet if family == "gaussian" else LogitNet
    # glmnet divides the factors by their mean, and the targets of gaussian fits by their spread s,
    # whereby its L2 penalty becomes that of ours over s
    ratio, s = given.get("l1_ratio", 1.0), 1.0
    if family == "gaussian":
        weight = given.get("sample_weight", np.ones(len(y)))
        s = np.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    alpha = ALPHA * (ratio + s * (1.0 - ratio)) * factor.mean()
    ratio = ratio / (ratio + s * (1.0 - ratio))
    lower = 0.0 if given.get("positive") else given.get("lower_bounds", -np.inf)
    model = kind(
        alpha=ratio,
        lambda_path=np.array([4.0 * alpha, 2.0 * alpha, alpha]),
        standardize=given.get("standardize", False),
        fit_intercept=given.get("fit_intercept", True),
        lower_limits=lower,
        upper_limits=given.get("upper_bounds", np.inf),
        n_splits=0,
        tol=1e-18,
        max_iter=10_000_000,
    )
    model.fit(X, y, sample_weight=given.get("sample_weight"), relative_penalties=factor)
    path = np.asarray(model.coef_path_).reshape(X.shape[1], -1)
    return path[:, -1], np.ravel(model.intercept_path_)[-1]


PEERS = {each.__name__: each for each in (glum, statsmodels, celer, skglm, adelie, glmnet)}


def answers(name, families=tuple(FAMILIES)):
    """A record for each family and case that a peer solves."""
    X = rows()[0]
    for family in families:
        for case in CASES:
            given = arguments(case)
            found = PEERS[name](X, targets(family), family, FAMILIES[family], case, given)
            if found is not None:
                coef, intercept = (np.asarray(part, float).tolist() for part in found)
                yield {"family": family, "case": case, "coef": coef, "intercept": intercept}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for answer in answers(sys.argv[1]):
        print("\n" + json.dumps(answer), flush=True)
