"""Parameters of the penalty: they arrive in the settings of the fit, or are refused by name."""

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import daskglm
from daskglm.estimators.base import LinearModel
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
        if not (isinstance(each, type) and issubclass(each, LinearModel)):
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
    model = daskglm.LogisticRegression(**given).fit(X, y)
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
    small = daskglm.LogisticRegression(C=math.inf, positive=True).fit(X[:, :1], y)
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


# ---- features that are left out
OUT = np.array([1.0, math.inf, 2.0, 0.5, math.inf])
KEPT = np.isfinite(OUT)
LEAVING = {
    "logistic": (daskglm.LogisticRegression(), "classes"),
    "no penalty": (daskglm.LogisticRegression(penalty=None), "classes"),
    "lasso": (daskglm.LogisticRegression(l1_ratio=1, C=0.1), "classes"),
    "newton": (daskglm.LogisticRegression(solver="newton"), "classes"),
    "tron": (daskglm.LogisticRegression(solver="tron"), "classes"),
    "lbfgs": (daskglm.PoissonRegressor(alpha=0.1, solver="lbfgs"), "counts"),
    "gd": (daskglm.Ridge(solver="gd"), "numbers"),
    "three classes": (daskglm.LogisticRegression(), "three"),
    "one against the rest": (daskglm.LogisticRegression(multi_class="ovr", l1_ratio=0.5), "three"),
    "ordered": (daskglm.OrdinalRegression(), "three"),
    "hinge": (daskglm.LinearSVC(loss="hinge"), "classes"),
    "squared hinge": (daskglm.LinearSVC(), "classes"),
    "ridge": (daskglm.Ridge(), "numbers"),
    "least squares": (daskglm.Ridge(alpha=0), "numbers"),
    "standardised": (daskglm.Lasso(alpha=0.1, standardize=True), "numbers"),
    "huber": (daskglm.HuberRegressor(alpha=0.1), "numbers"),
    "quantile": (daskglm.QuantileRegressor(alpha=0.05), "numbers"),
    "svr": (daskglm.LinearSVR(), "numbers"),
    "poisson": (daskglm.PoissonRegressor(alpha=0.1), "counts"),
    "poisson without": (daskglm.PoissonRegressor(alpha=0), "counts"),
    "lasso cv": (daskglm.LassoCV(alphas=5), "numbers"),
    "relaxed": (daskglm.ElasticNetCV(alphas=5, relax=True), "numbers"),
    "family cv": (daskglm.GeneralizedLinearRegressorCV("poisson", alphas=4), "counts"),
    "l1 cv": (daskglm.GeneralizedLinearRegressorCV("poisson", l1_ratio=1, alphas=4), "counts"),
    "logistic cv": (daskglm.LogisticRegressionCV(Cs=3, l1_ratios=[0, 1]), "classes"),
}


def targets_of(X):
    rng = np.random.default_rng(1)
    numbers = X @ [1.0, -1.0, 0.5, 0.0, 0.7] + rng.standard_normal(len(X))
    return {
        "numbers": numbers,
        "classes": (numbers > 0.0).astype(int),
        "three": np.digitize(numbers, [-0.5, 0.7]),
        "counts": rng.poisson(np.exp(0.3 * numbers)).astype(float),
    }


@pytest.mark.parametrize("name", LEAVING)
def test_an_infinite_factor_is_a_column_that_is_not_there(name):
    X, _ = make_problem(n=150, d=5)
    model, kind = LEAVING[name]
    y = targets_of(X)[kind]
    model = clone(model).set_params(tol=1e-8)
    found = np.atleast_2d(model.set_params(penalty_factor=OUT).fit(X, y).coef_)
    assert not found[:, ~KEPT].any()
    factors = OUT[KEPT]
    if model.get_params().get("alpha") == 0 or model.get_params().get("penalty", "l2") is None:
        factors = None
    there = model.set_params(penalty_factor=factors).fit(X[:, KEPT], y)
    np.testing.assert_allclose(found[:, KEPT], np.atleast_2d(there.coef_), atol=2e-4)


def test_groups_of_features_that_are_left_out():
    X, _ = make_problem(n=150, d=5)
    out = np.array([1.0, math.inf, math.inf, 0.5, math.inf])
    kept = np.isfinite(out)
    for model, kind in (
        (daskglm.Lasso(alpha=0.1), "numbers"),
        (clone(LEAVING["lasso"][0]), "three"),
    ):
        y = targets_of(X)[kind]
        model.set_params(groups=[0, 1, 1, 0, 2], tol=1e-10)
        factors = np.where(out == 0.5, 1.0, out)
        found = np.atleast_2d(model.set_params(penalty_factor=factors).fit(X, y).coef_)
        there = model.set_params(penalty_factor=None, groups=[0, 0]).fit(X[:, kept], y)
        assert not found[:, ~kept].any()
        np.testing.assert_allclose(found[:, kept], np.atleast_2d(there.coef_), atol=1e-5)


def test_features_left_out_by_name_on_paths_and_in_files(tmp_path):
    X, _ = make_problem(n=150, d=5)
    y, named = targets_of(X)["counts"], pd.DataFrame(X, columns=list("abcde"))
    how = {"family": "poisson", "n_alphas": 4, "eps": 0.01}
    found = daskglm.regularization_path(named, y, **how, penalty_factor={"b": math.inf})
    there = daskglm.regularization_path(named[list("acde")], y, **how)
    assert not found.coefs[:, 1].any()
    np.testing.assert_allclose(found.alphas, there.alphas, rtol=1e-12)
    np.testing.assert_allclose(np.delete(found.coefs, 1, axis=1), there.coefs, atol=1e-8)
    model = daskglm.PoissonRegressor(alpha=0, penalty_factor={"b": math.inf}).fit(named, y)
    daskglm.save(model, tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    assert again.penalty_factor == {"b": math.inf}
    assert again.fit(named, y).coef_[1] == 0.0
    with pytest.warns(UserWarning, match="penalty=None: l1_ratio=0.5 without effect"):
        daskglm.LogisticRegression(None, l1_ratio=0.5, penalty_factor={"b": math.inf})._settings()


def test_all_features_may_be_left_out():
    X, _ = make_problem(n=150, d=5)
    y = targets_of(X)
    model = daskglm.LogisticRegression(penalty_factor=[math.inf] * 5, tol=1e-10).fit(
        X, y["classes"]
    )
    share = y["classes"].mean()
    assert not model.coef_.any()
    assert model.intercept_[0] == pytest.approx(math.log(share / (1.0 - share)), rel=1e-6)
    path = daskglm.regularization_path(
        X, y["numbers"], family="gaussian", penalty_factor=[math.inf] * 5, n_alphas=3
    )
    assert not path.coefs.any()


# ---- a matrix beside an L1 part of its own factors
ROUGH = np.diff(np.eye(5), axis=0)


@pytest.mark.parametrize("P2", [np.eye(5) + 0.3, ROUGH.T @ ROUGH], ids=["definite", "singular"])
@pytest.mark.parametrize(
    ("family", "kind"), [("poisson", "counts"), ("gaussian", "numbers"), ("binomial", "classes")]
)
def test_factors_of_the_l1_part_beside_a_matrix_are_glums(family, kind, P2):
    glum = pytest.importorskip("glum", reason="glum is not installed")
    X, _ = make_problem(n=150, d=5)
    y, P1 = targets_of(X)[kind], np.array([1.0, 2.0, 0.5, 0.0, 4.0])
    how = {"alpha": 0.1, "l1_ratio": 0.4, "P2": P2}
    theirs = glum.GeneralizedLinearRegressor(
        family=family, P1=P1, **how, gradient_tol=1e-9, max_iter=1000
    ).fit(X, y)
    model = daskglm.GeneralizedLinearRegressor(family, penalty_factor=P1, **how, tol=1e-12)
    model.fit(X, y)
    assert model.report_.relative_gap <= 1e-12
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-6)
    assert model.intercept_ == pytest.approx(theirs.intercept_, abs=2e-6)
    assert np.count_nonzero(model.coef_) > 0


def test_a_matrix_beside_factors_wherever_penalties_are_taken():
    X, _ = make_problem(n=150, d=5)
    y = targets_of(X)
    P1, P2 = np.array([1.0, 2.0, 0.5, 0.0, 4.0]), 0.5 * ROUGH.T @ ROUGH

    def penalty(w):
        return 0.5 * P1 @ np.abs(w) + 0.25 * w @ P2 @ w

    how = {"l1_ratio": 0.5, "penalty_factor": P1, "P2": P2}
    model = daskglm.ElasticNet(alpha=0.3, tol=1e-12, **how).fit(X, y["numbers"])

    def mean_loss(w, b):
        return 0.3 * penalty(w) + 0.5 * np.mean((y["numbers"] - X @ w - b) ** 2)

    least = mean_loss(model.coef_, model.intercept_)
    assert model.report_.relative_gap <= 1e-12
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3):
        for _ in range(100):
            w = model.coef_ + size * rng.standard_normal(5)
            assert mean_loss(w, np.mean(y["numbers"] - X @ w)) > least
    path = daskglm.regularization_path(
        X, y["numbers"], family="gaussian", alphas=[0.3], tol=1e-12, **how
    )
    np.testing.assert_allclose(path.coefs[0], model.coef_, atol=1e-6)
    held = {**how, "P2": P2 + 0.1 * np.eye(5)}
    several = daskglm.LogisticRegression(C=0.1, tol=1e-9, **held).fit(X, y["three"])
    assert several.report_.relative_gap <= 1e-9
    chosen = daskglm.ElasticNetCV(alphas=[0.3], tol=1e-12, **how).fit(X, y["numbers"])
    np.testing.assert_allclose(chosen.coef_, model.coef_, atol=1e-6)
