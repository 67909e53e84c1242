"""Means with standard errors, against statsmodels, in every container."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.estimators.inference_prediction import _finished
from daskglm.losses.links import SQUARE_ROOT
from tests.estimators.inference_cases import CASES, data_of, fitted

COLUMNS = ["mean", "se", "lower", "upper"]


def inferred(name, **more):
    data = data_of(CASES[name])
    beside = {} if data.offset is None else {"offset": data.offset}
    model = fitted(name, data.X, data.y, **beside)
    return data, model.inference(data.X, data.y, **beside, **more)


def test_intervals_end_where_the_means_of_a_link_do():
    scores = np.array([[0.1, 0.2, 0.0], [2.0, 0.5, 0.0]])  # margin, its error, no offset
    found = _finished(scores, SQUARE_ROOT, 2.0)
    np.testing.assert_allclose(found[:, 2:], [[0.0, 0.25], [1.0, 9.0]], atol=1e-15)


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma", "binomial_cloglog", "squared"])
@pytest.mark.parametrize("covariance", ["classical", "HC0"])
def test_predictions_are_those_of_statsmodels(name, covariance):
    sm = pytest.importorskip("statsmodels.api")
    # robust covariances have the observed Hessian there
    observed = covariance != "classical"
    data, found = inferred(name, covariance=covariance, observed=observed, use_t=False)
    offset = {} if data.offset is None else {"offset": data.offset}
    model = sm.GLM(data.y, data.with_constant, family=CASES[name].family_of(sm), **offset)
    kind = "nonrobust" if covariance == "classical" else covariance
    fit = model.fit(start_params=found.params.to_numpy(), tol=1e-15, cov_type=kind)
    wanted = fit.get_prediction(
        data.with_constant[:50], offset=None if not offset else data.offset[:50]
    )
    ours = found.predict(data.X[:50], None if not offset else data.offset[:50])
    assert list(ours.columns) == COLUMNS
    np.testing.assert_allclose(ours, wanted.summary_frame(alpha=0.05), rtol=1e-7)
    link = found.predict(
        data.X[:50], None if not offset else data.offset[:50], type="link", level=0.9
    )
    np.testing.assert_allclose(
        link["mean"], data.with_constant[:50] @ found.params + (data.offset[:50] if offset else 0)
    )
    np.testing.assert_allclose(link["upper"] - link["mean"], 1.6448536269514722 * link["se"])


def test_intervals_of_a_decreasing_link_are_in_order():
    data, found = inferred("gamma_inverse")
    frame = found.predict(data.X)
    assert (frame["lower"] < frame["mean"]).all()
    assert (frame["mean"] < frame["upper"]).all()
    low = found.predict(data.X, type="link")["upper"]
    np.testing.assert_allclose(frame["lower"], 1.0 / low)


def test_least_squares_have_intervals_of_student():
    sm = pytest.importorskip("statsmodels.api")
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = X.sum(axis=1) + np.random.default_rng(1).normal(size=12)
    found = fitted("squared", X, y).inference(X, y)
    constant = sm.add_constant(X, prepend=False)
    wanted = sm.OLS(y, constant).fit().get_prediction(constant).summary_frame()
    np.testing.assert_allclose(found.predict(X), wanted.iloc[:, :4], rtol=1e-8)


DATA, FOUND = inferred("poisson")
X, OFFSET = DATA.X, DATA.offset
WANTED = FOUND.predict(X, OFFSET).to_numpy()


def test_in_memory():
    for rows in (X, X.tolist(), sp.csr_matrix(X), X.astype(np.float32)):
        np.testing.assert_allclose(FOUND.predict(rows, OFFSET), WANTED, rtol=1e-6)
    index = [f"row {i}" for i in range(len(X))]
    frame = pd.DataFrame(X, index=index)
    found = FOUND.predict(frame, pd.Series(OFFSET, index))
    assert list(found.index) == index
    np.testing.assert_allclose(found, WANTED)
    np.testing.assert_allclose(FOUND.predict(X, exposure=np.exp(OFFSET)), WANTED)


@pytest.mark.parametrize("of", ["numpy", "dask"])
def test_dask_arrays(of):
    rows = da.from_array(X, chunks=(90, -1))
    offset = OFFSET if of == "numpy" else da.from_array(OFFSET, chunks=90)
    found = FOUND.predict(rows, offset)
    assert isinstance(found, dd.DataFrame)
    assert list(found.columns) == COLUMNS
    np.testing.assert_allclose(found.compute(), WANTED)
    np.testing.assert_allclose(FOUND.predict(rows).compute(), FOUND.predict(X))


def test_dask_arrays_of_unknown_lengths():
    rows = da.from_array(X, chunks=(90, -1))
    some = rows[rows[:, 0] > 0.0]
    np.testing.assert_allclose(FOUND.predict(some).compute(), FOUND.predict(X[X[:, 0] > 0.0]))


def test_dask_dataframes_and_names():
    frame = pd.DataFrame(X, columns=list("abc"))
    found = fitted("poisson", frame, DATA.y, offset=OFFSET)
    found.feature_names_in_ = np.array(list("abc"), object)
    found = found.inference(frame, DATA.y, offset=OFFSET)
    lazy = dd.from_pandas(frame.assign(o=OFFSET), npartitions=3)
    for ours in (found.predict(lazy, "o"), found.predict(lazy[["a", "b", "c"]], lazy["o"])):
        np.testing.assert_allclose(ours.compute(), WANTED)
        assert list(ours.compute().index) == list(range(len(X)))
    np.testing.assert_allclose(found.predict(frame.assign(o=OFFSET), "o"), WANTED)
    # names settle the order
    np.testing.assert_allclose(found.predict(frame[["b", "a", "c"]], OFFSET), WANTED)
    with pytest.raises(ValueError, match="'z' would name a column"):
        found.predict(frame, "z")


def test_delayed_blocks():
    blocks = [dask.delayed(X[:100]), dask.delayed(X[100:])]
    offsets = [dask.delayed(OFFSET[:100]), dask.delayed(OFFSET[100:])]
    parts = dask.compute(*FOUND.predict(blocks, offsets))
    np.testing.assert_allclose(pd.concat(parts), WANTED)
    np.testing.assert_allclose(pd.concat(dask.compute(*FOUND.predict(blocks))), FOUND.predict(X))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"X has shape \(400, 2\), but the model was fitted to 3"):
        FOUND.predict(X[:, :2])
    with pytest.raises(ValueError, match="400 rows but offset has 3"):
        FOUND.predict(X, OFFSET[:3])
    with pytest.raises(ValueError, match="X 400, offset 3"):
        FOUND.predict(da.from_array(X), OFFSET[:3])
    with pytest.raises(ValueError, match="type='mean' is not one of"):
        FOUND.predict(X, type="mean")
    with pytest.raises(ValueError, match="level=0 must be between 0 and 1"):
        FOUND.predict(X, level=0)


def test_losses_without_a_link_have_margins_only():
    y = (X[:, 0] + np.random.default_rng(0).normal(size=400) > 0).astype(int)
    svm = daskglm.LinearClassifier(loss="squared_hinge", C=np.inf, tol=1e-10).fit(X, y)
    found = svm.inference(X, y, covariance="HC0")
    with pytest.raises(ValueError, match="'squared_hinge' has no link"):
        found.predict(X)
    np.testing.assert_allclose(found.predict(X, type="link")["mean"], svm.decision_function(X))


def test_without_an_intercept():
    model = daskglm.Ridge(alpha=0, fit_intercept=False).fit(X, DATA.y)
    found = model.inference(X, DATA.y)
    np.testing.assert_allclose(found.predict(X)["mean"], model.predict(X))
    se = np.sqrt(np.einsum("ij,jk,ik->i", X, found.cov_params(), X))
    np.testing.assert_allclose(found.predict(X)["se"], se)
