"""Ordinal fits with L1 and group penalties, factors and bounds, end to end."""

import math
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.covering import each_choice


def rows(n=400, d=8, K=4, seed=0):
    """Rows of K ordered classes that differ in half of the columns, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = X @ (rng.normal(size=d) * (np.arange(d) < d / 2)) + rng.logistic(size=n)
    y = np.searchsorted(np.quantile(z, np.arange(1, K) / K), z)
    return X, y, rng.uniform(0.2, 3.0, n)


def factors(d):
    v = np.ones(d)
    v[[0, -1]] = 0.0, 3.0
    return v


PENALTIES = {
    "l1": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.5},
    "factors": {"l1_ratio": 1.0, "penalty_factor": factors(8)},
    "factors of L2": {"penalty_factor": factors(8)},
    "matrix": {"P2": np.diag(np.arange(1.0, 9.0)) + 0.1},
    "bounds": {"l1_ratio": 1.0, "lower_bounds": -0.1, "upper_bounds": 0.3},
    "bounds alone": {"penalty": None, "lower_bounds": -0.1, "upper_bounds": 0.3},
    "positive": {"positive": True},
    "groups": {"l1_ratio": 0.7, "groups": np.arange(8) // 2},
    "standardised": {"l1_ratio": 0.8, "standardize": True},
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", list(PENALTIES))
def test_two_classes_are_those_of_logistic_regression(kind, sparse):
    X, y, weight = rows(K=2, seed=3)
    X = X * 2.0 ** np.arange(-4, 4) * (np.abs(X) > 0.5)
    X = sp.csr_matrix(X) if sparse else X
    how = {"tol": 1e-12, **PENALTIES[kind]}
    if kind != "bounds alone":
        how["C"] = 0.1
    model = daskglm.OrdinalRegression(**how).fit(X, y, sample_weight=weight)
    expected = daskglm.LogisticRegression(**how).fit(X, y, sample_weight=weight)
    for fitted in (model, expected):
        assert fitted.report_.relative_gap <= 1e-12
    np.testing.assert_allclose(model.coef_, expected.coef_[0], atol=1e-5)
    np.testing.assert_allclose(model.thresholds_, -expected.intercept_, atol=1e-5)
    assert model.report_.objective == pytest.approx(expected.report_.objective, rel=1e-11)
    assert model.report_.deviance == pytest.approx(2.0 * losses(model, X, y, weight), rel=1e-9)


def losses(model, X, y, weight):
    p = model.predict_proba(X)
    return -weight @ np.log(p[np.arange(len(y)), y])


@each_choice
@pytest.mark.parametrize("solver", ["auto", "proximal_newton", "owlqn"])
@pytest.mark.parametrize("kind", ["l1", "elastic net", "factors", "bounds"])
def test_no_step_lowers_the_objective_of_several_classes(kind, solver):
    X, y, weight = rows(seed=4)
    given = PENALTIES[kind]
    tol = 1e-6 if solver == "owlqn" else 1e-11
    model = daskglm.OrdinalRegression(C=0.1, tol=tol, solver=solver, **given)
    model.fit(X, y, sample_weight=weight)
    report = model.report_
    assert report.converged
    v, rho = given.get("penalty_factor", np.ones(8)), given["l1_ratio"]

    def objective(w, t):
        model.coef_, model.thresholds_ = w, t
        penalty = v @ (rho * np.abs(w) + (1.0 - rho) / 2.0 * w**2)
        return penalty + 0.1 * losses(model, X, y, weight)

    w, t = model.coef_, model.thresholds_
    value = objective(w, t)
    assert value == pytest.approx(report.objective, rel=1e-12)
    rng = np.random.default_rng(0)
    low, high = given.get("lower_bounds", -np.inf), given.get("upper_bounds", np.inf)
    for size in 10.0 ** np.arange(-6, 0):
        for _ in range(20):
            moved = np.clip(w + size * rng.standard_normal(8) * (rng.random(8) < 0.5), low, high)
            trial = objective(moved, t + size * rng.standard_normal(3))
            assert trial >= value * (1.0 - report.relative_gap - 1e-14)


def test_names_and_report():
    X, y, _ = rows(seed=2)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    how = {"C": 0.1, "l1_ratio": 1.0}
    model = daskglm.OrdinalRegression(
        penalty_factor={"a": 2.0}, upper_bounds={"b": 0.0}, **how
    ).fit(frame, y)
    assert model.coef_[1] <= 0.0
    # with a penalty the number of coefficients is open
    assert math.isnan(model.report_.aic)


@pytest.mark.slow
def test_more_features_than_a_hessian_is_formed_for():
    rng = np.random.default_rng(0)
    X = sp.random(400, 3000, 0.02, random_state=0, format="csr")
    X.data[:] = rng.normal(size=X.nnz)
    z = X @ (3 * rng.normal(size=3000) * (np.arange(3000) < 20)) + rng.logistic(size=400)
    y = np.searchsorted([-1.0, 0.5], z)
    for given in ({}, {"groups": np.arange(3000) // 2}):
        model = daskglm.OrdinalRegression(l1_ratio=1.0, tol=1e-7, **given).fit(X, y)
        assert model.report_.relative_gap <= 1e-7
        assert 0 < (model.coef_ != 0).sum() < 1000
        dense = daskglm.OrdinalRegression(l1_ratio=1.0, tol=1e-7, **given).fit(X.toarray(), y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-3)


def test_rows_that_are_read_at_every_pass():
    X, y, weight = rows(4000, seed=1)
    how = {"loss": "ordinal", "l1_ratio": 1.0, "C": 0.01, "tol": 1e-10}
    expected = daskglm.fit(X, y, sample_weight=weight, **how)
    chunks = [da.from_array(each, chunks=(500, *each.shape[1:])) for each in (X, y, weight)]
    model = daskglm.fit(*chunks[:2], sample_weight=chunks[2], out_of_core=True, **how)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


@pytest.mark.parametrize("d", [8, 700])
def test_a_cluster_gives_the_same(client, d):
    X, y, _ = rows(600, d=d, seed=6)
    chunks = da.from_array(X, chunks=(150, d)), da.from_array(y, chunks=150)
    how = {"C": 0.05, "tol": 1e-9, "l1_ratio": 1.0}
    model = daskglm.OrdinalRegression(**how).fit(*chunks)
    assert model.report_.workers == 2
    assert model.report_.relative_gap <= 1e-9
    expected = daskglm.OrdinalRegression(**how).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


def test_warm_starts_and_checkpoints(tmp_path):
    X, y, _ = rows(900, seed=8)
    how = {"loss": "ordinal", "l1_ratio": 0.9, "tol": 1e-12, "C": 0.1}
    model = daskglm.fit(X, y, **how)
    assert daskglm.fit(X, y, warm_start=model, **how).report_.n_iter <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskglm.fit(X, y, max_iter=1, checkpoint=tmp_path, **how)
    resumed = daskglm.fit(X, y, resume=tmp_path, **how)
    assert resumed.report_.resumed == 1
    np.testing.assert_allclose(resumed.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("solver", ["newton", "sdca"])
def test_solvers_that_take_no_kinks_are_refused(solver):
    X, y, _ = rows()
    with pytest.raises(ValueError, match=f"solver='{solver}'"):
        daskglm.fit(X, y, loss="ordinal", l1_ratio=0.5, solver=solver)


@pytest.mark.parametrize(
    "given", [{"C": math.inf, "positive": True}, {"l1_ratio": 1.0, "penalty_factor": [0.0, 1.0]}]
)
@pytest.mark.parametrize("model", ["OrdinalRegression", "LogisticRegression"])
def test_separable_classes_are_told_where_nothing_holds_a_coefficient(model, given):
    columns = 1 if given.get("positive") else 2
    X = np.c_[np.arange(200.0) / 100.0 - 1.0, np.random.default_rng(0).normal(size=200)]
    y = np.arange(200) // (70 if model == "OrdinalRegression" else 100)
    with pytest.warns(ConvergenceWarning, match="linearly separable"):
        fitted = getattr(daskglm, model)(**given).fit(X[:, :columns], y)
    assert not fitted.report_.converged
    # bounds hold coefficients
    held = getattr(daskglm, model)(C=math.inf, upper_bounds=5.0).fit(X[:, :1], y)
    assert held.report_.converged
    assert np.ravel(held.coef_) == pytest.approx(5.0)
