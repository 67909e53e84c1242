"""HuberRegressor: scikit-learn's optimum, a scale that is held, outliers, every container."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.covering import each_choice
from tests.losses.stackloss import X as STACK
from tests.losses.stackloss import Y as LOSS


def spoiled(n=300, d=4, seed=0):
    """Rows of which a tenth are outliers on one side, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) + 3.0
    y[: n // 10] += 30.0
    return X, y, rng.random(n) + 0.5


def objective(X, y, weight, model, alpha, epsilon):
    """scikit-learn's, by NumPy."""
    r = np.abs(y - X @ model.coef_ - model.intercept_) / model.scale_
    each = np.where(r < epsilon, r * r, 2 * epsilon * r - epsilon * epsilon)
    total = float((weight * model.scale_ * (1 + each)).sum())
    return total + alpha * float(model.coef_ @ model.coef_)


@each_choice
@pytest.mark.parametrize("alpha", [0.0, 1e-4, 10.0])
@pytest.mark.parametrize("epsilon", [1.05, 1.35, 5.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_it_is_scikit_learns_optimum(alpha, epsilon, intercept):
    X, y, weight = spoiled()
    params = {"alpha": alpha, "epsilon": epsilon, "fit_intercept": intercept}
    theirs = sklearn.linear_model.HuberRegressor(tol=1e-10, max_iter=100_000, **params)
    theirs.fit(X, y, weight)
    model = daskglm.HuberRegressor(tol=1e-11, **params).fit(X, y, weight)
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-4)
    assert model.scale_ == pytest.approx(theirs.scale_, rel=1e-3)  # theirs stops early
    np.testing.assert_array_equal(model.outliers_, theirs.outliers_)
    ours = objective(X, y, weight, model, alpha, epsilon)
    assert ours <= objective(X, y, weight, theirs, alpha, epsilon) * (1 + 1e-12)
    assert model.report_.objective == pytest.approx(ours, rel=1e-12)


def test_the_gap_bounds_coefficients_and_scale_together():
    X, y, weight = spoiled(seed=3)
    best = daskglm.HuberRegressor(tol=1e-13, alpha=0.1).fit(X, y, weight)
    for tol in (1e-1, 1e-3, 1e-5, 1e-8):
        model = daskglm.HuberRegressor(tol=tol, alpha=0.1).fit(X, y, weight)
        gap = model.report_.relative_gap
        assert gap <= tol
        assert model.report_.objective / (1 + gap) <= best.report_.objective * (1 + 1e-13)
        assert model.report_.objective >= best.report_.objective * (1 - 1e-13)


def test_stackloss_of_mass_with_its_scale_held():
    scale = 2.440536
    model = daskglm.HuberRegressor(epsilon=1.345, scale=scale, alpha=0, tol=1e-10)
    model.fit(STACK, LOSS)
    np.testing.assert_allclose(model.coef_, [0.8294, 0.9261, -0.1278], atol=5e-5)
    assert model.intercept_ == pytest.approx(-41.0265, abs=5e-5)
    assert model.scale_ == scale
    np.testing.assert_array_equal(
        model.outliers_, np.abs(LOSS - model.predict(STACK)) > 1.345 * scale
    )
    named = daskglm.fit(STACK, LOSS, loss=f"huber({1.345 * scale})", C=np.inf, tol=1e-10)
    np.testing.assert_allclose(named.coef_, model.coef_, rtol=1e-7)


def test_scales_of_targets_and_columns_do_not_matter():
    X, y, weight = spoiled()
    model = daskglm.HuberRegressor(alpha=0, tol=1e-9).fit(X, y, weight)
    for of_y, of_x in ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e-6), (1e6, 1e6)):
        other = daskglm.HuberRegressor(alpha=0, tol=1e-9).fit(of_x * X, of_y * y, weight)
        assert other.report_.converged
        np.testing.assert_allclose(other.coef_ * of_x / of_y, model.coef_, rtol=1e-5)
        assert other.scale_ / of_y == pytest.approx(model.scale_, rel=1e-5)


def test_containers_give_the_same(client):
    X, y, weight = spoiled()
    model = daskglm.HuberRegressor(tol=1e-9).fit(X, y, weight)
    lazy = [da.from_array(part, chunks=(70, -1)[: part.ndim]) for part in (X, y, weight)]
    frame = pd.DataFrame(X, columns=list("abcd")), pd.Series(y), pd.Series(weight)
    for data in ((sp.csr_matrix(X), y, weight), frame, lazy):
        found = daskglm.HuberRegressor(tol=1e-9).fit(*data)
        np.testing.assert_allclose(found.coef_, model.coef_, rtol=1e-5)
        assert found.scale_ == pytest.approx(model.scale_, rel=1e-5)
        marks = found.outliers(*data[:2])
        marks = marks.compute() if hasattr(marks, "compute") else marks
        np.testing.assert_array_equal(np.asarray(marks), model.outliers_)
    assert not hasattr(found, "outliers_")  # of lazy rows they are not kept
    assert not hasattr(model.fit(*lazy), "outliers_")  # nor those of a fit before


def test_warm_starts_and_the_most_changes_of_the_scale(tmp_path):
    X, y, weight = spoiled()
    model = daskglm.HuberRegressor(warm_start=True).fit(X, y, weight)
    assert model.fit(X, y, weight).n_iter_ == 0
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        assert daskglm.HuberRegressor(max_iter=1).fit(X, y).n_iter_ == 1
    daskglm.save(model, tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    assert again.scale_ == model.scale_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.outliers(X, y), model.outliers_)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"epsilon": 0.9}, "epsilon=0.9 must be"),
        ({"epsilon": None}, "epsilon=None must be"),
        ({"scale": 0.0}, "scale=0.0 must be"),
        ({"alpha": -1.0}, "alpha=-1.0 must be"),
        ({"max_iter": -1}, "max_iter"),
    ],
)
def test_what_it_does_not_take_is_refused(params, words):
    with pytest.raises(ValueError, match=words):
        daskglm.HuberRegressor(**params).fit(STACK, LOSS)
