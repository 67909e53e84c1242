"""Cross-validated paths that share their passes, against paths of one fold after another."""

import logging
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.engines.local import Local
from daskglm.fitting import shared_paths
from tests.conftest import make_problem
from tests.covering import covering

TOL = 1e-14


@pytest.fixture
def one_by_one(monkeypatch):
    """Call it to have the folds of all further fits solved one after another."""

    def call():
        for module in ("penalty_cv", "problem_grid"):
            monkeypatch.setattr(f"daskglm.fitting.{module}.can_share", lambda *given: False)

    return call


def test_watchers_see_the_largest_gap_of_a_pass(monkeypatch):
    points = [SimpleNamespace(relative_gap=gap, value=1.0) for gap in (1e-6, 1e-3, 1e-9)]
    monkeypatch.setattr(shared_paths, "solve_together", lambda shared, all, watch: watch(points))
    seen = []
    record = SimpleNamespace(add=lambda evaluated, gap, name: seen.append((evaluated.value, gap)))
    shared_paths.run(None, [], record)
    assert seen == [(3.0, 1e-3)]


def rows_of(family, n=1500, d=8, **how):
    X, y = make_problem(n, d, loss=family, **how)
    return X, (y > 0) * 1.0 if family == "logistic" else y


def of_family(family, **how):
    name = "binomial" if family == "logistic" else family
    how = {"alphas": [0.1, 0.03, 0.01, 0.003, 0.001], "cv": 4, "l1_ratio": 1.0, **how}
    return daskglm.GeneralizedLinearRegressorCV(name, **{"tol": TOL, **how})


def check_same(shared, alone, tol=TOL):
    np.testing.assert_allclose(shared.coef_path_, alone.coef_path_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(shared.intercept_path_, alone.intercept_path_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(shared.deviance_path_, alone.deviance_path_, rtol=1e-6)
    np.testing.assert_allclose(shared.coef_, alone.coef_, rtol=1e-6, atol=1e-6)
    assert shared.alpha_ == alone.alpha_
    assert shared.report_.converged
    assert shared.report_.relative_gap <= tol


# ---- families
@covering(
    1,
    family=["poisson", "gamma", "logistic"],
    how=[
        {},
        {"l1_ratio": [0.3, 1.0]},
        {"l1_ratio": 0.5, "standardize": True},
        {"l1_ratio": 0.5, "positive": True},
        {"groups": [[0, 1, 2], [3, 4]], "l1_ratio": 1.0},
        {"penalty_factor": [0.0, 2.0, *[1.0] * 6], "fit_intercept": False},
    ],
)
def test_fits_are_those_of_one_fold_after_another(family, how, one_by_one):
    X, y = rows_of(family)
    shared = of_family(family, **how).fit(X, y)
    one_by_one()
    alone = of_family(family, **how).fit(X, y)
    check_same(shared, alone)
    assert shared.report_.passes < 0.4 * alone.report_.passes
    assert "at the same time" in shared.report_.why
    assert "at the same time" not in alone.report_.why


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_and_offsets_are_taken(sparse, one_by_one):
    X, y = rows_of("poisson", sparse=sparse)
    rng = np.random.default_rng(0)
    beside = {"sample_weight": rng.random(len(y)) + 0.1, "offset": rng.normal(0.0, 0.5, len(y))}
    shared = of_family("poisson").fit(X, y, **beside)
    one_by_one()
    alone = of_family("poisson").fit(X, y, **beside)
    check_same(shared, alone)
    assert shared.report_.passes < 0.4 * alone.report_.passes


def test_sparse_rows_of_many_columns_share_passes_where_these_cost_messages(request):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.eye(24)[rng.integers(0, 24, 2000)])
    y = rng.poisson(np.exp(0.3 * X @ rng.standard_normal(24))) * 1.0
    blocks = [X[k : k + 500] for k in range(0, 2000, 500)]
    rows = da.concatenate([da.from_array(each, chunks=-1, asarray=False) for each in blocks])
    target, how = da.from_array(y, chunks=500), {"l1_ratio": 0.0, "random_state": 0}
    here = of_family("poisson", **how).fit(rows, target)
    request.getfixturevalue("client")
    there = of_family("poisson", **how).fit(rows, target)
    check_same(there, here)
    assert here.report_.workers == 1
    assert there.report_.rounds < 0.25 * here.report_.rounds


@pytest.mark.parametrize("family", ["poisson", "logistic"])
@pytest.mark.nightly
def test_a_fit_takes_a_fifth_of_the_passes_that_it_took(family, one_by_one):
    """Of 20,000 x 30 rows, 5 folds and 30 values: it had been 319 passes and 378."""
    X, y = rows_of(family, 20_000, 30)
    how = {"alphas": 30, "cv": 5, "tol": 1e-6}
    shared = of_family(family, **how).fit(X, y)
    assert shared.report_.passes <= 56.0
    assert shared.report_.rounds <= 58
    assert shared.report_.relative_gap <= 1e-6
    several = of_family(family, **how, l1_ratio=[0.5, 1.0]).fit(X, y)
    assert several.report_.passes <= 60.0
    one_by_one()
    assert of_family(family, **how).fit(X, y).report_.passes > 5 * shared.report_.passes


def test_more_features_than_rows_are_proved_without_a_search_for_the_intercept(one_by_one):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 200))
    y = rng.poisson(np.exp(0.3 * X[:, :3].sum(axis=1))) * 1.0
    shared = of_family("poisson", alphas=[0.2, 0.1, 0.05], tol=1e-9).fit(X, y)
    one_by_one()
    alone = of_family("poisson", alphas=[0.2, 0.1, 0.05], tol=1e-9).fit(X, y)
    check_same(shared, alone, 1e-9)
    assert shared.report_.passes < 0.4 * alone.report_.passes
    assert shared.report_.rounds < 0.25 * alone.report_.rounds


def test_a_cluster_has_the_same_passes_and_few_rounds(request, one_by_one):
    X, y = rows_of("poisson", 2000)
    rows, target = da.from_array(X, chunks=(500, 8)), da.from_array(y, chunks=500)
    how = {"random_state": 3, "l1_ratio": [0.5, 1.0]}
    here = of_family("poisson", **how).fit(rows, target)
    request.getfixturevalue("client")
    there = of_family("poisson", **how).fit(rows, target)
    check_same(there, here)
    assert there.report_.workers == 2
    assert there.report_.passes == pytest.approx(here.report_.passes, abs=2.0)
    one_by_one()
    alone = of_family("poisson", **how).fit(rows, target)
    check_same(there, alone)
    assert there.report_.passes < 0.25 * alone.report_.passes
    assert there.report_.rounds < 0.25 * alone.report_.rounds


def test_what_shared_steps_leave_is_solved_by_itself(monkeypatch):
    X, y = rows_of("poisson")
    whole = of_family("poisson").fit(X, y)
    monkeypatch.setattr("daskglm.solvers.batched_proximal_newton.model_minimum", _no_step)
    alone = of_family("poisson").fit(X, y)
    check_same(alone, whole)
    assert alone.report_.passes > 2 * whole.report_.passes


def _no_step(objective, point, hessian, tol, before=None):
    from daskglm.penalties.descent import Minimum

    return Minimum(point.w.copy(), point.gradient.copy(), 1.0)


def test_max_iter_is_of_each_fit():
    X, y = rows_of("poisson")
    with pytest.warns(Warning, match="max_iter iterations were made"):
        model = of_family("poisson", max_iter=1, alphas=[0.1, 1e-3]).fit(X, y)
    assert not model.report_.converged


def test_losses_whose_curvature_varies_fast_are_solved_one_by_one():
    X, y = rows_of("logistic", 300, 4)
    how = {"link": "probit", "alphas": [0.03, 0.01], "cv": 2, "l1_ratio": 1.0}
    model = daskglm.GeneralizedLinearRegressorCV("binomial", **how).fit(X, y)
    assert "at the same time" not in model.report_.why
    assert model.report_.converged


def test_many_sparse_features_are_solved_one_by_one():
    X = sp.random(200, 520, density=0.05, random_state=0, format="csr")
    y = np.random.default_rng(0).poisson(1.0, 200) * 1.0
    model = of_family("poisson", alphas=[0.02, 0.01], cv=2, tol=1e-6).fit(X, y)
    assert "at the same time" not in model.report_.why
    assert model.report_.relative_gap <= 1e-6


def test_each_pass_is_seen_as_an_iteration(caplog):
    X, y = rows_of("poisson")
    with caplog.at_level(logging.INFO, logger="daskglm"):
        model = of_family("poisson").fit(X, y)
    seen = [record for record in caplog.records if "iteration" in record.getMessage()]
    # but for the pass over the rows that are held out
    assert len(seen) == model.report_.passes - 1.0


# ---- classes
@pytest.mark.parametrize("classes", [2, 3])
def test_folds_and_classes_of_classifiers_share_passes(classes, one_by_one):
    X, z = make_problem(1500, 8, loss="squared")
    y = np.digitize(z, [0.0] if classes == 2 else [-1.0, 1.5])
    how = {"Cs": np.geomspace(1e-3, 1.0, 6), "cv": 3, "l1_ratios": [0.5, 1.0], "tol": TOL}
    how |= {"multi_class": "ovr", "scoring": "neg_log_loss", "class_weight": "balanced"}
    shared = daskglm.LogisticRegressionCV(**how).fit(X, y)
    one_by_one()
    alone = daskglm.LogisticRegressionCV(**how).fit(X, y)
    for label, paths in alone.coefs_paths_.items():
        np.testing.assert_allclose(shared.coefs_paths_[label], paths, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(shared.scores_[label], alone.scores_[label], rtol=1e-6)
    np.testing.assert_allclose(shared.coef_, alone.coef_, rtol=1e-6, atol=1e-6)
    assert max(part.relative_gap for part in shared.report_.parts) <= TOL
    assert all(part.converged for part in shared.report_.parts)
    assert shared.report_.passes < 0.45 * alone.report_.passes
    parts = [part for part in shared.report_.parts if "paths at the same time" in part.why]
    problems = (1 if classes == 2 else classes) * 3 * 6 * 2
    assert len(parts) >= problems
    assert {part.solver for part in parts} == {"proximal_newton"}
    # all have the passes of their l1_ratio as history
    assert all(part.history[-1]["passes"] <= shared.report_.passes for part in parts)


def test_callbacks_and_checkpoints_see_one_problem_after_another(tmp_path):
    X, y = make_problem(300, 4)
    how = {"Cs": [0.01, 0.1], "cv": 3, "l1_ratios": [1.0]}
    seen = []
    model = daskglm.LogisticRegressionCV(**how).fit(X, y, callback=seen.append)
    assert seen
    kept = daskglm.LogisticRegressionCV(**how).fit(X, y, checkpoint=tmp_path / "state")
    for each in (model, kept):
        assert not any("at the same time" in part.why for part in each.report_.parts)


def test_a_rows_source_is_read_once_for_all_folds(monkeypatch):
    """Requests to the engine, whatever they cost: one for each pass."""
    X, y = make_problem(800, 5)
    asked = []
    total = Local.total

    def counted(self, problem, request, *view):
        asked.append(type(request).__name__)
        return total(self, problem, request, *view)

    monkeypatch.setattr(Local, "total", counted)
    how = {"Cs": np.geomspace(1e-3, 0.1, 5), "cv": 5, "l1_ratios": [1.0], "tol": 1e-8}
    daskglm.LogisticRegressionCV(**how).fit(X, y)
    assert asked.count("EvaluateMany") <= 16
    assert asked.count("EvaluateAlong") + asked.count("Evaluate") <= 4
