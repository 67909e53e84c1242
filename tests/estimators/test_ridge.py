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
