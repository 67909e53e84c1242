"""Multinomial fits with L1 and group penalties, factors and bounds, end to end."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.covering import each_choice
from tests.oracle.softmax import Reference


def rows(n=400, d=8, K=3, seed=0):
    """Rows of K classes that differ in half of the columns, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    W = rng.normal(size=(d, K)) * (np.arange(d)[:, None] < d / 2)
    return X, (X @ W + rng.gumbel(size=(n, K))).argmax(axis=1), rng.uniform(0.2, 3.0, n)


def factors(d):
    v = np.ones(d)
    v[[0, -1]] = 0.0, 3.0
    return v


PENALTIES = {
    "l1": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.5},
    "factors": {"l1_ratio": 1.0, "penalty_factor": factors(8)},
    "factors of L2": {"penalty_factor": factors(8)},
    "bounds": {"l1_ratio": 1.0, "lower_bounds": -0.1, "upper_bounds": 0.3},
    "positive": {"positive": True},
    "grouped": {"l1_ratio": 1.0, "groups": np.arange(8)},
    "groups": {"l1_ratio": 0.7, "groups": np.arange(8) // 2},
}


def check(model, known, atol=1e-7):
    """Compare a model with the optimum in long double."""
    W, optimum = known.least()
    report = model.report_
    assert report.converged
    assert abs(report.objective - optimum) <= 1e-10 * optimum
    assert report.relative_gap * optimum >= report.objective - optimum - 1e-13 * optimum
    np.testing.assert_allclose(model.coef_, W[:, : known.d], rtol=0, atol=atol)
    if known.intercept:
        np.testing.assert_allclose(model.intercept_, W[:, -1], rtol=0, atol=10 * atol)
        assert model.intercept_.sum() == pytest.approx(0.0, abs=1e-12)


@each_choice
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", list(PENALTIES))
def test_coefficients_are_those_of_plain_numpy(kind, intercept, sparse):
    X, y, weight = rows(seed=3)
    if sparse:
        X = X * (np.abs(X) > 0.5)
    given = PENALTIES[kind]
    rho = given.get("l1_ratio", 0.0)
    # with an L2 part coefficients are known to the root of the gap, but the Hessian proves more
    tol = 1e-13 if rho < 1.0 else 1e-9 if kind == "factors" else 1e-11
    model = daskglm.LogisticRegression(C=0.1, fit_intercept=intercept, tol=tol, **given)
    model.fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weight)
    assert model.coef_.shape == (3, 8)
    named = {"lower_bounds": 0.0} if kind == "positive" else given
    known = Reference(X, y, 0.1, weight, intercept, **named)
    check(model, known, atol=2e-6)
    if rho == 1.0 and kind != "grouped":
        medians = np.median(model.coef_[:, 1:], axis=0)
        if "bounds" not in kind:
            np.testing.assert_allclose(medians, 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_a_problem_on_which_partial_newton_steps_diverge(l1_ratio, seed):
    X, y = make_classification(
        n_samples=20, n_features=20, n_informative=10, n_classes=3, random_state=seed
    )
    model = daskglm.LogisticRegression(l1_ratio=l1_ratio, tol=1e-10).fit(X, y)
    assert model.report_.relative_gap <= 1e-10
    check(model, Reference(X, y, l1_ratio=l1_ratio), atol=1e-5)


def test_scikit_learns_saga_has_the_same_objective():
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = LogisticRegression(l1_ratio=1, C=0.5, solver="saga", tol=1e-10, max_iter=100_000)
    theirs.fit(X, y)
    model = daskglm.LogisticRegression(l1_ratio=1, C=0.5, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)
    known = daskglm.fit(X, y, loss="multinomial", l1_ratio=1.0, C=0.5, tol=1e-11)
    np.testing.assert_allclose(known.coef_, model.coef_, atol=1e-9)


def test_groups_of_features_are_zero_together_by_their_norms():
    X, y, _ = rows(n=300, d=9, K=4, seed=5)
    groups = [[0, 5], [1, 2, 8], [3], [4, 6, 7]]
    C = 0.02
    model = daskglm.LogisticRegression(l1_ratio=1, C=C, groups=groups, tol=1e-11).fit(X, y)
    labels = np.zeros(9, int)
    for k, group in enumerate(groups):
        labels[group] = k
    check(model, Reference(X, y, C, l1_ratio=1.0, groups=labels), atol=1e-6)
    z = X @ model.coef_.T + model.intercept_
    p = np.exp(z - z.max(axis=1, keepdims=True))
    gradient = C * (p / p.sum(axis=1, keepdims=True) - np.eye(4)[y]).T @ X
    zeros = 0
    for group in groups:
        W, g, strength = model.coef_[:, group], gradient[:, group], np.sqrt(len(group))
        norm = np.linalg.norm(W)
        if norm > 0.0:
            np.testing.assert_allclose(g, -strength * W / norm, atol=1e-5)
        else:
            assert np.linalg.norm(g) <= strength * (1 + 1e-9)
            zeros += 1
    assert 0 < zeros < len(groups)


def test_standardised_columns_have_the_coefficients_of_scaled_ones():
    X, y, weight = rows(seed=7)
    scale = 10.0 ** np.linspace(-3, 3, 8)
    mean = np.average(X, axis=0, weights=weight)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    for given in ({}, {"penalty_factor": factors(8)}):
        how = {"C": 0.1, "l1_ratio": 0.8, "tol": 1e-9, **given}
        model = daskglm.LogisticRegression(standardize=True, **how)
        model.fit(X * scale, y, sample_weight=weight)
        expected = daskglm.LogisticRegression(**how)
        expected.fit(X / deviation, y, sample_weight=weight)
        assert model.report_.relative_gap <= 1e-9
        np.testing.assert_allclose(model.coef_ * scale * deviation, expected.coef_, atol=1e-4)


def test_names_containers_and_two_classes():
    X, y, _ = rows(seed=2)
    names = np.array(["low", "middle", "high"])
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    how = {"C": 0.1, "l1_ratio": 1.0, "tol": 1e-10}
    model = daskglm.LogisticRegression(penalty_factor={"a": 2.0}, upper_bounds={"b": 0.0}, **how)
    model.fit(frame, names[y])
    assert (model.coef_[:, 1] <= 0.0).all()
    assert set(model.predict(frame)) <= set(names)
    two = daskglm.LogisticRegression(multi_class="multinomial", **how).fit(X, y > 0)
    plain = daskglm.LogisticRegression(**how).fit(X, y > 0)
    assert two.coef_.shape == (1, 8)
    np.testing.assert_allclose(two.coef_, plain.coef_, atol=1e-9)
    for kept in range(3):
        weights = {k: 0.0 for k in range(3) if k != kept}
        with pytest.warns(ConvergenceWarning, match="alone has weight"):
            only = daskglm.LogisticRegression(class_weight=weights, **how).fit(X, y)
        np.testing.assert_array_equal(only.predict(X), kept)
        assert not only.coef_.any()


def test_float32_rows():
    X, y, _ = rows(n=2000, seed=4)
    X = X.astype(np.float32)
    model = daskglm.LogisticRegression(C=0.05, l1_ratio=1.0, tol=1e-9).fit(X, y)
    check(model, Reference(X, y, 0.05, l1_ratio=1.0), atol=1e-6)


@pytest.mark.nightly
def test_more_coefficients_than_a_hessian_is_formed_for():
    rng = np.random.default_rng(0)
    X = sp.random(300, 900, 0.05, random_state=0, format="csr")
    X.data[:] = rng.normal(size=X.nnz)
    W = rng.normal(size=(900, 3)) * 3 * (np.arange(900) < 10)[:, None]
    y = (X @ W + rng.gumbel(size=(300, 3))).argmax(axis=1)
    labels = np.arange(900) // 2
    for groups in ({}, {"groups": labels}):
        given = {"l1_ratio": 1.0, **groups}
        how = {"loss": "multinomial", "tol": 1e-9, **given}
        for solver in ("proximal_newton", "auto"):
            model = daskglm.fit(X, y, solver=solver, **how)
            check(model, Reference(X, y, **given), atol=1e-6)


# ---- fits
def test_rows_that_are_read_at_every_pass():
    X, y, weight = rows(4000, seed=1)
    how = {"loss": "multinomial", "l1_ratio": 1.0, "C": 0.01, "tol": 1e-10}
    expected = daskglm.fit(X, y, sample_weight=weight, **how)
    chunks = [da.from_array(each, chunks=(500, *each.shape[1:])) for each in (X, y, weight)]
    model = daskglm.fit(*chunks[:2], sample_weight=chunks[2], out_of_core=True, **how)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)


@pytest.mark.slow
def test_a_cluster_gives_the_same(client):
    X, y, _ = rows(3000, seed=6)
    chunks = da.from_array(X, chunks=(500, 8)), da.from_array(y, chunks=500)
    for given in ({"l1_ratio": 1.0}, {"l1_ratio": 1.0, "groups": np.arange(8)}):
        how = {"C": 0.01, "tol": 1e-11, **given}
        model = daskglm.LogisticRegression(**how).fit(*chunks)
        assert model.report_.workers == 2
        assert model.report_.relative_gap <= 1e-11
        expected = daskglm.LogisticRegression(**how).fit(X, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)


@pytest.mark.slow
def test_working_sets_on_a_cluster(client):
    X, y, _ = rows(400, d=700, seed=6)
    how = {"l1_ratio": 1.0, "C": 0.2, "tol": 1e-8}
    chunks = da.from_array(X, chunks=(100, 700)), da.from_array(y, chunks=100)
    model = daskglm.LogisticRegression(**how).fit(*chunks)
    assert model.report_.workers == 2
    expected = daskglm.LogisticRegression(**how).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def test_warm_starts_paths_and_checkpoints(tmp_path):
    X, y, _ = rows(900, seed=8)
    how = {"loss": "multinomial", "l1_ratio": 0.9, "tol": 1e-12, "penalty_factor": factors(8)}
    model = daskglm.fit(X, y, C=0.1, **how)
    again = daskglm.fit(X, y, C=0.1, warm_start=model, **how)
    assert again.report_.n_iter <= 1
    path = daskglm.fit(X, y, C=[0.1, 0.01], **how)
    np.testing.assert_allclose(path[0].coef_, model.coef_, atol=1e-6)
    assert (path[1].coef_ != 0).sum() < (path[0].coef_ != 0).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskglm.fit(X, y, C=0.1, max_iter=2, checkpoint=tmp_path, **how)
    resumed = daskglm.fit(X, y, C=0.1, resume=tmp_path, **how)
    assert resumed.report_.resumed == 2
    np.testing.assert_allclose(resumed.coef_, model.coef_, atol=1e-6)


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
def test_other_solvers_take_smooth_penalties(solver):
    X, y, weight = rows(seed=9)
    v = factors(8)
    v[0] = 0.5
    model = daskglm.LogisticRegression(C=0.1, penalty_factor=v, solver=solver, tol=1e-10)
    model.fit(X, y, sample_weight=weight)
    check(model, Reference(X, y, 0.1, weight, penalty_factor=v), atol=1e-5)


@pytest.mark.parametrize("solver", ["newton", "sdca"])
def test_solvers_that_take_no_kinks_are_refused(solver):
    X, y, _ = rows()
    with pytest.raises(ValueError, match=f"solver='{solver}'"):
        daskglm.fit(X, y, loss="multinomial", l1_ratio=0.5, solver=solver)
