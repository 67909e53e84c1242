"""QuantileRegressor: published numbers, scikit-learn's optima, several quantiles, every container."""

import importlib.util

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from dask import delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_pinball_loss

import daskglm
from tests.losses.programs import quantile_optimum
from tests.losses.stackloss import X as STACK
from tests.losses.stackloss import Y as LOSS


def heavy(n=200, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_t(3, n) + 4.0, rng.random(n) + 0.5


def test_stackloss_median_of_quantreg():
    model = daskglm.QuantileRegressor(alpha=0, tol=1e-8).fit(STACK, LOSS)
    wanted = [0.83188406, 0.57391304, -0.06086957]
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-6)
    assert model.intercept_ == pytest.approx(-39.68985507, rel=1e-8)
    assert model.report_.objective == pytest.approx(21.04057971, rel=1e-8)
    assert model.report_.relative_gap <= 1e-8


@pytest.mark.skipif(importlib.util.find_spec("statsmodels") is None, reason="needs statsmodels")
@pytest.mark.parametrize(
    ("q", "wanted", "loss"),
    [(0.5, (81.48224742, 0.56018055), 8779.966324), (0.75, (62.39658553, 0.64401414), 6529.250284)],
)
def test_engel_of_quantreg(q, wanted, loss):
    import statsmodels.api as sm

    data = sm.datasets.engel.load_pandas().data
    model = daskglm.QuantileRegressor(quantile=q, alpha=0, tol=1e-8)
    model.fit(data[["income"]], data["foodexp"])
    assert (model.intercept_, *model.coef_) == pytest.approx(wanted, rel=1e-6)
    assert model.report_.objective == pytest.approx(loss, rel=1e-8)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.77])
@pytest.mark.parametrize("intercept", [False, True])
def test_without_a_penalty_it_is_scikit_learns(q, intercept):
    X, y, weight = heavy()
    theirs = sklearn.linear_model.QuantileRegressor(
        quantile=q, alpha=0, fit_intercept=intercept
    ).fit(X, y, weight)
    model = daskglm.QuantileRegressor(quantile=q, alpha=0, fit_intercept=intercept, tol=1e-9)
    model.fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-7)
    assert model.intercept_ == pytest.approx(theirs.intercept_, abs=1e-7)
    assert model.score(X, y, weight) == pytest.approx(theirs.score(X, y, weight))


def test_alpha_is_that_of_the_mean_loss():
    """Rows given twice, and weights of two, change nothing."""
    X, y, weight = heavy()
    params = {"quantile": 0.3, "alpha": 0.05, "l1_ratio": 0.0, "tol": 1e-10}
    model = daskglm.QuantileRegressor(**params).fit(X, y, weight)
    twice = daskglm.QuantileRegressor(**params).fit(
        np.vstack([X, X]), np.tile(y, 2), np.tile(weight, 2)
    )
    heavier = daskglm.QuantileRegressor(**params).fit(X, y, 2.0 * weight)
    np.testing.assert_allclose(twice.coef_, model.coef_, rtol=1e-3)
    np.testing.assert_allclose(heavier.coef_, model.coef_, rtol=1e-3)

    def objective(coef, intercept):
        loss = mean_pinball_loss(y, X @ coef + intercept, sample_weight=weight, alpha=0.3)
        return loss + 0.025 * float(coef @ coef)

    least = objective(model.coef_, model.intercept_)
    rng = np.random.default_rng(1)
    for _ in range(50):
        near = model.coef_ + 1e-2 * rng.standard_normal(4)
        assert objective(near, model.intercept_ + 1e-2 * rng.standard_normal()) > least


@pytest.mark.slow
def test_several_quantiles_load_the_rows_once():
    X, y, weight = heavy()
    levels = [0.1, 0.5, 0.9]
    model = daskglm.QuantileRegressor(quantile=levels, alpha=0.01, tol=1e-9).fit(X, y, weight)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == model.n_iter_.shape == (3,)
    assert model.predict(X).shape == (200, 3)
    assert len(model.report_.parts) == 3
    assert all(part.seconds_loading == 0.0 for part in model.report_.parts[1:])
    for k, q in enumerate(levels):
        alone = daskglm.QuantileRegressor(quantile=q, alpha=0.01, tol=1e-9).fit(X, y, weight)
        np.testing.assert_allclose(model.coef_[k], alone.coef_, atol=1e-5)
    below = (y[:, None] < model.predict(X)).mean(axis=0)
    np.testing.assert_allclose(below, levels, atol=0.1)
    with pytest.raises(ValueError, match="score is for one quantile"):
        model.score(X, y)
    again = model.set_params(warm_start=True).fit(X, y, weight)
    assert again.coef_.shape == (3, 4)


@pytest.mark.parametrize(
    ("before", "after", "nearest"),
    [
        ([0.1, 0.9], 0.8, [1]),
        ([0.1, 0.5, 0.9], 0.5, [1]),
        (0.5, [0.5, 0.6], [0, 0]),
        ([0.9, 0.2], [0.1, 0.25, 0.8], [1, 1, 0]),
    ],
    ids=str,
)
def test_a_warm_start_is_at_the_nearest_quantile_before(before, after, nearest):
    X, y, weight = heavy()
    model = daskglm.QuantileRegressor(quantile=before, alpha=0.01, tol=1e-9, warm_start=True)
    model.fit(X, y, weight)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    # the first point of a fit that may take no iteration
    model.set_params(quantile=after, max_iter=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, weight)
    np.testing.assert_allclose(np.atleast_2d(model.coef_), coef[nearest], rtol=1e-12)
    np.testing.assert_allclose(np.atleast_1d(model.intercept_), intercept[nearest], atol=1.0)
    model.set_params(max_iter=None).fit(X, y, weight)
    cold = daskglm.QuantileRegressor(quantile=after, alpha=0.01, tol=1e-9).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, cold.coef_, atol=1e-5)


def test_a_model_from_a_file_starts_at_its_quantile(tmp_path):
    X, y, weight = heavy()
    model = daskglm.QuantileRegressor(quantile=0.3, alpha=0.01).fit(X, y, weight)
    daskglm.save(model, tmp_path / "model.json")
    read = daskglm.load(tmp_path / "model.json")
    read.set_params(quantile=[0.3, 0.9], warm_start=True, max_iter=0)
    with pytest.warns(ConvergenceWarning):
        read.fit(X, y, weight)
    np.testing.assert_allclose(read.coef_, [model.coef_, model.coef_], rtol=1e-12)


def test_starts_that_are_given_have_a_row_for_each_quantile():
    X, y, _ = heavy()
    with pytest.raises(ValueError, match=r"shape \(2, 4\), and there are 3 quantiles"):
        daskglm.QuantileRegressor(quantile=[0.1, 0.5, 0.9])._fit(
            X, y, None, start=(np.zeros((2, 4)), np.zeros(2))
        )
    with pytest.raises(ValueError, match=r"this fit has one and 4 features: it wants \(1, 4\)"):
        daskglm.fit(X, y, loss="quantile(0.5)", warm_start=(np.zeros((2, 4)), np.zeros(2)))


@pytest.mark.slow
def test_containers_give_the_same(client):
    X, y, weight = heavy()
    model = daskglm.QuantileRegressor(quantile=[0.2, 0.8], alpha=0.0, tol=1e-8).fit(X, y, weight)
    frame = pd.DataFrame(X, columns=list("abcd"))
    lazy = [da.from_array(part, chunks=(70, -1)[: part.ndim]) for part in (X, y, weight)]
    table = dd.from_pandas(frame.assign(y=y, s=weight), npartitions=3)
    blocks = [delayed(X[:90]), delayed(X[90:])], [delayed(y[:90]), delayed(y[90:])]
    fits = {
        "csr": (sp.csr_matrix(X), y, weight),
        "pandas": (frame, pd.Series(y), pd.Series(weight)),
        "dask arrays": lazy,
        "dask dataframe": (table, "y", "s"),
        "delayed": (*blocks, [delayed(weight[:90]), delayed(weight[90:])]),
    }
    for name, data in fits.items():
        found = daskglm.QuantileRegressor(quantile=[0.2, 0.8], alpha=0.0, tol=1e-8).fit(*data)
        np.testing.assert_allclose(found.coef_, model.coef_, atol=1e-5, err_msg=name)
        assert found.report_.converged, name
    assert found.report_.workers > 1
    np.testing.assert_allclose(model.predict(lazy[0]).compute(), model.predict(X))
    streamed = daskglm.fit(
        *lazy[:2], loss="quantile(0.2)", C=np.inf, sample_weight=lazy[2], tol=1e-8, out_of_core=True
    )
    np.testing.assert_allclose(streamed.coef_, model.coef_[0], atol=1e-5)


def test_files_hold_one_quantile(tmp_path):
    X, y, _ = heavy()
    model = daskglm.QuantileRegressor(quantile=0.3, alpha=0.1).fit(X, y)
    daskglm.save(model, tmp_path / "model.json")
    again = daskglm.load(tmp_path / "model.json")
    assert again.quantile == 0.3
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    several = daskglm.QuantileRegressor(quantile=[0.3, 0.7], alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="cannot save a QuantileRegressor of 2"):
        daskglm.save(several, tmp_path / "several.json")


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.5, "half", None, [], [0.5, 2.0], True])
def test_what_is_no_quantile_is_refused(quantile):
    with pytest.raises(ValueError, match="must be a number above 0 and below 1"):
        daskglm.QuantileRegressor(quantile=quantile).fit([[1.0], [2.0]], [1.0, 2.0])


def test_names_of_scikit_learns_solvers():
    X, y, _ = heavy()
    model = daskglm.QuantileRegressor(alpha=0, solver="highs").fit(X, y)
    assert model.solver_ == "proximal"
    assert "of scikit-learn" in model.report_.why
    assert quantile_optimum(X, y, 0.5)[2] == pytest.approx(model.report_.objective, rel=1e-6)
