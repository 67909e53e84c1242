"""C = inf: separable classes are told, least squares are the shortest, coefficients that are not unique are told."""

import math

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

import daskglm
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import train
from tests.conftest import make_problem
from tests.covering import each_choice

SOLVERS = ("newton", "tron", "lbfgs", "gd")
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def separable(n=80, d=3):
    X, _ = make_problem(n=n, d=d)
    return X, np.where(X @ np.arange(1.0, d + 1) + 0.1 > 0, 1, -1)


@every_solver
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_separable_classes_have_no_optimum_and_that_is_told(solver, tol):
    X, y = separable()
    with pytest.warns(
        ConvergenceWarning, match="linearly separable: without a penalty there is no optimum"
    ):
        model = daskglm.LogisticRegression(C=math.inf, solver=solver, tol=tol, max_iter=3000).fit(
            X, y
        )
    assert not model.report_.converged
    assert model.score(X, y) == 1.0
    with pytest.warns(
        ConvergenceWarning, match="linearly separable: the coefficients .* are some of many"
    ):
        svm = daskglm.LinearSVC(C=math.inf, solver=solver, tol=tol).fit(X, y)
    assert svm.score(X, y) == 1.0


@every_solver
def test_classes_that_overlap_by_one_row_have_an_optimum(solver):
    X, y = separable()
    y[np.argmax(np.abs(X @ np.arange(1.0, 4.0)))] *= -1
    model = daskglm.LogisticRegression(C=math.inf, solver=solver).fit(X, y)
    assert model.report_.converged


def test_rows_without_weight_and_one_class_of_three():
    X, y = separable()
    flipped = np.append(y, -y[:5])
    weight = np.append(np.ones(len(y)), np.zeros(5))
    with pytest.warns(ConvergenceWarning, match="no optimum"):
        daskglm.fit(np.vstack([X, X[:5]]), flipped, C=math.inf, sample_weight=weight)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    with pytest.warns(ConvergenceWarning, match="no optimum"):
        model = daskglm.fit(X, three, C=math.inf)
    assert [part.converged for part in model.report_.parts] == [False, True, False]


def dependent(kind, rng):
    if kind == "wide":
        return rng.standard_normal((12, 24)) + 1
    X = rng.standard_normal((60, 6))
    if kind == "constant column":
        X[:, 3] = 2.0
    elif kind == "copies":
        X[:, 4], X[:, 5] = X[:, 0] - 2 * X[:, 1], X[:, 2]
    elif kind == "scaled copies":
        X[:, 4] = X[:, 0] - 2 * X[:, 1]
        X *= np.logspace(-4, 4, 6)
    return X


@each_choice
@every_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "kind", ["full rank", "wide", "constant column", "copies", "scaled copies"]
)
@pytest.mark.filterwarnings("ignore:gd stopped")
def test_least_squares_are_the_shortest(kind, fit_intercept, solver):
    rng = np.random.default_rng(3)
    X = dependent(kind, rng)
    y = X[:, :3] @ [1.0, -2.0, 3.0] + rng.standard_normal(len(X)) + 5
    centre, shift = (X.mean(axis=0), y.mean()) if fit_intercept else (np.zeros(X.shape[1]), 0.0)
    exact = np.linalg.lstsq(X - centre, y - shift, rcond=1e-12)[0]
    if solver == "gd" and kind in ("full rank", "scaled copies"):
        return  # it takes too long there, and says so
    for rows in (X, sp.csr_matrix(X)):
        model = daskglm.Ridge(alpha=0, fit_intercept=fit_intercept, solver=solver, tol=1e-9).fit(
            rows, y
        )
        scale = np.maximum(X.std(axis=0), 1e-3)
        np.testing.assert_allclose(
            model.coef_ * scale, exact * scale, atol=1e-5 * np.abs(exact * scale).max()
        )
        assert model.intercept_ == pytest.approx(shift - centre @ exact, abs=1e-3)
    if kind == "wide":
        np.testing.assert_allclose(
            exact, LinearRegression(fit_intercept=fit_intercept).fit(X, y).coef_, atol=1e-10
        )


def test_weights_and_float32_rows_count():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((12, 24)).astype(np.float32)
    y, weight = rng.standard_normal(12), rng.random(12) + 0.5
    theirs = LinearRegression().fit(X.astype(np.float64), y, weight)
    model = daskglm.Ridge(alpha=0).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    several = daskglm.Ridge(alpha=0).fit(X, np.column_stack([y, -y]), weight)
    np.testing.assert_allclose(several.coef_[1], -theirs.coef_, atol=1e-4)


def test_a_classifiers_coefficients_that_are_not_unique_are_told():
    X, y = make_problem(n=200, d=3)
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.warns(
        ConvergenceWarning, match="columns of X are linearly dependent: the coefficients"
    ):
        model = daskglm.fit(X, y, C=math.inf)
    assert model.report_.converged
    daskglm.fit(X[:, :3], y, C=math.inf)


def test_columns_of_zeros_and_nearly_equal_ones_are_nothing_to_tell():
    X, y = make_problem(n=400, d=3)
    near = X[:, 0] + 1e-4 * np.random.default_rng(0).standard_normal(400)
    for rows in (np.column_stack([X, np.zeros(400)]), np.column_stack([X, near])):
        assert daskglm.fit(rows, y, C=math.inf, tol=1e-4).report_.converged
    daskglm.fit(
        np.column_stack([X, near]).astype(np.float32), y, C=math.inf, tol=1e-2, solver="lbfgs"
    )


@each_choice
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(0.5)"])
@pytest.mark.parametrize("kind", ["copies", "wide"])
def test_of_many_solutions_families_take_the_shortest(loss, kind, solver, intercept):
    rng = np.random.default_rng(0)
    base = LEVELS[:, :2] if kind == "copies" else rng.standard_normal((10, 20)) / 5.0
    n = len(base)
    X = np.c_[base, base @ [[1.0], [2.0]]] if kind == "copies" else base
    y = MEAN[:n] * rng.gamma(2.0, 0.5, n) if kind == "copies" else MEAN[:n]
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        found = fitted(loss, X, y, solver=solver, tol=1e-9, intercept=intercept)
    # no part of the coefficients leaves all margins as they are
    span = np.linalg.svd(X - X.mean(axis=0) if intercept else X, full_matrices=False)
    rows = span[2][span[1] > 1e-9 * span[1][0]]
    w = found.coef[0]
    assert np.linalg.norm(w - rows.T @ (rows @ w)) <= 1e-6 * np.linalg.norm(w)
    if kind == "copies":
        alone = fitted(loss, base, y, solver=solver, tol=1e-9, intercept=intercept)
        assert found.report.objective == pytest.approx(alone.report.objective, rel=1e-8)


@pytest.mark.parametrize("seed", [85, 158, 159])
def test_the_shortest_of_many_solutions_is_no_worse_than_what_was_found(seed):
    """Means over decades: those near zero have next to no curvature, and rose with 1e-11 of the start."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 16)) * (rng.random((12, 16)) < 0.5)
    y = rng.poisson(1e3 * np.exp(2.0 * X @ rng.standard_normal(16))).astype(float)
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        report = fitted("poisson", X, y, tol=1e-2, intercept=False).report
    first, last = report.history[0]["objective"], report.history[-1]["objective"]
    assert report.converged
    assert report.objective <= last + 1e-12 * first


@pytest.mark.slow
def test_a_cluster_names_the_column(client):
    rare = (RARE > 0.0).astype(float)
    X = da.from_array(np.c_[LEVELS, rare], chunks=(100, 4))
    counts = da.from_array(np.where(rare > 0.0, 0.0, CLAIMS), chunks=100)
    for solver in ("auto", "newton", "lbfgs", "tron"):
        with pytest.warns(ConvergenceWarning, match="falls along column 3: where .*all targets"):
            daskglm.fit(X, counts, family="poisson", alpha=0, solver=solver)
        labels = da.from_array((CLAIMS > 1.0) & (rare == 0.0), chunks=100)
        with pytest.warns(ConvergenceWarning, match="falls along column 3: where .*all targets"):
            daskglm.fit(X, labels, C=math.inf, solver=solver)


def test_a_cluster_finds_the_same(client):
    X, y = separable()
    lazy = da.from_array(X, chunks=(20, -1)), da.from_array(y, chunks=20)
    with pytest.warns(
        ConvergenceWarning, match="linearly separable: without a penalty there is no optimum"
    ):
        assert not daskglm.fit(*lazy, C=math.inf).report_.converged
    rng = np.random.default_rng(3)
    wide, target = rng.standard_normal((12, 24)) + 1, rng.standard_normal(12)
    model = daskglm.Ridge(alpha=0).fit(
        da.from_array(wide, chunks=(6, -1)), da.from_array(target, chunks=6)
    )
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(wide, target).coef_, atol=1e-8)


@every_solver
@pytest.mark.parametrize("flip", [0, 1])
def test_a_level_whose_rows_are_all_of_one_class_is_named(solver, flip):
    X, y = make_problem(n=400, d=3)
    rare = (np.random.default_rng(0).random(400) < 0.1).astype(float)
    frame = pd.DataFrame(np.c_[X, rare], columns=["a", "b", "c", "rare"])
    labels = np.where(rare == flip, 1, y) if flip else np.where(rare > 0.0, -1, y)
    model = daskglm.LogisticRegression(C=math.inf, solver=solver, max_iter=3000)
    with pytest.warns(
        ConvergenceWarning, match="falls along column 'rare': where .*all targets"
    ) as said:
        model.fit(frame, labels)
    assert len(said) == 1
    assert not model.report_.converged
    assert np.isfinite(model.coef_).all()
    assert abs(model.coef_[0, 3]) > 4.0
    # with a penalty, or one row of the other class, there is an optimum
    assert daskglm.LogisticRegression(solver=solver).fit(frame, labels).report_.converged
    labels[np.argmax(rare)] *= -1
    assert model.fit(frame, labels).report_.converged


def test_separable_classes_are_told_with_their_columns():
    X, y = separable()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(nothing=0.0)
    with pytest.warns(ConvergenceWarning, match="falls along column 'a', column 'b'") as said:
        daskglm.LogisticRegression(C=math.inf).fit(frame, y)
    assert len(said) == 1
    assert "nothing" not in str(said[0].message)


# ---- families
COUNTS = np.random.default_rng(0)
LEVELS = COUNTS.standard_normal((500, 3))
RARE = (COUNTS.random(500) < 0.1).astype(float)
MEAN = np.exp(0.5 + LEVELS @ [0.3, -0.2, 0.1])
CLAIMS = COUNTS.poisson(MEAN).astype(float)


def fitted(loss, X, y, *, C=math.inf, solver="newton", tol=1e-6, intercept=True):
    return train(X, y, FitConfig(loss, C=C, solver=solver, tol=tol, fit_intercept=intercept))


@each_choice
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("loss", ["poisson", "tweedie(1.5)", "negative_binomial(0.5)"])
def test_a_level_whose_counts_are_all_zero_is_named(loss, solver, tol):
    X = pd.DataFrame(np.c_[LEVELS, RARE], columns=["a", "b", "c", "rare"])
    with pytest.warns(
        ConvergenceWarning, match=r"no optimum.* along column 'rare': where .*all targets"
    ) as said:
        found = fitted(loss, X, np.where(RARE > 0.0, 0.0, CLAIMS), solver=solver, tol=tol)
    assert len(said) == 1
    assert not found.report.converged
    assert np.isfinite(found.coef).all()
    assert found.coef[0, 3] < -4.0
    # the other coefficients are those of the other rows
    rest = RARE == 0.0
    alone = fitted(loss, LEVELS[rest], CLAIMS[rest], tol=1e-12)
    np.testing.assert_allclose(found.coef[0, :3], alone.coef[0], atol=30 * tol)
    with pytest.warns(ConvergenceWarning, match="along column 3: where .*all targets"):
        fitted(loss, X.to_numpy(), np.where(RARE > 0.0, 0.0, CLAIMS), solver=solver, tol=tol)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_one_count_in_a_level_makes_an_optimum(solver):
    y = np.where(RARE > 0.0, 0.0, CLAIMS)
    y[np.argmax(RARE)] = 1.0
    found = fitted("poisson", np.c_[LEVELS, RARE], y, solver=solver)
    assert found.report.converged
    assert solver != "newton" or found.report.relative_gap <= 1e-6


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("loss", ["binomial", "binomial_probit", "binomial_cloglog"])
def test_separated_shares_are_told(loss, solver):
    y = (LEVELS @ [1.0, 2.0, 3.0] > 0.3).astype(float)
    with pytest.warns(ConvergenceWarning, match="no optimum.* along column 2, column 1, column 0"):
        found = fitted(loss, LEVELS, y, solver=solver)
    assert np.isfinite(found.coef).all()


@each_choice
@pytest.mark.parametrize("C", [1.0, math.inf])
@pytest.mark.parametrize(
    ("loss", "target"),
    [
        ("poisson", 0.0),
        ("tweedie(1.5)", 0.0),
        ("negative_binomial(1.0)", 0.0),
        ("binomial", 0.0),
        ("binomial", 1.0),
    ],
)
def test_targets_that_are_all_at_an_end_of_their_range(loss, target, C):
    with pytest.warns(ConvergenceWarning, match="no optimum.* along the intercept"):
        found = fitted(loss, LEVELS, np.full(500, target), C=C)
    assert np.isfinite(found.coef).all()
    assert abs(found.intercept[0]) > 4.0
    assert fitted(loss, LEVELS, np.full(500, target), C=1.0, intercept=False).report.converged


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(1.0)"])
def test_huge_counts_and_tiny_means(loss, scale, solver):
    y = scale * (CLAIMS + (0.1 if loss == "gamma" else 0.0))
    found = fitted(loss, LEVELS, y, solver=solver)
    assert found.report.converged
    if loss != "negative_binomial(1.0)":
        # these scale: the intercept takes the logarithm
        unit = fitted(loss, LEVELS, y / scale)
        np.testing.assert_allclose(found.coef, unit.coef, atol=1e-5)
        np.testing.assert_allclose(found.intercept - math.log(scale), unit.intercept, atol=1e-5)


# ---- all classes together
@pytest.mark.parametrize("model", ["LogisticRegression", "OrdinalRegression"])
def test_a_level_without_one_of_several_classes_is_named(model):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.standard_normal(600), "level": rng.integers(0, 4, 600) == 0})
    y = np.digitize(frame["age"] + 2.0 * rng.logistic(size=600), [-1.0, 1.0])
    y[frame["level"] & (y == (1 if model == "LogisticRegression" else 2))] = 0
    if model == "OrdinalRegression":
        y[frame["level"]] = 0
    fitted = getattr(daskglm, model)(C=np.inf, tol=1e-8)
    with pytest.warns(ConvergenceWarning, match="'level': where.*some class does not occur"):
        fitted.fit(frame.astype(float), y)
    assert not fitted.report_.converged
    assert "no optimum" in fitted.report_.reason


@pytest.mark.parametrize("model", ["LogisticRegression", "OrdinalRegression"])
def test_columns_that_tell_several_classes_apart_are_named(model):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 2)), columns=["noise", "sign"])
    y = np.digitize(frame["sign"], [-0.5, 0.5])
    fitted = getattr(daskglm, model)(C=np.inf, max_iter=200)
    with pytest.warns(
        ConvergenceWarning, match="falls along column 'sign'.*tell the classes apart"
    ):
        fitted.fit(frame, y)
    assert not fitted.report_.converged


def test_several_classes_with_an_optimum_have_no_warning():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((900, 2)), rng.integers(0, 2, (900, 3))])
    z = X @ rng.standard_normal((5, 3)) + rng.gumbel(size=(900, 3))
    for solver in ("newton", "lbfgs", "tron"):
        model = daskglm.LogisticRegression(C=np.inf, solver=solver, tol=1e-6).fit(
            X, z.argmax(axis=1)
        )
        assert model.report_.converged
    for solver in ("newton", "lbfgs", "tron"):
        ordered = np.digitize(z[:, 0], [-1.0, 1.0])
        model = daskglm.OrdinalRegression(C=np.inf, solver=solver, tol=1e-6).fit(X, ordered)
        assert model.report_.converged
