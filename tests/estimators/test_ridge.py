"""Ridge with several targets: scikit-learn's shapes and coefficients."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model

import daskglm


def several(n=90, d=4, t=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2
    return X, X @ rng.standard_normal((d, t)) + rng.standard_normal((n, t)) + 5, rng.random(n) + 0.5


@pytest.mark.parametrize("alpha", [2.0, [0.5, 2.0, 30.0]])
def test_every_target_is_fitted_as_by_scikit_learn(alpha):
    X, Y, weight = several()
    theirs = sklearn.linear_model.Ridge(alpha=np.array(alpha)).fit(X, Y, weight)
    model = daskglm.Ridge(alpha=np.array(alpha), tol=1e-13).fit(X, Y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-6)
    assert model.score(X, Y, weight) == pytest.approx(theirs.score(X, Y, weight))
    assert model.n_iter_.shape == (3,)
    assert len(model.report_.parts) == 3
    frame = daskglm.Ridge(alpha=np.array(alpha), tol=1e-13).fit(
        pd.DataFrame(X), pd.DataFrame(Y), weight
    )
    np.testing.assert_allclose(frame.coef_, model.coef_)


def test_dask_arrays_here_and_on_a_cluster(client):
    X, Y, weight = several()
    lazy = [da.from_array(part, chunks=(30, -1)[: part.ndim]) for part in (X, Y, weight)]
    model = daskglm.Ridge(tol=1e-13).fit(X, Y, weight)
    there = daskglm.Ridge(tol=1e-13).fit(*lazy)
    np.testing.assert_allclose(there.coef_, model.coef_, rtol=1e-7)
    np.testing.assert_allclose(there.predict(lazy[0]).compute(), model.predict(X))
    assert there.score(lazy[0], lazy[1]) == pytest.approx(model.score(X, Y))
    named = daskglm.fit(*lazy[:2], loss="squared", sample_weight=lazy[2], client=client, tol=1e-13)
    np.testing.assert_allclose(named.coef_, model.coef_, rtol=1e-7)


def test_a_column_is_one_target_and_warm_starts_go_on():
    X, Y, _ = several()
    with pytest.warns(Warning, match="column-vector"):
        model = daskglm.Ridge().fit(X, Y[:, :1])
    assert model.coef_.shape == (4,)
    assert daskglm.Ridge(alpha=np.array([2.0])).fit(X, Y[:, 0]).coef_.shape == (4,)
    again = daskglm.Ridge(warm_start=True).fit(X, Y).fit(X, Y)
    assert (again.n_iter_ <= 1).all()


def test_what_does_not_fit_together_is_refused(tmp_path):
    X, Y, _ = several()
    with pytest.raises(ValueError, match="alpha has 2 values but y has 3 target"):
        daskglm.Ridge(alpha=[1.0, 2.0]).fit(X, Y)
    with pytest.raises(ValueError, match="alpha=-1.0 must be"):
        daskglm.Ridge(alpha=[1.0, -1.0, 1.0]).fit(X, Y)
    with pytest.raises(ValueError, match="y contains NaN"):
        daskglm.Ridge().fit(X, np.where(Y[3, 1] == Y, np.nan, Y))
    with pytest.raises(ValueError, match="take no checkpoint"):
        daskglm.fit(X, Y, loss="squared", checkpoint=tmp_path)
    with pytest.raises(ValueError, match="y has 3 targets"):
        daskglm.Ridge().fit(
            dd.from_pandas(pd.DataFrame(X), npartitions=2), dd.from_pandas(pd.DataFrame(Y), 2)
        )
    with pytest.raises(ValueError, match="cannot save a Ridge of 3 targets"):
        daskglm.save(daskglm.Ridge().fit(X, Y), tmp_path / "model.json")


@pytest.mark.parametrize("alpha", [1e9, 1e14])
@pytest.mark.parametrize(
    "how",
    [{}, {"standardize": True}, {"penalty_factor": [1.0, 2.0, 3.0, 1.0]}, {"solver": "newton"}],
    ids=str,
)
def test_a_penalty_that_leaves_nearly_nothing_leaves_it_exactly(alpha, how):
    X, Y, _ = several()
    model = daskglm.Ridge(alpha=alpha, **how).fit(X, Y[:, 0])
    centred = X - X.mean(axis=0)
    factors = np.array(how.get("penalty_factor", np.ones(4)))
    factors = factors * (X.var(axis=0) if "standardize" in how else 1.0)
    wanted = np.linalg.solve(centred.T @ centred + alpha * np.diag(factors), centred.T @ Y[:, 0])
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-8)
    assert model.n_iter_ == 1
    assert model.report_.relative_gap <= 1e-6


# NIST's Statistical Reference Datasets, Longley: implicit deflator, gross national product,
# unemployed, armed forces, population, year; and total employment.
LONGLEY = np.array(
    [
        [83.0, 234289, 2356, 1590, 107608, 1947, 60323],
        [88.5, 259426, 2325, 1456, 108632, 1948, 61122],
        [88.2, 258054, 3682, 1616, 109773, 1949, 60171],
        [89.5, 284599, 3351, 1650, 110929, 1950, 61187],
        [96.2, 328975, 2099, 3099, 112075, 1951, 63221],
        [98.1, 346999, 1932, 3594, 113270, 1952, 63639],
        [99.0, 365385, 1870, 3547, 115094, 1953, 64989],
        [100.0, 363112, 3578, 3350, 116219, 1954, 63761],
        [101.2, 397469, 2904, 3048, 117388, 1955, 66019],
        [104.6, 419180, 2822, 2857, 118734, 1956, 67857],
        [108.4, 442769, 2936, 2798, 120445, 1957, 68169],
        [110.8, 444546, 4681, 2637, 121950, 1958, 66513],
        [112.6, 482704, 3813, 2552, 123366, 1959, 68655],
        [114.2, 502601, 3931, 2514, 125368, 1960, 69564],
        [115.7, 518173, 4806, 2572, 127852, 1961, 69331],
        [116.9, 554894, 4007, 2827, 130081, 1962, 70551],
    ]
)
CERTIFIED = [
    15.0618722713733,
    -0.358191792925910e-01,
    -2.02022980381683,
    -1.03322686717359,
    -0.511041056535807e-01,
    1829.15146461355,
]


@pytest.mark.parametrize("tol", [1e-6, 1e-14])
def test_longley_of_nist_is_proved_and_has_eleven_digits(tol):
    model = daskglm.Ridge(alpha=0, tol=tol).fit(LONGLEY[:, :-1], LONGLEY[:, -1])
    np.testing.assert_allclose(model.coef_, CERTIFIED, rtol=5e-11)
    assert model.intercept_ == pytest.approx(-3482258.63459582, rel=1e-11)
    assert model.report_.converged
    assert model.report_.relative_gap <= tol
    assert model.report_.passes <= 3.0
    assert 2.0 * model.report_.objective == pytest.approx(836424.055505915, rel=1e-10)


def test_least_squares_without_a_penalty_are_proved_in_one_pass():
    X, Y, weight = several(n=400)
    for model in (daskglm.Ridge(alpha=0), daskglm.GeneralizedLinearRegressor(alpha=0)):
        report = model.fit(X, Y[:, 0], weight).report_
        assert report.relative_gap <= 1e-12
        assert report.passes <= 1.0 + ("Generalized" in type(model).__name__)
    A = np.c_[X, np.ones(400)] * np.sqrt(weight)[:, None]
    wanted = np.linalg.lstsq(A, Y[:, 0] * np.sqrt(weight), rcond=None)[0]
    np.testing.assert_allclose(model.coef_, wanted[:-1], rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-8, 1e-4])
def test_what_rounding_hides_of_least_squares_is_no_reason_to_warn(noise):
    X, Y, _ = several(n=400)
    y = X @ np.ones(4) + noise * Y[:, 0]
    report = (model := daskglm.Ridge(alpha=0).fit(X, y)).report_
    assert report.converged
    wanted = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-12)
    assert np.isnan(report.relative_gap) or report.relative_gap <= 1e-6


def test_dependent_columns_and_too_few_rows_are_not_proved():
    X, Y, _ = several()
    for rows, y in ((np.c_[X, X[:, 0]], Y[:, 0]), (X[:3], Y[:3, 0])):
        report = daskglm.Ridge(alpha=0).fit(rows, y).report_
        assert report.converged
        assert np.isnan(report.relative_gap)
