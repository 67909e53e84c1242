"""Many problems in one pass: paths of C, folds, one-vs-rest; against separate fits and against scikit-learn."""

import contextlib
import itertools
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold, StratifiedKFold

import daskglm
from daskglm.core.view import ALL
from daskglm.fitting import open_grid as grids
from tests.conftest import make_problem, objective
from tests.covering import each_choice
from tests.fitting.grids import CS, lazy, three_classes, wide


@each_choice
@pytest.mark.parametrize(
    "data", [three_classes(), three_classes(sparse=True), wide()], ids=["dense", "csr", "wide"]
)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_every_fold_class_and_C_is_the_separate_fit(data, fit_intercept, class_weight):
    X, y = data
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(
        Cs=CS,
        cv=folds,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
        multi_class="ovr",
    ).fit(X, y)
    labels = list(model.classes_)
    whole = {label: len(y) / (len(labels) * np.sum(y == label)) for label in labels}
    factors = np.array([whole[label] if class_weight else 1.0 for label in y])
    d = X.shape[1]
    for label, (v, (train, _)), (k, C) in itertools.product(
        model.coefs_paths_, enumerate(folds), enumerate(CS)
    ):
        found = model.coefs_paths_[label][v, k]
        signs = np.where(y == label, 1.0, -1.0)
        alone = daskglm.fit(
            X[train],
            signs[train],
            C=C,
            sample_weight=factors[train],
            fit_intercept=fit_intercept,
            tol=1e-10,
        )
        best = objective(
            X[train], signs[train], alone.coef_, alone.intercept_, C, "logistic", factors[train]
        )
        b = found[d] if fit_intercept else 0.0
        assert objective(
            X[train], signs[train], found[:d], b, C, "logistic", factors[train]
        ) <= best * (1 + 1e-6)
    assert model.report_.converged


def test_joint_passes_do_not_grow_with_the_number_of_problems():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 8)).astype(np.float32)
    y = X @ rng.standard_normal(8) + rng.logistic(size=len(X)) > 0
    passes = {}
    for Cs, cv in ((1, 2), (10, 5)):
        report = (
            daskglm.LogisticRegressionCV(Cs=np.logspace(-4, 4, Cs), cv=cv, refit=False)
            .fit(X, y)
            .report_
        )
        assert report.converged
        passes[Cs, cv] = report.passes
    assert passes[10, 5] <= 6.0
    assert passes[10, 5] <= passes[1, 2] + 3.0
    again = daskglm.fit(X, y, C=1.0).report_
    assert passes[10, 5] <= 1.5 * again.passes


def test_hard_problems_are_left_to_solvers_for_one(monkeypatch):
    X, y = make_problem()
    monkeypatch.setattr("daskglm.fitting.problem_grid.DENSE_FEATURES", 1)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, solver="tron").fit(X, y)
    assert {part.solver for part in model.report_.parts} == {"tron"}
    together = daskglm.LogisticRegressionCV(Cs=CS, cv=3).fit(X, y)
    assert {part.solver for part in together.report_.parts} == {"newton"}
    np.testing.assert_allclose(model.scores_[1.0], together.scores_[1.0], atol=0.006)
    np.testing.assert_allclose(model.coef_, together.coef_, rtol=0.01)


def test_separable_rows_and_large_C():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)) * [1, 10, 0.1, 1, 100]
    y = X[:, 0] > 0
    path = daskglm.fit(X, y, C=[1e-4, 1e4])
    alone = daskglm.fit(X, y, C=1e4, tol=1e-10)
    assert path[1].report_.objective <= alone.report_.objective * (1 + 1e-6)
    assert all(model.report_.converged for model in path)


def test_bad_arguments_are_refused_before_work():
    X, y = make_problem()
    with pytest.raises(ValueError, match="scoring='speed' is not one of 'accuracy'"):
        daskglm.LogisticRegressionCV(scoring="speed").fit(X, y)
    with pytest.raises(ValueError, match="Cs=.* sequence of positive numbers"):
        daskglm.LogisticRegressionCV(Cs=[1.0, -1.0]).fit(X, y)
    with pytest.raises(ValueError, match="must be a sequence of positive"):
        daskglm.fit(X, y, C=[0.0, 1.0])
    with pytest.raises(
        ValueError, match="daskglm.fit takes a sequence, LogisticRegressionCV chooses"
    ):
        daskglm.LogisticRegression(C=[0.1, 1.0]).fit(X, y)
    models = daskglm.fit(X, y, C=[0.1, 1.0])
    with pytest.raises(ValueError, match="2 models for 3 values of C"):
        daskglm.fit(X, y, C=CS, warm_start=models)
    with pytest.raises(ValueError, match="both to train on and to hold out"):
        daskglm.LogisticRegressionCV(cv=[(np.arange(500), np.arange(400, 600))]).fit(X, y)
    with pytest.raises(ValueError, match="dask collections take a number of folds"):
        daskglm.LogisticRegressionCV(cv=KFold(3)).fit(
            da.from_array(X, chunks=(100, 7)), da.from_array(y, chunks=100)
        )


def test_pandas_and_multiclass():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = daskglm.LogisticRegressionCV(Cs=CS).fit(X, y)
    assert list(model.scores_) == [0, 1, 2]
    assert model.coef_.shape == (3, 4)
    assert model.C_.shape == (3,)
    assert model.n_iter_.shape == (1, 5, 3)
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.score(X, y) > 0.9
    assert model.predict_proba(X).shape == (150, 3)
    named = daskglm.LogisticRegressionCV(Cs=CS).fit(X.assign(kind=y), "kind")
    np.testing.assert_allclose(named.coef_, model.coef_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [make_problem(seed=7), three_classes(), wide()], ids=["dense", "classes", "wide"]
)
def test_on_a_cluster_as_in_process(client, data, monkeypatch):
    X, y = data
    if sp.issparse(X):
        X = da.concatenate(
            [da.from_array(X[i : i + 100], chunks=(100, X.shape[1])) for i in range(0, 300, 100)]
        )
        y = da.from_array(y, chunks=100)
    else:
        X, y = lazy(X, y)
    there = daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=0).fit(X, y)
    assert there.report_.workers == 2
    monkeypatch.setattr(
        "daskglm.fitting.setup.client_for", lambda data, client: contextlib.nullcontext()
    )
    here = daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=0).fit(X, y)
    for label in here.scores_:
        np.testing.assert_allclose(there.scores_[label], here.scores_[label], atol=0.011)
        np.testing.assert_allclose(
            there.coefs_paths_[label], here.coefs_paths_[label], rtol=0.05, atol=0.005
        )


def test_a_lost_worker_costs_its_rows_only(client):
    X, y = make_problem(2000, seed=9)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=0)
    expected = model.fit(*lazy(X, y, 250)).scores_[1.0]
    settings = model._settings()
    with grids.open_grid(*lazy(X, y, 250), settings, cv=3) as grid:
        engine, asked = grid.engine, itertools.count()
        ask = engine.total

        def total(problem, request, view=ALL):
            if next(asked) == 3:  # memos are forgotten in the midst of the fit, blocks move
                engine.client.run(_forget)
            return ask(problem, request, view)

        engine.total = total
        solutions = grid.solve(grid.batch(np.array(CS)))
    accuracy = (solutions.counts[:, 0] + solutions.counts[:, 2]) / (
        solutions.counts[:, 1] + solutions.counts[:, 3]
    )
    np.testing.assert_allclose(accuracy.reshape(3, 3), expected, atol=0.002)


def _forget(dask_worker):
    from daskglm.engines.worker_session import _sessions

    for session in _sessions.get(dask_worker, {}).values():
        session.caches.clear()


def test_out_of_core(tmp_path):
    X, y = make_problem(seed=7)
    inside = daskglm.fit(*lazy(X, y), C=CS)
    streamed = daskglm.fit(*lazy(X, y), C=CS, out_of_core=True)
    for one, other in zip(inside, streamed, strict=True):
        assert one.report_.objective == pytest.approx(other.report_.objective, rel=1e-6)


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        daskglm.LogisticRegressionCV(Cs=CS).fit(*make_problem())
        daskglm.fit(pd.DataFrame(make_problem()[0]), make_problem()[1], C=CS)


@pytest.mark.parametrize(
    ("scale", "solver"), [([1.0, 2.0, 3.0], "newton"), ([1.0, 50.0, 1000.0], "sdca|newton")]
)
def test_steps_are_shortened_where_newton_overshoots(scale, solver):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3)) * scale
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    settings = daskglm.LogisticRegression()._settings()
    with grids.open_grid(X, y, settings) as grid:
        far = np.array([[3.0, -2.0, 1.0, 5.0]])  # beyond the reach of undamped Newton
        solutions = grid.solve(grid.batch(np.array([100.0])), far)
    best = daskglm.fit(X, y, C=100.0, tol=1e-10).report_.objective
    assert solutions.reports[0].converged
    assert solutions.reports[0].objective <= best * (1 + 1e-6)
    assert solutions.reports[0].solver in solver
