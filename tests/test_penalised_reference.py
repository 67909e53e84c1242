"""The reference for fits with penalties is right: derivatives, conditions, glum, statsmodels."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression

from tests import penalised_peers
from tests.penalised_cases import ALPHA, CASES, FAMILIES, arguments, rows, targets
from tests.penalised_reference import ROWS, problem, solve, solve_classes

PARAMETERS = FAMILIES | {"huber": 1.35, "squared_hinge": None}
# statsmodels 0.15 ends these before the optimum, where glum and the reference agree
STOPPED_EARLY = {("gamma", "elastic net"), ("negative_binomial", "offset")}


def reference(family, case):
    given = arguments(case)
    return solve(
        rows()[0], targets(family), family, parameter=FAMILIES[family], alpha=ALPHA, **given
    )


@pytest.mark.parametrize("family", PARAMETERS)
def test_derivatives_are_those_of_the_values(family):
    y, z, parameter = targets(family), rows()[1], PARAMETERS[family]
    step = 1e-5
    below, here, above = (ROWS[family](y, z + t, parameter) for t in (-step, 0.0, step))
    np.testing.assert_allclose((above[0] - below[0]) / (2 * step), here[1], atol=1e-6)
    smooth = np.abs(above[2] - below[2]) < 0.5  # away from the corners of the slopes
    np.testing.assert_allclose(
        ((above[1] - below[1]) / (2 * step))[smooth], here[2][smooth], atol=1e-6
    )
    assert np.mean(smooth) > 0.99


@pytest.mark.parametrize("family", sorted(set(FAMILIES)))
def test_half_a_deviance_is_zero_at_best(family):
    y = np.array([1.0]) if family == "binomial" else np.array([2.5])
    z = np.linspace(-3, 40 if family == "binomial" else 3, 100_001)
    least = ROWS[family](y, z, FAMILIES[family])[0].min()
    assert -1e-14 < least < 1e-8


@pytest.mark.parametrize("family", FAMILIES)
def test_no_step_is_downhill(family):
    rng = np.random.default_rng(0)
    for case in CASES:
        given = arguments(case)
        asked = problem(
            rows()[0], targets(family), family, parameter=FAMILIES[family], alpha=ALPHA, **given
        )
        found = reference(family, case)
        for _ in range(20):
            w = found.coef + rng.normal(size=len(found.coef)) * 10 ** rng.uniform(-6, 0)
            w = np.clip(w, asked.terms.lower[: len(w)], asked.terms.upper[: len(w)])
            b = found.intercept + rng.normal() * 1e-3
            assert asked.objective(w, b) >= found.objective - 1e-14


# glum takes 10 and 15 s for these, since its last digits come slowly
SLOW = {("glum", "tweedie"), ("glum", "negative_binomial")}


@pytest.mark.parametrize(
    ("peer", "family"),
    [
        pytest.param(peer, family, marks=pytest.mark.slow if (peer, family) in SLOW else ())
        for peer in ("glum", "statsmodels")
        for family in FAMILIES
    ],
)
@pytest.mark.nightly
def test_peers_of_this_environment_agree(peer, family):
    pytest.importorskip(peer)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = [a for a in penalised_peers.answers(peer, [family])]
    for answer in answers:
        case = answer["case"]
        found = reference(family, case)
        if peer == "statsmodels" and (family, case) in STOPPED_EARLY:
            continue
        np.testing.assert_allclose(answer["coef"], found.coef, atol=1e-9, err_msg=case)
        np.testing.assert_allclose(answer["intercept"], found.intercept, atol=1e-9, err_msg=case)
        compared += 1
    least = {"glum": len(CASES) - 2, "statsmodels": 4}[peer]
    assert compared >= (0 if (peer, family) == ("statsmodels", "tweedie") else least)


def test_scikit_learn_agrees():
    X, y = rows()[0], targets("gaussian")
    for case in ("lasso", "elastic net", "positive", "no intercept"):
        given = arguments(case)
        theirs = ElasticNet(
            ALPHA,
            l1_ratio=given.get("l1_ratio", 1.0),
            fit_intercept=given.get("fit_intercept", True),
            positive=given.get("positive", False),
            tol=1e-15,
            max_iter=1_000_000,
        ).fit(X, y)
        np.testing.assert_allclose(reference("gaussian", case).coef, theirs.coef_, atol=1e-10)


def nasty_classes():
    """Rows on which partial Newton steps, as of glmnet, diverge: scikit-learn #34681."""
    from sklearn.datasets import make_classification

    return make_classification(
        n_samples=20, n_features=20, n_informative=10, n_classes=3, random_state=0
    )


def test_classes_with_an_l1_penalty_by_another_method():
    """scikit-learn's saga, whose steps are those of single rows."""
    X, y = nasty_classes()
    found = solve_classes(X, y, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn < 1.8 wants `penalty`
        theirs = LogisticRegression(
            penalty="elasticnet", l1_ratio=1.0, C=1.0, solver="saga", tol=1e-11, max_iter=500_000
        ).fit(X, y)
    np.testing.assert_allclose(theirs.coef_, found.coef, atol=1e-7)
    np.testing.assert_allclose(theirs.intercept_, found.intercept, atol=1e-7)
    assert np.sum(found.coef != 0) < found.coef.size / 2
