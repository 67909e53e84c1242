"""Lasso and ElasticNet: scikit-learn's coefficients and attributes, and a gap on its scale."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

import daskglm
from daskglm.estimators.persistence import load, save

X, y = load_diabetes(return_X_y=True)
X = X * 20.0  # columns with a standard deviation of about 1
WEIGHT = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)


def objective(model, alpha, l1_ratio, weight=None):
    """scikit-learn's objective."""
    residuals = y - X @ model.coef_ - model.intercept_
    w = model.coef_
    penalty = l1_ratio * np.abs(w).sum() + (1.0 - l1_ratio) / 2.0 * (w @ w)
    return 0.5 * np.average(residuals**2, weights=weight) + alpha * penalty


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("l1_ratio", [0.2, 0.9])
def test_elastic_net_is_scikit_learns(alpha, l1_ratio, weight):
    theirs = linear_model.ElasticNet(alpha=alpha, l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6)
    theirs.fit(X, y, weight)
    model = daskglm.ElasticNet(alpha, l1_ratio=l1_ratio, tol=1e-13).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8)
    assert np.array_equal(model.coef_ == 0.0, theirs.coef_ == 0.0)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_lasso_is_scikit_learns(positive, fit_intercept):
    how = {"alpha": 2.0, "positive": positive, "fit_intercept": fit_intercept}
    theirs = linear_model.Lasso(**how, tol=1e-14, max_iter=10**6).fit(X, y)
    model = daskglm.Lasso(**how, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)
    assert np.array_equal(model.coef_ == 0.0, theirs.coef_ == 0.0)
    assert model.score(X, y) == pytest.approx(theirs.score(X, y), rel=1e-8)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_the_gap_is_a_bound_on_scikit_learns_objective(tol, l1_ratio):
    alpha = 0.7
    best = daskglm.ElasticNet(alpha, l1_ratio=l1_ratio, tol=1e-13).fit(X, y)
    least = objective(best, alpha, l1_ratio)
    model = daskglm.ElasticNet(alpha, l1_ratio=l1_ratio, tol=tol).fit(X, y)
    value = objective(model, alpha, l1_ratio)
    assert alpha * model.report_.objective == pytest.approx(value, rel=1e-10)
    rounding = 1e-12 * value
    assert value - least <= model.dual_gap_ + rounding
    assert model.dual_gap_ <= tol * value


def test_sparse_coefficients():
    model = daskglm.Lasso(alpha=20.0)
    with pytest.raises(NotFittedError):
        model.sparse_coef_  # noqa: B018
    model.fit(X, y)
    assert sp.issparse(model.sparse_coef_)
    assert model.sparse_coef_.shape == (1, X.shape[1])
    assert 0 < model.sparse_coef_.nnz < X.shape[1]
    np.testing.assert_array_equal(model.sparse_coef_.toarray()[0], model.coef_)


def test_several_targets_are_fitted_one_by_one():
    Y = np.column_stack([y, X[:, 2] - X[:, 3], np.ones(len(y))])
    model = daskglm.Lasso(alpha=[0.3, 0.2, 0.1], tol=1e-10).fit(X, Y)
    assert model.coef_.shape == model.sparse_coef_.shape == (3, X.shape[1])
    assert model.dual_gap_.shape == (3,)
    for k, alpha in enumerate([0.3, 0.2, 0.1]):
        one = daskglm.Lasso(alpha, tol=1e-10).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], one.coef_, atol=1e-8)
        assert model.dual_gap_[k] == pytest.approx(one.dual_gap_, abs=1e-8)


def test_without_a_penalty_it_is_least_squares():
    theirs = linear_model.LinearRegression().fit(X, y)
    model = daskglm.Lasso(alpha=0, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6)
    assert math.isnan(model.dual_gap_)


def test_what_has_no_effect_has_none():
    plain = daskglm.ElasticNet(l1_ratio=0.0).fit(X, y)
    given = {"precompute": X.T @ X, "selection": "random", "copy_X": False}
    other = daskglm.ElasticNet(l1_ratio=0.0, **given).fit(X, y)
    np.testing.assert_array_equal(other.coef_, plain.coef_)


@pytest.mark.parametrize("cls", [daskglm.Lasso, daskglm.ElasticNet])
def test_saved_and_loaded(cls, tmp_path):
    model = cls(alpha=2.0, penalty_factor=np.arange(1.0, 11.0), precompute=True).fit(X, y)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert type(again) is cls
    assert again.penalty_factor == model.penalty_factor.tolist()
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.dual_gap_ == model.dual_gap_
    assert again.report_.relative_gap == model.report_.relative_gap


@pytest.mark.parametrize("value", [1.0, 3.3, 0.0])
def test_equal_targets_are_fitted_exactly_and_proved(value):
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = daskglm.Lasso(alpha=0.1).fit(X, np.full(200, value))
    assert model.report_.relative_gap == 0.0
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(value, rel=1e-14)
