"""The intercept alone, of X without columns: every estimator and container; cross-validation of constant targets."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from tests.covering import each_choice

N = 240
RNG = np.random.default_rng(4)
EXPOSURE, WEIGHT = RNG.uniform(0.5, 2.0, N), RNG.uniform(0.5, 2.0, N)
COUNTS = RNG.poisson(2.0 * EXPOSURE).astype(float)
TWO, THREE = (COUNTS > 2.0).astype(int), np.digitize(COUNTS, [1.5, 3.5])
SHARE = np.average(TWO, weights=WEIGHT)
MEAN = np.average(COUNTS, weights=WEIGHT)
BELOW = np.array([np.average(k >= THREE, weights=WEIGHT) for k in (0, 1)])


def logit(share):
    return np.log(share / (1.0 - share))


def median():
    order = np.argsort(COUNTS)
    return COUNTS[order][np.searchsorted(np.cumsum(WEIGHT[order]), 0.5 * WEIGHT.sum())]


MODELS = {
    "Ridge": (daskglm.Ridge(), COUNTS, MEAN),
    "Lasso": (daskglm.Lasso(), COUNTS, MEAN),
    "ElasticNet": (daskglm.ElasticNet(), COUNTS, MEAN),
    "LassoCV": (daskglm.LassoCV(cv=2, alphas=2), COUNTS, MEAN),
    "LogisticRegression": (daskglm.LogisticRegression(tol=1e-12), TWO, logit(SHARE)),
    "LogisticRegression C=inf": (daskglm.LogisticRegression(C=np.inf), TWO, logit(SHARE)),
    "LogisticRegressionCV": (
        daskglm.LogisticRegressionCV(cv=2, Cs=2, tol=1e-12),
        TWO,
        logit(SHARE),
    ),
    "LinearSVC": (daskglm.LinearSVC(), TWO, 2.0 * SHARE - 1.0),
    "OrdinalRegression": (daskglm.OrdinalRegression(tol=1e-12), THREE, logit(BELOW)),
    "QuantileRegressor": (daskglm.QuantileRegressor(), COUNTS, median()),
    "LinearSVR": (daskglm.LinearSVR(), COUNTS, median()),
    "HuberRegressor": (daskglm.HuberRegressor(epsilon=1e6, scale=1.0), COUNTS, MEAN),
    "PoissonRegressor": (daskglm.PoissonRegressor(tol=1e-12), COUNTS, np.log(MEAN)),
    "GammaRegressor": (daskglm.GammaRegressor(tol=1e-12), COUNTS + 1.0, np.log(MEAN + 1.0)),
    "TweedieRegressor": (daskglm.TweedieRegressor(power=1.5, tol=1e-12), COUNTS, np.log(MEAN)),
    "negative binomial": (
        daskglm.GeneralizedLinearRegressor("negative_binomial(0.5)", tol=1e-12),
        COUNTS,
        np.log(MEAN),
    ),
    "GeneralizedLinearRegressorCV": (
        daskglm.GeneralizedLinearRegressorCV("poisson", cv=2, alphas=2, tol=1e-12),
        COUNTS,
        np.log(MEAN),
    ),
}


def data(kind, y):
    if kind == "frame":
        return pd.DataFrame(index=range(N)), y, WEIGHT
    if kind == "sparse":
        return sp.csr_matrix((N, 0)), y, WEIGHT
    if kind == "dask array":
        cut = [da.from_array(values, chunks=80) for values in (y, WEIGHT)]
        return da.empty((N, 0), chunks=(80, 0)), *cut
    frame = dd.from_pandas(pd.DataFrame({"y": y, "w": WEIGHT}), npartitions=3)
    return frame, "y", "w"


@each_choice
@pytest.mark.parametrize("kind", ["frame", "sparse", "dask array", "dask frame"])
@pytest.mark.parametrize("name", list(MODELS))
def test_the_best_constant(name, kind, tmp_path):
    model, y, wanted = MODELS[name]
    rows, targets, weight = data(kind, y)
    model.fit(rows, targets, weight)
    assert model.coef_.shape[-1] == 0
    assert model.n_features_in_ == 0
    found = getattr(model, "thresholds_", None) if name.startswith("Ord") else model.intercept_
    np.testing.assert_allclose(np.squeeze(found), wanted, rtol=1e-5, atol=1e-5)
    assert model.report_.converged
    known = np.asarray(model.predict(sp.csr_matrix((3, 0))))
    for others in (np.empty((3, 0)), pd.DataFrame(index=range(3)), da.empty((3, 0), chunks=(3, 0))):
        np.testing.assert_array_equal(np.asarray(model.predict(others)), known)
    with pytest.raises(ValueError, match="2 features, but .* expecting 0 features"):
        model.predict(np.ones((3, 2)))
    assert np.isfinite(model.score(rows, targets, weight))
    if not name.startswith(("LogisticRegressionCV", "GeneralizedLinearRegressorCV")):
        daskglm.save(model, tmp_path / "m.json")
        np.testing.assert_array_equal(daskglm.load(tmp_path / "m.json").predict(rows_of_3()), known)


def rows_of_3():
    return sp.csr_matrix((3, 0))


def test_offsets_and_standard_errors():
    rows = sp.csr_matrix((N, 0))
    model = daskglm.PoissonRegressor(alpha=0.0, tol=1e-12).fit(rows, COUNTS, exposure=EXPOSURE)
    assert model.intercept_ == pytest.approx(np.log(COUNTS.sum() / EXPOSURE.sum()), rel=1e-10)
    assert model.deviance_ == pytest.approx(model.null_deviance_)
    error = model.inference(rows, COUNTS, exposure=EXPOSURE).bse["intercept"]
    assert error == pytest.approx(COUNTS.sum() ** -0.5, rel=1e-8)


def test_arrays_in_memory_are_refused_as_by_scikit_learn():
    for rows in (np.empty((4, 0)), [[]] * 4):
        with pytest.raises(ValueError, match=r"0 feature\(s\).*pandas.DataFrame\(index=range"):
            daskglm.Ridge().fit(rows, np.arange(4.0))


@pytest.mark.parametrize(
    "model",
    [
        daskglm.LassoCV(cv=3, alphas=3),
        daskglm.ElasticNetCV(cv=3, alphas=3),
        daskglm.GeneralizedLinearRegressorCV("gaussian", cv=3, alphas=3),
        daskglm.GeneralizedLinearRegressorCV("poisson", cv=3, alphas=3),
        daskglm.GeneralizedLinearRegressorCV("gamma", cv=3, alphas=3),
        daskglm.GeneralizedLinearRegressorCV("poisson", cv=3, alphas=3, l1_ratio=0.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("lazy", [False, True])
def test_cross_validation_of_a_constant_target(model, lazy):
    rows, y = np.random.default_rng(0).standard_normal((60, 3)), np.full(60, 2.0)
    if lazy:
        rows, y = da.from_array(rows, chunks=(20, 3)), da.from_array(y, chunks=20)
    model.fit(rows, y)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.asarray(model.predict(rows)), 2.0, rtol=1e-6)
    assert model.report_.converged
