"""Parameters of the penalty: they arrive in the settings of the fit, or are refused by name."""

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.estimators.penalty_parameters import NAMES, penalty_of
from daskglm.penalties.config import PLAIN
from tests.conftest import make_problem

TAKING = [
    daskglm.LogisticRegression,
    daskglm.LinearSVC,
    daskglm.LinearClassifier,
    daskglm.Ridge,
    daskglm.LinearRegressor,
    daskglm.ElasticNet,
    daskglm.GeneralizedLinearRegressor,
    daskglm.PoissonRegressor,
    daskglm.GammaRegressor,
    daskglm.TweedieRegressor,
    daskglm.HuberRegressor,
]
GIVEN = {
    "l1_ratio": 0.25,
    "penalty_factor": {"a": 2.0},
    "lower_bounds": {"a": -1.0},
    "upper_bounds": 3.0,
    "standardize": True,
}
takers = pytest.mark.parametrize("estimator", TAKING, ids=lambda each: each.__name__)


@takers
def test_parameters_arrive_in_the_settings_as_they_are(estimator):
    model = estimator(**GIVEN)
    assert set(NAMES) <= set(model.get_params())
    penalty = model._settings().penalty
    for name, value in GIVEN.items():
        assert getattr(penalty, name) is value
    assert model._settings().check() is not None


@takers
def test_other_parameters_arrive_too(estimator):
    P2 = np.eye(2)
    penalty = estimator(l1_ratio=0.5, P2=P2, groups=[0, 1])._settings().penalty
    assert penalty.P2 is P2
    assert penalty.groups == [0, 1]
    assert estimator(positive=True, l1_ratio=0.0)._settings().penalty.lower_bounds == 0.0


@takers
def test_the_default_is_the_plain_penalty(estimator):
    if estimator is not daskglm.ElasticNet:
        assert estimator()._settings().penalty is PLAIN


def test_every_estimator_takes_them_or_says_why_not():
    # their share of the L1 penalty is 1, or one of several
    no_share = {"Lasso", "LassoCV", "LogisticRegressionCV"}
    for name in daskglm.__all__:
        each = getattr(daskglm, name)
        if not (isinstance(each, type) and hasattr(each, "get_params")):
            continue
        found = set(NAMES) & set(each().get_params())
        assert found == set(NAMES) - ({"l1_ratio"} if name in no_share else set()), name


def test_lasso_has_the_share_one_and_means_of_losses():
    settings = daskglm.Lasso(alpha=0.5)._settings()
    assert settings.penalty.l1_ratio == 1.0
    assert settings.average
    assert settings.C == 2.0
    assert "l1_ratio" not in inspect.signature(daskglm.Lasso).parameters
    assert daskglm.ElasticNet()._settings().penalty.l1_ratio == 0.5


@pytest.mark.parametrize(
    "model", [daskglm.Lasso(alpha=0), daskglm.ElasticNet(alpha=0.0), daskglm.Ridge(alpha=0)]
)
def test_no_strength_leaves_bounds_alone(model):
    settings = model.set_params(upper_bounds=1.0, penalty_factor=[2.0])._settings()
    assert math.isinf(settings.C)
    assert settings.penalty.upper_bounds == 1.0
    assert settings.penalty.l1_ratio == 0.0
    assert settings.penalty.of_features == ()
    assert settings.check() is not None
    assert model.set_params(upper_bounds=None)._settings().penalty is PLAIN


@pytest.mark.parametrize(
    ("penalty", "l1_ratio", "share"),
    [
        ("l2", 0.0, 0.0),
        ("l2", None, 0.0),
        ("l2", 0.5, 0.5),
        ("deprecated", 0.5, 0.5),
        ("deprecated", 1, 1),
        ("l1", 0.0, 1.0),
        ("l1", None, 1.0),
        ("l1", 1.0, 1.0),
        ("elasticnet", 0.5, 0.5),
        ("elasticnet", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("estimator", [daskglm.LogisticRegression, daskglm.LinearSVC])
def test_scikit_learns_names_of_penalties(estimator, penalty, l1_ratio, share):
    settings = estimator(penalty=penalty, l1_ratio=l1_ratio)._settings()
    assert settings.penalty.l1_ratio == share
    assert math.isinf(settings.C) == (penalty is None)


def test_no_penalty_by_name_warns_of_what_has_no_effect():
    model = daskglm.LogisticRegression(None, l1_ratio=0.5, P2=np.eye(2), positive=True)
    with pytest.warns(UserWarning, match=r"penalty=None: l1_ratio=0.5, P2 without effect"):
        penalty = model._settings().penalty
    assert penalty.l1_ratio == 0.0
    assert penalty.P2 is None
    assert penalty.lower_bounds == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        daskglm.LogisticRegression(None, positive=True)._settings()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (daskglm.LogisticRegression("l1", l1_ratio=0.5), "penalty='l1' with l1_ratio=0.5: they"),
        (daskglm.LogisticRegression("elasticnet", l1_ratio=None), "give an l1_ratio, from 0"),
        (daskglm.LogisticRegression("L1"), "penalty='L1' must be one of 'l2', .*'elasticnet'"),
        (daskglm.LogisticRegressionCV(penalty="elasticnet"), "give l1_ratios, such as"),
        (daskglm.OrdinalRegression("elasticnet", l1_ratio=None), "give an l1_ratio, from 0"),
        (daskglm.LogisticRegression(l1_ratio="a"), "l1_ratio='a' must be a number from 0"),
        (daskglm.PoissonRegressor(l1_ratio=1.5), "l1_ratio=1.5 must be a number from 0"),
        (daskglm.Ridge(positive="yes"), "positive='yes' must be True or False"),
        (
            daskglm.Ridge(positive=True, lower_bounds=-1.0),
            "positive=True and lower_bounds=-1.0 are both given.*give one of them",
        ),
        (daskglm.Ridge(positive=True, upper_bounds=-1.0), "lower_bounds has 0 .*upper_bounds -1"),
        (daskglm.Ridge(P2=np.ones(2)), r"P2 has the shape \(2,\)"),
        (daskglm.Ridge(groups=[0, 0]), "groups=.* has no effect with l1_ratio=0"),
        (daskglm.Ridge(standardize="no"), "standardize='no' must be True or False"),
        (daskglm.Ridge(C=math.inf, l1_ratio=0.5), "C=inf leaves no penalty"),
        (daskglm.Lasso(alpha=-1.0), "alpha=-1.0 must be a number not below 0"),
        (daskglm.Lasso(selection="best"), "selection='best' is not one of 'cyclic', 'random'"),
        (daskglm.Lasso(precompute="yes"), "precompute='yes' must be True, False, 'auto' or a Gram"),
        (
            daskglm.LogisticRegression(l1_ratio=0.5, solver="newton-cholesky"),
            "solver='newton-cholesky' of scikit-learn takes no L1 penalty and no bounds; use",
        ),
        (
            daskglm.LogisticRegression(l1_ratio=0.5, solver="lbfgs"),
            r"solver='lbfgs' takes no L1 penalty and no bounds \(l1_ratio=0.5\)",
        ),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_at_fit(model, message):
    X, y = make_problem(n=30, d=2)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("solver", ["saga", "liblinear", "admm", "proximal_grad"])
def test_solvers_that_take_l1_elsewhere_mean_auto(solver):
    for more in ({"l1_ratio": 0.5}, {"positive": True}):
        assert daskglm.LogisticRegression(solver=solver, **more)._settings().solver == "auto"
    # a quadratic penalty of features is no reason to change the solver
    settings = daskglm.LogisticRegression(solver=solver, standardize=True)._settings()
    assert settings.solver != "auto"


# ---- daskglm.fit
@pytest.fixture
def settings(monkeypatch):
    """The settings of fits, which are not run."""
    found = []

    def train(X, y, given, **more):
        found.append(given)
        raise InterruptedError

    monkeypatch.setattr("daskglm.estimators.base.train", train)
    return found


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"loss": "multinomial"},
        {"loss": "squared_hinge"},
        {"loss": "squared"},
        {"loss": "huber(1.0)"},
        {"family": "poisson", "alpha": 0.1},
    ],
    ids=str,
)
def test_fit_hands_them_on(settings, how):
    X, y = make_problem(n=30, d=1)
    frame = pd.DataFrame(X, columns=["a"])
    with pytest.raises(InterruptedError):
        daskglm.fit(frame, y > 0, **how, **GIVEN)
    for name, value in GIVEN.items():
        assert getattr(settings[0].penalty, name) is value
    with pytest.raises(InterruptedError):
        daskglm.fit(frame, y > 0, **how, positive=True)
    assert settings[1].penalty.lower_bounds == 0.0


def test_fit_has_all_of_them_with_the_defaults_of_the_estimators():
    ours = inspect.signature(daskglm.fit).parameters
    theirs = inspect.signature(daskglm.Ridge).parameters
    assert {name: ours[name].default for name in NAMES} == {
        name: theirs[name].default for name in NAMES
    }


def test_paths_take_no_value_without_a_penalty_beside_them():
    X, y = make_problem(n=30, d=2, loss="squared")
    for path in (
        {"C": [1.0, math.inf], "loss": "squared"},
        {"alpha": [0.0, 1.0], "family": "gaussian"},
    ):
        with pytest.raises(ValueError, match="has a value without a penalty, for which l1_ratio"):
            daskglm.fit(X, y, l1_ratio=0.5, **path)


def test_absent_parameters_are_plain():
    assert penalty_of({}) is PLAIN
    assert penalty_of({"l1_ratio": None, "positive": np.False_, "groups": None}) is PLAIN


# ---- what is known of penalised fits
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"l1_ratio": 0.5}, "l1_ratio=0.5:"),
        ({"positive": True}, "lower_bounds=0.0:"),
        ({"standardize": True}, "standardize=True:"),
        (
            {"penalty_factor": [1.0, 0.5], "upper_bounds": 3.0, "l1_ratio": 1},
            r"l1_ratio=1, penalty_factor=.*\[1\.?0?, 0.5\].*, upper_bounds=3.0:",
        ),
    ],
    ids=str,
)
def test_there_are_no_standard_errors(given, named):
    X, y = make_problem(n=40, d=2)
    model = daskglm.LogisticRegression().fit(X, y)
    model.set_params(**given)
    with pytest.raises(ValueError, match=f"the fit has {named}.* there are no standard errors"):
        model.inference(X, y, penalized="effective")


def test_what_draws_coefficients_towards_zero_is_named_as_it_was_given():
    X, y = make_problem(n=40, d=2)
    with pytest.raises(ValueError, match=r"the fit is penalised \(C=0.2\)"):
        daskglm.LogisticRegression(C=0.2).fit(X, y).inference(X, y)
    with pytest.raises(ValueError, match=r"the fit is penalised \(alpha=0.2\)"):
        daskglm.GeneralizedLinearRegressor("gaussian", alpha=0.2).fit(X, y).inference(X, y)


def test_bounds_are_not_tested_against():
    X, y = make_problem(n=40, d=2)
    large = daskglm.LogisticRegression(C=math.inf).fit(X, y)
    small = daskglm.LogisticRegression(C=math.inf).fit(X[:, :1], y).set_params(positive=True)
    with pytest.raises(ValueError, match="m0 is penalised"):
        daskglm.likelihood_ratio_test(small, large)


def test_corners_take_an_l1_ratio():
    X, y = make_problem(n=200, d=4, loss="squared")
    for model in (
        daskglm.QuantileRegressor(alpha=0.1, l1_ratio=0.8, quantile=[0.3, 0.7]),
        daskglm.QuantileRegressor(alpha=0.1, quantile=[0.3, 0.7]),
        daskglm.LinearSVR(C=0.05, l1_ratio=0.8),
        daskglm.LinearSVR(C=0.02, l1_ratio=1.0),
    ):
        model.fit(X, y)
        assert model.report_.converged
        assert 0 < np.count_nonzero(model.coef_) < model.coef_.size
    smooth = daskglm.LinearSVR(loss="squared_epsilon_insensitive", positive=True, l1_ratio=1.0)
    assert (smooth.fit(X, y).coef_ >= 0.0).all()


def test_corners_take_all_other_parameters():
    X, y = make_problem(n=200, d=4, loss="squared")
    X = pd.DataFrame(X, columns=list("abcd"))
    bounds = {"lower_bounds": {"a": 0.0}, "upper_bounds": {"b": 0.1}}
    for model in (
        daskglm.QuantileRegressor(alpha=0.1, quantile=[0.3, 0.7], **bounds),
        daskglm.LinearSVR(C=0.05, **bounds),
        daskglm.LinearSVC("l1", "hinge", C=0.05, **bounds),
    ):
        model.fit(X, y if model.__class__ is not daskglm.LinearSVC else y > 0.0)
        coef = np.atleast_2d(model.coef_)
        assert model.report_.converged
        assert (coef[:, 0] >= 0.0).all()
        assert (coef[:, 1] <= 0.1).all()

    free = daskglm.QuantileRegressor(alpha=1e3, penalty_factor={"c": 0.0}).fit(X, y)
    assert free.report_.converged
    assert np.flatnonzero(free.coef_).tolist() == [2]
    grouped = daskglm.LinearSVR(C=0.02, l1_ratio=1.0, groups=[["a", "b"], ["c", "d"]]).fit(X, y)
    assert grouped.report_.converged
    smooth = daskglm.QuantileRegressor(alpha=0.1, l1_ratio=0.0, standardize=True).fit(X, y)
    assert smooth.report_.converged
