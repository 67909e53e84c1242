"""Real data: every solver, in process and on a cluster, reaches the optimum scikit-learn reaches at tight tolerance."""

import functools

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from tests.conftest import objective
from tests.covering import covering

SETS = [
    "higgs",
    "covtype15k",
    "a9a",
    "rcv1_binary",
]  # two dense, two sparse; rcv1_binary has 47,236 features
C = {"higgs": 1.0, "covtype15k": 1.0, "a9a": 1.0, "rcv1_binary": 1.0}


@functools.cache
def _optimum(name, loss, load):
    """Objective of scikit-learn's most exact solver of the same problem, intercept unpenalised and included."""
    from sklearn.linear_model import LogisticRegression

    X, y = load(name)
    if loss == "logistic":
        solver = "newton-cholesky" if X.shape[1] < 1000 else "newton-cg"
        with np.errstate(all="ignore"):
            theirs = LogisticRegression(C=C[name], solver=solver, tol=1e-11, max_iter=1000).fit(
                X, y
            )
        return objective(X, y, theirs.coef_, theirs.intercept_, C[name], loss)
    return daskglm.fit(X, y, loss=loss, C=C[name], tol=1e-12, solver="tron").report_.objective


def _rows(X, client):
    chunks = (-(-X.shape[0] // 5), X.shape[1])
    if sp.issparse(X):
        from dask import delayed

        cuts = range(0, X.shape[0], chunks[0])
        blocks = [
            da.from_delayed(
                delayed(X[a : a + chunks[0]]), (min(chunks[0], X.shape[0] - a), X.shape[1]), float
            )
            for a in cuts
        ]
        return da.concatenate(blocks)
    return da.from_array(X, chunks=chunks)


@covering(
    1, where=["in process", "on a cluster"], solver=["newton", "tron", "lbfgs", "gd"], name=SETS
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.slow
def test_logistic_optimum(name, solver, where, real_set, request):
    X, y = real_set(name)
    if solver == "newton" and X.shape[1] > 5000:
        pytest.skip(f"a Hessian of {X.shape[1]} x {X.shape[1]} is not what newton is for")
    best = _optimum(name, "logistic", real_set)
    if solver == "gd":
        tol, options = 1e-4, {"max_iter": 3000}
    else:
        tol, options = 1e-9, {}
    if where == "on a cluster":
        client = request.getfixturevalue("client")
        model = daskglm.fit(_rows(X, client), y, C=C[name], solver=solver, tol=tol, **options)
        assert model.report_.workers == 2
    else:
        model = daskglm.fit(X, y, C=C[name], solver=solver, tol=tol, **options)
    value = objective(X, y, model.coef_, model.intercept_, C[name], "logistic")
    assert (value - best) / best <= (1e-8 if solver != "gd" else 1e-3)
    assert model.report_.relative_gap <= tol or solver == "gd"


@pytest.mark.parametrize("name", ["a9a", "rcv1_binary"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_squared_hinge_optimum_is_that_of_liblinear(name, real_set):
    from sklearn.svm import LinearSVC

    X, y = real_set(name)
    ours = daskglm.fit(X, y, loss="squared_hinge", fit_intercept=False, tol=1e-9)
    theirs = LinearSVC(fit_intercept=False, dual=False, tol=1e-8, max_iter=10_000).fit(X, y)
    best = objective(X, y, theirs.coef_, 0.0, 1.0, "squared_hinge")
    value = objective(X, y, ours.coef_, 0.0, 1.0, "squared_hinge")
    assert (value - best) / best <= 1e-8


@pytest.mark.parametrize("name", ["a9a", "covtype15k"])
def test_least_squares_optimum_is_scikit_learns_ridge(name, real_set):
    from sklearn.linear_model import Ridge

    X, y = real_set(name)
    X = X.toarray() if sp.issparse(X) else X
    ours, theirs = (
        daskglm.fit(X, y, loss="squared", tol=1e-10),
        Ridge(alpha=1.0, solver="cholesky").fit(X, y),
    )
    best = objective(X, y, theirs.coef_, theirs.intercept_, 1.0, "squared")
    assert (objective(X, y, ours.coef_, ours.intercept_, 1.0, "squared") - best) / best <= 1e-8


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_weighted_logistic_optimum(solver, real_set):
    from sklearn.linear_model import LogisticRegression

    X, y = real_set("higgs")
    weight = np.random.default_rng(0).exponential(size=len(y))
    ours = daskglm.fit(
        X, y, sample_weight=weight, class_weight={1.0: 2.0}, solver=solver, tol=1e-10
    )
    both = weight * np.where(y > 0, 2.0, 1.0)
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-11).fit(X, y, sample_weight=both)
    best = objective(X, y, theirs.coef_, theirs.intercept_, 1.0, "logistic", both)
    assert (
        objective(X, y, ours.coef_, ours.intercept_, 1.0, "logistic", both) - best
    ) / best <= 1e-8
