"""LinearSVR: LIBLINEAR's optima where it does not penalise an intercept, and what it refuses."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm

import daskglm
from tests.losses.programs import value


def noisy(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n), rng.random(n) + 0.5


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_it_is_liblinears_without_an_intercept(loss, epsilon, C):
    X, y, weight = noisy()
    params = {"loss": loss, "epsilon": epsilon, "C": C, "fit_intercept": False}
    theirs = sklearn.svm.LinearSVR(tol=1e-10, max_iter=10**6, dual=True, **params)
    theirs.fit(X, y, weight)
    model = daskglm.LinearSVR(tol=1e-10, **params).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)

    def objective(coef):
        return 0.5 * float(coef @ coef) + C * value(loss, epsilon, X, y, coef, 0.0, weight)

    assert objective(model.coef_) <= objective(theirs.coef_) * (1 + 1e-9)
    assert model.report_.objective == pytest.approx(objective(model.coef_), rel=1e-9)


def test_an_intercept_that_liblinear_hardly_penalises():
    X, y, _ = noisy()
    params = {"epsilon": 0.2, "C": 0.5, "loss": "squared_epsilon_insensitive"}
    theirs = sklearn.svm.LinearSVR(
        tol=1e-10, max_iter=10**6, dual=False, intercept_scaling=1e4, **params
    ).fit(X, y + 2.0)
    model = daskglm.LinearSVR(tol=1e-10, **params).fit(X, y + 2.0)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-4)
    assert model.intercept_ == pytest.approx(np.ravel(theirs.intercept_)[0], rel=1e-4)


def test_sparse_lazy_and_saved(tmp_path):
    X, y, weight = noisy()
    model = daskglm.LinearSVR(epsilon=0.1, tol=1e-9).fit(X, y, weight)
    lazy = [da.from_array(part, chunks=(70, -1)[: part.ndim]) for part in (X, y, weight)]
    for data in ((sp.csr_matrix(X), y, weight), lazy):
        found = daskglm.LinearSVR(epsilon=0.1, tol=1e-9).fit(*data)
        np.testing.assert_allclose(found.coef_, model.coef_, atol=1e-4)
    assert found.score(*lazy) == pytest.approx(model.score(X, y, weight), abs=1e-5)
    daskglm.save(model, tmp_path / "model.json")
    np.testing.assert_array_equal(
        daskglm.load(tmp_path / "model.json").predict(X), model.predict(X)
    )


def test_what_it_does_not_take_is_refused():
    X, y, _ = noisy(20)
    with pytest.raises(ValueError, match="epsilon=-1"):
        daskglm.LinearSVR(epsilon=-1).fit(X, y)
    with pytest.raises(ValueError, match="epsilon='a'"):
        daskglm.LinearSVR(epsilon="a").fit(X, y)
    with pytest.raises(ValueError, match="loss='hinge'"):
        daskglm.LinearSVR(loss="hinge").fit(X, y)
    with pytest.raises(ValueError, match="dual solver only"):
        daskglm.LinearSVR(dual=False).fit(X, y)
    assert daskglm.LinearSVR(dual=True).fit(X, y).solver_.startswith("sdca")
