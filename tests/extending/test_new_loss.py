"""A loss is added from outside of the package, as the one module `log_cosh.py`, and fitted in process and on a cluster."""

import math
from dataclasses import replace
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.optimize

import daskglm
from daskglm.core.requests import LossRef
from daskglm.losses.base import DualFormulas
from daskglm.losses.table import LOSSES, law_of

HERE = Path(__file__).parent


def rows(n=600, d=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.5 + rng.standard_t(2, n)


def best(X, y, C):
    """The optimum by SciPy."""
    X1 = np.c_[X, np.ones(len(y))]

    def f(w):
        r = X1 @ w - y
        size = np.abs(r)
        value = (size + np.log1p(np.exp(-2 * size)) - math.log(2)).sum()
        g = C * X1.T @ np.tanh(r)
        g[:-1] += w[:-1]
        return C * value + 0.5 * w[:-1] @ w[:-1], g

    found = scipy.optimize.minimize(f, np.zeros(X1.shape[1]), jac=True, method="BFGS", tol=1e-10)
    return found.fun, found.x


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd"])
def test_it_is_fitted_in_process_by_all_solvers_of_the_primal(log_cosh, solver):
    X, y = rows()
    value, w = best(X, y, 0.5)
    model = daskglm.fit(X, y, loss="log_cosh", C=0.5, solver=solver, tol=1e-9)
    assert model.report_.converged
    assert isinstance(model, daskglm.LinearRegressor)
    assert 0 <= model.report_.relative_gap <= 1e-9
    assert model.report_.objective == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose([*model.coef_, model.intercept_], w, atol=1e-4)


@pytest.mark.slow
def test_it_is_fitted_on_a_cluster_whose_workers_are_sent_the_module(log_cosh, client):
    X, y = rows()
    lazy = da.from_array(X, chunks=(200, -1)), da.from_array(y, chunks=200)
    with pytest.raises(ValueError, match=r"cannot import 'log_cosh'.*upload_file"):
        daskglm.fit(*lazy, loss="log_cosh", client=client)
    client.upload_file(str(HERE / "log_cosh.py"))
    model = daskglm.fit(*lazy, loss="log_cosh", C=0.5, client=client, tol=1e-9)
    assert model.report_.converged
    assert model.report_.workers == 2
    assert model.report_.objective == pytest.approx(best(X, y, 0.5)[0], rel=1e-8)


def test_weights_float32_sparse_rows_and_a_path(log_cosh):
    import scipy.sparse as sp

    X, y = rows()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    options = dict(loss="log_cosh", C=0.5, tol=1e-10)
    whole = daskglm.fit(X[repeated], y[repeated], **options)
    weighted = daskglm.fit(sp.csr_matrix(X), y, sample_weight=weight, **options)
    np.testing.assert_allclose(weighted.coef_, whole.coef_, atol=1e-4)
    narrow = daskglm.fit(X[repeated].astype(np.float32), y[repeated], **options)
    np.testing.assert_allclose(narrow.coef_, whole.coef_, atol=1e-4)
    path = daskglm.fit(X, y, loss="log_cosh", C=[0.1, 0.5], tol=1e-9)
    assert path[1].report_.objective == pytest.approx(best(X, y, 0.5)[0], rel=1e-8)


def test_what_it_lacks_is_said_before_any_work(log_cosh):
    X, y = rows()
    with pytest.raises(ValueError, match="solver='sdca'.*'log_cosh' has no dual"):
        daskglm.fit(X, y, loss="log_cosh", solver="sdca")
    with pytest.raises(ValueError, match="class_weight has no meaning"):
        daskglm.fit(X, y, loss="log_cosh", class_weight={1: 2.0})


def test_a_loss_of_classes_from_outside(log_cosh):
    """The squared hinge again, by another name: it gives the same answer as that of the package."""

    def row(y, z, p1, p2):
        short = max(1.0 - y * z, 0.0)
        return short * short, -2.0 * y * short, 2.0 if short > 0.0 else 0.0

    daskglm.register_loss(daskglm.Loss("l2svm", row, classifies=True, smoothness=2.0))
    try:
        X, y = rows()
        model = daskglm.fit(X, y > 0, loss="l2svm", tol=1e-9)
        same = daskglm.fit(X, y > 0, loss="squared_hinge", tol=1e-9)
        assert isinstance(model, daskglm.LinearClassifier)
        np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-5)
    finally:
        LOSSES.pop("l2svm")


def test_formulas_that_contradict_each_other_are_refused(log_cosh):
    def negative(y, z, p1, p2):
        return (z - y) ** 2 - 5.0, 2.0 * (z - y), 2.0

    def wrong_slope(y, z, p1, p2):
        return 0.5 * (z - y) ** 2, 2.0 * (z - y), 2.0

    def wrong_curvature(y, z, p1, p2):
        return 0.5 * (z - y) ** 2, z - y, 0.5

    def rough(y, z, p1, p2):
        return 2.0 * (z - y) ** 2, 4.0 * (z - y), 4.0

    for row, smoothness, words in (
        (negative, 2.0, "must be finite and not negative"),
        (wrong_slope, 2.0, "but the value rises by"),
        (wrong_curvature, 2.0, "but the slope rises by"),
        (rough, 1.0, "not between 0 and smoothness=1"),
    ):
        wrong = daskglm.Loss("wrong", row, False, smoothness, self_concordance=0.0)
        with pytest.raises(ValueError, match=words):
            daskglm.register_loss(wrong)
    assert "wrong" not in LOSSES
    with pytest.raises(ValueError, match="'squared' is that of a loss of daskglm"):
        daskglm.register_loss(daskglm.Loss("squared", wrong_slope, False, 1.0))
    dual = DualFormulas(*[wrong_slope] * 4)
    with pytest.raises(ValueError, match="has no dual"):
        daskglm.register_loss(replace(log_cosh.LOG_COSH, name="other", dual=dual))
    with pytest.raises(ValueError, match="needs an intercept_radius"):
        daskglm.register_loss(
            daskglm.Loss("endless", wrong_slope, True, 1.0, attains_infimum=False)
        )


def test_a_loss_that_nobody_knows_fails():
    with pytest.raises(ValueError, match="loss 'poison' is not one of"):
        law_of(LossRef("poison"))
    with pytest.raises(ValueError, match="cannot import 'no_such_module'"):
        law_of(LossRef("poison", module="no_such_module"))
