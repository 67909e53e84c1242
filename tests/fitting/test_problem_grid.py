"""Many problems in one pass: paths of C, folds, one-vs-rest; against separate fits and against scikit-learn."""

import contextlib
import itertools
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV as TheirCV
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

import daskglm
from daskglm.core.batch_requests import EvaluateMany, WeighGroups
from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.core.summation import MOMENT
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.fitting import problem_grid as grids
from daskglm.losses.table import LOSSES
from daskglm.objectives.batched import BatchObjective, ProblemBatch
from daskglm.worker.fold_assignment import stratified
from tests.conftest import make_problem, objective

CS = [0.01, 1.0, 30.0]


def three_classes(n=400, d=6, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5 if sparse else 1.0)
    y = np.array(["low", "mid", "top"])[np.argmax(X[:, :3] + rng.standard_normal((n, 3)), axis=1)]
    return (sp.csr_matrix(X) if sparse else X), y


def wide(n=300, d=700, seed=3):
    """Sparse rows with more features than tiles are made dense for."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.02, random_state=rng, format="csr")
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge", "squared"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_path_is_the_separate_fits(loss, sparse, fit_intercept):
    X, y = make_problem(loss=loss, sparse=sparse)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    path = daskglm.fit(X, y, loss=loss, C=CS, sample_weight=weight, fit_intercept=fit_intercept)
    for C, model in zip(CS, path, strict=True):
        alone = daskglm.fit(
            X, y, loss=loss, C=C, sample_weight=weight, fit_intercept=fit_intercept, tol=1e-12
        )
        best = objective(X, y, alone.coef_, alone.intercept_, C, loss, weight)
        assert objective(X, y, model.coef_, model.intercept_, C, loss, weight) <= best * (1 + 1e-6)
        assert model.report_.converged
        assert model.report_.relative_gap <= 1e-6
        assert model.get_params()["C"] == C


@pytest.mark.parametrize(
    "data", [three_classes(), three_classes(sparse=True), wide()], ids=["dense", "csr", "wide"]
)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_every_fold_class_and_C_is_the_separate_fit(data, fit_intercept, class_weight):
    X, y = data
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(
        Cs=CS, cv=folds, fit_intercept=fit_intercept, class_weight=class_weight
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


def test_stratified_folds_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        y, k = rng.integers(0, rng.integers(1, 6), rng.integers(10, 200)), int(rng.integers(2, 8))
        names, codes = np.unique(y, return_inverse=True)
        rare = np.bincount(codes).min() < k
        theirs, splitter = np.empty(len(y), int), StratifiedKFold(k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                for fold, (_, test) in enumerate(splitter.split(y, y)):
                    theirs[test] = fold
            except ValueError:
                refused += 1
                with pytest.raises(ValueError, match=f"cv={k}"):
                    stratified(codes, len(names), k)
                continue
        with (
            pytest.warns(UserWarning, match="least populated") if rare else contextlib.nullcontext()
        ):
            np.testing.assert_array_equal(stratified(codes, len(names), k), theirs)
    assert refused


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "scoring", ["accuracy", "neg_log_loss", "balanced_accuracy", "f1", "precision", "recall"]
)
@pytest.mark.parametrize(
    "cv", [None, KFold(4, shuffle=True, random_state=0), ShuffleSplit(4, random_state=0)]
)
def test_scores_are_those_of_scikit_learn(scoring, cv):
    X, y = make_problem(seed=5)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    ours = daskglm.LogisticRegressionCV(Cs=CS, cv=cv, scoring=scoring, tol=1e-10).fit(
        X, y, sample_weight=weight
    )
    theirs = TheirCV(
        Cs=CS, cv=cv, scoring=scoring, tol=1e-10, max_iter=5000, use_legacy_attributes=True
    )
    theirs.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.scores_[1.0], theirs.scores_[1.0], atol=2e-5)
    assert ours.C_ == theirs.C_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.coefs_paths_[1.0], theirs.coefs_paths_[1.0], atol=1e-3)
    assert ours.n_iter_.shape == theirs.n_iter_.shape


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_without_refit_coefficients_are_means_as_in_scikit_learn():
    X, y = make_problem(seed=6)
    ours = daskglm.LogisticRegressionCV(Cs=CS, refit=False, tol=1e-10).fit(X, y)
    theirs = TheirCV(
        Cs=CS, refit=False, tol=1e-10, scoring="accuracy", max_iter=5000, use_legacy_attributes=True
    )
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.C_, theirs.C_)


@pytest.mark.parametrize("data", [make_problem(), wide()], ids=["dense", "wide"])
def test_rows_held_out_do_not_influence_their_fold(data):
    X, y = data
    folds = list(KFold(3).split(X))
    before = daskglm.LogisticRegressionCV(Cs=CS, cv=folds).fit(X, y)
    changed = y.copy()
    changed[folds[1][1]] *= -1.0
    after = daskglm.LogisticRegressionCV(Cs=CS, cv=folds).fit(X, changed)
    rtol = (
        1e-3 if sp.issparse(X) else 1e-2
    )  # they start from samples or common points, which all rows shape
    for C, one, other in zip(
        CS, before.coefs_paths_[1.0][1], after.coefs_paths_[1.0][1], strict=True
    ):
        train = folds[1][0]
        values = [objective(X[train], y[train], w[:-1], w[-1], C, "logistic") for w in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-6)
        assert np.linalg.norm(one - other) <= rtol * np.linalg.norm(one)
    assert np.abs(before.coefs_paths_[1.0][0] - after.coefs_paths_[1.0][0]).max() > 0.01
    np.testing.assert_allclose(before.scores_[1.0][1] + after.scores_[1.0][1], 1.0)


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


def test_the_excess_that_is_told_is_not_less_than_the_truth():
    X, y = make_problem(seed=2)
    engine = Local(partitions(X, y, classify=True).load())
    batched = BatchObjective(
        engine,
        Problem(LossRef("logistic")),
        LOSSES["logistic"],
        (1.0,),
        (-1.0, 1.0),
        fit_intercept=True,
    )
    best = daskglm.fit(X, y, tol=1e-13).report_.objective
    one = ProblemBatch(np.zeros(1, int), np.array([-1]), np.ones(1))
    rng = np.random.default_rng(0)
    told = []
    for near, far in itertools.product((0.0, 0.01, 0.3), (0.0, 0.01, 0.3)):
        model = daskglm.fit(X, y, tol=1e-13)
        w = np.append(model.coef_, model.intercept_)[None] + near * rng.standard_normal((1, 8))
        at = w + far * rng.standard_normal((1, 8))
        factor = batched.factor(at[0], batched.evaluate(one, at, np.array([0])).hessians[0])
        found = batched.evaluate(one, w, np.empty(0, int), factors=[factor])
        error = batched.rounding.gradient(
            w[0], float(found.values[0]), scale=1.0, weight=float(len(y))
        )
        excess = batched.rounding.by_hessian(
            factor, found.gradients[0], error, float(found.moved[0])
        )
        assert excess >= float(found.values[0]) - best - 1e-10
        assert found.moved[0] >= np.abs(np.c_[X, np.ones(len(X))] @ (at - w)[0]).max() - 1e-12
        told.append(excess)
    assert told[4] < 0.2  # near and nearby: informative, too
    engine.close()


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
def test_where_a_step_leads_is_told_before_rows_are_read_there(loss):
    X, y = make_problem(20_000, 5, loss=loss, seed=2)
    rows = partitions(X, y, classify=LOSSES[loss].classifies).load()
    classes, labels = ((1.0,), (-1.0, 1.0)) if LOSSES[loss].classifies else ((), ())
    batched = BatchObjective(
        Local(rows), Problem(LOSSES[loss].ref), LOSSES[loss], classes, labels, fit_intercept=True
    )
    model = daskglm.fit(X, y, loss=loss, tol=1e-12)
    one, best = ProblemBatch(np.zeros(1, int), np.array([-1]), np.ones(1)), model.report_.objective
    rng, told = np.random.default_rng(0), []
    for far in (1e-3, 1e-2, 0.1, 1.0, 10.0):
        w = np.append(model.coef_, model.intercept_) + far * rng.standard_normal(6)
        found = batched.evaluate(one, w[None], np.array([0]))
        factor = batched.factor(w, found.hessians[0])
        step, square = factor.step(found.gradients[0])
        value, error, gap = batched.ahead(factor, float(found.values[0]), step, square, one, 0)
        told.append(gap)
        if loss == "squared_hinge":  # its curvature jumps
            assert gap == np.inf
            continue
        true = float(batched.evaluate(one, (w + step)[None], np.empty(0, int)).values[0])
        assert abs(true - value) <= error + 1e-12 * best
        assert gap >= true / best - 1.0 - 1e-12
    assert loss == "squared_hinge" or told[0] < 1e-9
    assert loss != "logistic" or told[-1] == np.inf
    batched.engine.close()


def test_steps_that_are_certain_cost_no_pass():
    X, y = make_problem(20_000, 5, loss="squared")
    Cs = np.logspace(-3, 3, 20)
    models = daskglm.fit(X, y, C=Cs, loss="squared")
    assert models[0].report_.passes < 4.0
    for C, model in zip(Cs, models, strict=True):
        assert model.report_.objective == pytest.approx(
            objective(X, y, model.coef_, model.intercept_, C, "squared")
        )
        np.testing.assert_allclose(
            model.coef_, daskglm.fit(X, y, C=C, loss="squared", tol=1e-12).coef_, atol=1e-7
        )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_a_whole_evaluation(sparse, weighted):
    X, y = make_problem(700, sparse=sparse, seed=4)
    folds = Folds(
        "two", ((1, 0), (0, 1), (2, 0)), groups=np.random.default_rng(0).integers(0, 3, len(y))
    )
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    engine = Local(partitions(X, y, weight, classify=True).load())
    batched = BatchObjective(
        engine,
        Problem(LossRef("logistic"), folds=folds),
        LOSSES["logistic"],
        (1.0, -1.0),
        (-1.0, 1.0),
        fit_intercept=True,
    )
    columns = ProblemBatch(np.array([0, 1, 0]), np.array([0, 1, -1]), np.ones(3))
    W = np.random.default_rng(2).standard_normal((3, 8))
    found = batched.evaluate(columns, W, np.empty(0, int))
    losses, counts = batched.score(columns, W)
    np.testing.assert_allclose(losses, found.losses)
    np.testing.assert_allclose(counts, found.counts)
    assert losses[0] > 0.0
    assert losses[2] == 0.0
    engine.close()


def test_sums_by_group_are_those_of_the_folds():
    X, y = make_problem(700, seed=4)
    groups = np.random.default_rng(0).integers(0, 3, len(y))
    folds = Folds("three", ((1, 0, 0), (0, 1, 0), (0, 0, 1)), groups=groups)
    weight = np.random.default_rng(1).random(len(y))
    engine = Local(partitions(X, y, weight, classify=True).load())
    problem = Problem(LossRef("logistic"), folds=folds)
    w = np.random.default_rng(2).standard_normal((1, 8))
    zero = np.zeros(1, int)
    by = engine.total(problem, EvaluateMany(w, zero, zero - 1, (1.0,), (0,), by_group=True))
    z = X @ w[0, :7] + w[0, 7]
    for g in range(3):
        assert by["values"][g, 0] == pytest.approx(
            np.sum((weight * np.logaddexp(0, -y * z))[groups == g])
        )
        one = engine.total(problem, EvaluateMany(w, zero, zero + g, (1.0,), (0,)))
        np.testing.assert_allclose(
            one["gradients"][0, 0], by["gradients"][:, 0].sum(0) - by["gradients"][g, 0]
        )
        np.testing.assert_allclose(one["grams"][0, 0], by["grams"][:, 0].sum(0) - by["grams"][g, 0])
        right = weight * ((z > 0) == (y > 0)) * (groups == g)
        expected = [right @ (y > 0), (weight * (groups == g)) @ (y > 0), right @ (y < 0)]
        np.testing.assert_allclose(one["counts"][0, :3], expected)
    weights = engine.total(problem, WeighGroups((-1.0, 1.0)))["weights"]
    assert weights[2, 1] == pytest.approx(weight[(groups == 2) & (y > 0)].sum())
    engine.close()


@pytest.mark.parametrize("d", [1, 5, 28, 100])
@pytest.mark.parametrize("kind", ["float32", "float64", "csr"])
def test_one_sweep_of_many_tiles_is_numpys(d, kind):
    X, y = make_problem(2600, d, sparse=kind == "csr", seed=4)
    X = X.astype(np.float32) if kind == "float32" else X
    rng = np.random.default_rng(0)
    groups = rng.choice(3, len(y), p=[0.7, 0.297, 0.003])  # the last is missing from some tiles
    folds = Folds("three", ((1, 0), (0, 1), (0, 2)), groups=groups)
    engine = Local(partitions(X, y, None, classify=True).load())
    W, anchors = (
        rng.standard_normal((3, d + 1)) / np.sqrt(d),
        rng.standard_normal((1, d + 1)) / np.sqrt(d),
    )
    of, fold = np.zeros(3, int), np.array([-1, 0, 1])
    request = EvaluateMany(
        W, of, fold, (1.0,), (0, 2), anchors=anchors, anchor=np.array([0, -1, 0])
    )
    got = engine.total(Problem(LossRef("logistic"), folds=folds), request)
    by = engine.total(
        Problem(LossRef("logistic"), folds=folds),
        EvaluateMany(W, of, fold * 0 - 1, (1.0,), (0, 1, 2), by_group=True),
    )
    basis = np.c_[X.toarray() if sp.issparse(X) else X, np.ones(len(y))].astype(np.float64)
    rounding = 1e-6 if kind == "float32" else 1e-12
    for p in range(3):
        z = basis @ W[p]
        loss, slope, curvature = np.logaddexp(0, -y * z), -y * expit(-y * z), expit(z) * expit(-z)
        trained = np.array(
            [True] * 3 if fold[p] < 0 else [role[fold[p]] == 0 for role in folds.roles]
        )[groups]
        np.testing.assert_allclose(
            got["gradients"][0, p], basis.T @ (slope * trained), atol=1e-10 * len(y)
        )
        for g in range(3):
            here = groups == g
            np.testing.assert_allclose(by["values"][g, p], loss @ here, rtol=1e-12)
            np.testing.assert_allclose(
                by["gradients"][g, p], basis.T @ (slope * here), atol=1e-10 * len(y)
            )
            gram = basis.T @ ((curvature * here)[:, None] * basis)
            np.testing.assert_allclose(by["grams"][g, p], gram, atol=rounding * np.abs(gram).max())
        if p != 1:
            gram = basis.T @ ((curvature * trained)[:, None] * basis)
            np.testing.assert_allclose(
                got["grams"][0, p // 2], gram, atol=rounding * np.abs(gram).max()
            )
            moment = ((z - basis @ anchors[0]) ** MOMENT).sum()
            np.testing.assert_allclose(got["moments"][p], moment, rtol=1e-9)
    engine.close()


def test_hard_problems_are_left_to_solvers_for_one(monkeypatch):
    X, y = make_problem()
    monkeypatch.setattr(grids, "DENSE_FEATURES", 1)
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


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_infinite_C_and_losses_without_curvature_are_solved_alone(loss):
    X, y = make_problem()
    Cs = [0.1, 1.0] if loss == "hinge" else [0.1, np.inf]
    path = daskglm.fit(X, y, loss=loss, C=Cs, tol=1e-6)
    alone = daskglm.fit(X, y, loss=loss, C=Cs[1], tol=1e-9)
    assert path[1].report_.objective == pytest.approx(alone.report_.objective, rel=2e-6)


def test_what_did_not_converge_is_told():
    X, y = make_problem()
    with pytest.warns(
        ConvergenceWarning,
        match=r"of 9 problems stopped before tol=1e-06; the worst: .*reached: rel",
    ):
        model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, max_iter=1, refit=False).fit(X, y)
    assert not model.report_.converged
    assert len(model.report_.parts) == 9


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


def lazy(X, y, chunk=150):
    return da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(y, chunks=chunk)


def test_dask_rows_are_dealt_to_folds_by_seed():
    X, y = make_problem(seed=7)
    first, second, other = (
        daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=seed).fit(*lazy(X, y))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.scores_[1.0], second.scores_[1.0])
    assert (first.scores_[1.0] != other.scores_[1.0]).any()
    whole = daskglm.fit(X, y, C=float(first.C_[0]), tol=1e-10)
    np.testing.assert_allclose(first.coef_, whole.coef_, rtol=1e-2, atol=1e-4)
    held = [part.n_rows for part in first.report_.parts]
    assert set(held) == {len(y)}


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


def test_splitters_of_rows_sent_to_a_cluster(client):
    X, y = make_problem(seed=8)
    here = daskglm.LogisticRegressionCV(Cs=CS, cv=KFold(3, shuffle=True, random_state=1)).fit(X, y)
    settings = here._settings()
    with grids.open_grid(
        X, y, settings, client=client, cv=KFold(3, shuffle=True, random_state=1)
    ) as grid:
        solutions = grid.solve(grid.batch(np.array(CS)))
        np.testing.assert_allclose(
            solutions.W.reshape(3, 3, -1), here.coefs_paths_[1.0], rtol=0.05, atol=1e-4
        )
        assert grid.engine.capabilities.workers == 2


def test_a_lost_worker_costs_its_rows_only(client):
    X, y = make_problem(2000, seed=9)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=0)
    expected = model.fit(*lazy(X, y, 250)).scores_[1.0]
    settings = model._settings()
    with grids.open_grid(*lazy(X, y, 250), settings, cv=3) as grid:
        engine, asked = grid.engine, itertools.count()
        ask = engine.total

        def total(problem, request):
            if next(asked) == 3:  # memos are forgotten in the midst of the fit, blocks move
                engine.client.run(_forget)
            return ask(problem, request)

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
