"""Inference of fits of all classes together: beside statsmodels, published tables, long double."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests import published
from tests.reference import solve

COVARIANCES = ("classical", "HC0", "HC1", "cluster")


def drawn(n=600, d=3, K=4, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(0, 0.7, (d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    levels = np.digitize(X @ [1.0, -0.5, 0.2] + rng.logistic(size=n), [-1.0, 0.5, 1.5])
    return X, y, levels, rng.uniform(0.5, 2.0, n), rng.integers(0, 40, n)


X, Y, LEVELS, WEIGHT, GROUPS = drawn()


def fitted(model, *data, **beside):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding may end it first
        return model.set_params(tol=1e-20).fit(*data, **beside)


def multinomial(*data, **beside):
    return fitted(daskglm.LogisticRegression(C=np.inf, solver="newton"), *data, **beside)


def ordinal(*data, **beside):
    return fitted(daskglm.OrdinalRegression(C=np.inf), *data, **beside)


FITS = {"multinomial": (multinomial, Y), "ordinal": (ordinal, LEVELS)}


@pytest.mark.parametrize("loss", list(FITS))
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_standard_errors_are_those_of_the_reference(loss, covariance):
    fit, y = FITS[loss]
    model = fit(X, y, sample_weight=WEIGHT)
    clusters = GROUPS if covariance == "cluster" else None
    found = model.inference(X, y, WEIGHT, covariance=covariance, clusters=clusters)
    oracle = solve(X, y, loss, "logit", sample_weight=WEIGHT, groups=GROUPS)
    np.testing.assert_allclose(found.params, oracle.params, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.bse, oracle.bse(covariance, "observed"), rtol=1e-8)
    assert found.passes == 1.0


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_anes96_beside_statsmodels(covariance):
    sm = pytest.importorskip("statsmodels.api")
    data = sm.datasets.anes96.load_pandas()
    rows, y = data.exog.to_numpy(float), data.endog.to_numpy(int)
    n, p = len(y), 36
    groups = np.random.default_rng(0).integers(0, 50, n)
    of_clusters = covariance == "cluster"
    found = multinomial(rows, y).inference(
        rows, y, covariance=covariance, clusters=groups if of_clusters else None
    )
    how = {} if covariance == "classical" else {"cov_type": covariance}
    if of_clusters:
        how["cov_kwds"] = {"groups": groups}
    theirs = sm.MNLogit(y, np.column_stack([rows, np.ones(n)])).fit(
        method="newton", disp=0, tol=1e-14, maxiter=100, **how
    )
    # its HC1 lacks n / (n - p)
    factor = np.sqrt(n / (n - p)) if covariance == "HC1" else 1.0
    errors = factor * np.asarray(theirs.bse).T.ravel()
    np.testing.assert_allclose(found.bse, errors, rtol=1e-8)
    z = np.asarray(theirs.params).T.ravel() / errors
    np.testing.assert_allclose(found.tvalues, z, rtol=1e-8)
    if covariance != "HC1":
        np.testing.assert_allclose(found.pvalues, np.asarray(theirs.pvalues).T.ravel(), rtol=1e-6)
    assert found.llf == pytest.approx(theirs.llf, rel=1e-12)


def test_published_table_of_anes96():
    case = published.case("anes96")
    rows = np.asarray(case.X, float)
    found = multinomial(rows, np.asarray(case.y)).inference(rows, np.asarray(case.y))
    errors = np.asarray(case.bse, float).reshape(6, 6)
    np.testing.assert_allclose(found.bse.to_numpy().reshape(6, 6), errors, rtol=1e-7)


@pytest.mark.parametrize("loss", list(FITS))
def test_two_workers_and_rows_out_of_core_give_the_same(loss, client):
    fit, y = FITS[loss]
    model = fit(X, y)
    wanted = model.inference(X, y, covariance="cluster", clusters=GROUPS)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, of=GROUPS)
    lazy = dd.from_pandas(frame, npartitions=4)
    named = fit(frame[["a", "b", "c"]], y)
    found = named.inference(lazy, "y", covariance="cluster", clusters="of", client=client)
    np.testing.assert_allclose(found.cov_params(), wanted.cov_params(), rtol=1e-9)
    arrays = da.from_array(X, chunks=(200, 3)), da.from_array(y, chunks=200)
    groups = da.from_array(GROUPS, chunks=200)
    streamed = model.inference(
        *arrays, covariance="cluster", clusters=groups, client=client, out_of_core=True
    )
    np.testing.assert_allclose(streamed.bse, wanted.bse, rtol=1e-9)


def test_coefficients_are_against_any_class():
    labels = np.array(["d", "a", "c", "b"])[Y]
    model = multinomial(X, labels)
    first, other = model.inference(X, labels), model.inference(X, labels, reference="c")
    assert list(first.params.index[:4]) == ["b:x0", "b:x1", "b:x2", "b:intercept"]
    assert [name[:2] for name in other.params.index[::4]] == ["a:", "b:", "d:"]
    assert other.params["a:x1"] == pytest.approx(-first.params["c:x1"])
    assert other.bse["a:x1"] == pytest.approx(first.bse["c:x1"], rel=1e-9)
    apart = first.wald_test(["b:x0", "c:x0", "d:x0"])
    assert apart.statistic == pytest.approx(
        other.wald_test(["a:x0", "b:x0", "d:x0"]).statistic, rel=1e-8
    )
    assert "against the class of reference" in str(first.summary())
    with pytest.raises(ValueError, match=r"reference='e' is not one of the classes"):
        model.inference(X, labels, reference="e")
    without = fitted(daskglm.LogisticRegression(C=np.inf, fit_intercept=False), X, labels)
    assert len(without.inference(X, labels).params) == 9


def test_thresholds_are_named_by_the_classes_beside_them():
    levels = np.array(["1 low", "2 middle", "3 high", "4 top"])[LEVELS]
    found = ordinal(X, levels).inference(X, levels)
    assert list(found.params.index) == [
        *("x0", "x1", "x2"),
        *("1 low|2 middle", "2 middle|3 high", "3 high|4 top"),
    ]
    assert "Thresholds" in found.summary()._repr_html_()


def test_what_has_no_inference_is_refused():
    penalised = daskglm.LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match="the fit is penalised"):
        penalised.inference(X, Y)
    with pytest.raises(ValueError, match="no covariance around a penalised optimum"):
        penalised.inference(X, Y, penalized="effective")
    found = multinomial(X, Y).inference(X, Y)
    with pytest.raises(ValueError, match="no standard errors of probabilities"):
        found.predict(X)
    two = fitted(daskglm.LogisticRegression(C=np.inf), X, Y > 1)
    with pytest.raises(ValueError, match="reference=1: only fits of more than two classes"):
        two.inference(X, Y > 1, reference=1)
    doubled = np.column_stack([X, X[:, 0]])
    with pytest.raises(ValueError, match="'1:x3' is a linear combination of '1:x0'"):
        multinomial(doubled, Y).inference(doubled, Y)
