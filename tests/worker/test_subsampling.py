"""Random samples of rows, Newton's method begun on them, and the bound on the excess that the Hessian gives."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.requests import Evaluate, Folds, LossRef, Problem, Sampled
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.bounds import HessianFactor, excess
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from daskglm.worker.fold_assignment import trained_on
from daskglm.worker.subsampling import draw
from tests.conftest import make_problem, objective


def large(loss="logistic", n=60_000, d=20, seed=0, **kwargs):
    """Enough values for samples to pay."""
    return make_problem(n=n, d=d, loss=loss, seed=seed, **kwargs)


# ---- rows
@pytest.mark.parametrize("storage", ["dense", "csr", "pattern"])
def test_a_sample_holds_rows_of_the_block_spread_over_it(storage):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 7))
    if storage != "dense":
        X = sp.random(1000, 7, density=0.4, format="csr", random_state=rng)
        X.data[:] = 0.5 if storage == "pattern" else X.data
    weight = rng.random(1000)
    block = to_block(X, np.arange(1000.0), weight, place=Place(), classify=False)
    part = draw(block, 0.1, 3)
    assert part.facts.n_rows == len(part.y) == part.X.shape[0] == 100
    rows = part.y.astype(int)
    assert (np.diff(rows) > 0).all()
    assert np.all(rows // 10 == np.arange(100)), "one of every ten"
    np.testing.assert_array_equal(part.weight, weight[rows])
    dense = X if storage == "dense" else X.toarray()
    if storage == "pattern":
        got = sp.csr_matrix(
            (np.full(part.X.nnz, part.X.value[0]), part.X.indices, part.X.indptr), part.X.shape
        )
    else:
        got = part.X
    np.testing.assert_array_equal(got if storage == "dense" else got.toarray(), dense[rows])
    assert (draw(block, 0.1, 4).y != part.y).any()


def test_a_sample_is_the_same_wherever_its_blocks_are_and_costs_its_share_of_a_pass():
    X, y = make_problem(n=4000)
    cuts = [0, 1000, 1500, 1500, 4000]
    blocks = [
        to_block(X[a:b], y[a:b], place=Place(partition=i), classify=True)
        for i, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False))
    ]
    problem = Problem(LOSSES["logistic"].ref, 1.0)
    request = Sampled(Evaluate(np.ones(X.shape[1]), 0), 0.05, 1)
    whole = Local(blocks, 2).total(problem, request)
    parts = [
        Local(blocks[:2], 1).total(problem, request),
        Local(blocks[2:], 2).total(problem, request),
    ]
    assert whole["rows"] == 200
    np.testing.assert_allclose(
        whole["gradient"], parts[0]["gradient"] + parts[1]["gradient"], rtol=1e-12
    )


@pytest.mark.parametrize("divided", [{"groups": np.repeat(np.arange(4), 1000)}, {"seed": 3}])
def test_a_sample_leaves_out_the_rows_that_a_fold_holds_out(divided):
    X, y = make_problem(n=4000)
    folds = Folds("four", tuple(tuple(int(g == k) for k in range(4)) for g in range(4)), **divided)
    block = to_block(X, y, place=Place(), classify=True)
    part = draw(block, 0.1, 2)
    here = np.array([np.flatnonzero((row == X).all(axis=1))[0] for row in part.X])
    for fold in range(4):
        np.testing.assert_array_equal(
            trained_on(part, folds, fold), trained_on(block, folds, fold)[here]
        )
        problem = Problem(LOSSES["logistic"].ref, 1.0, folds=folds, fold=fold)
        sums = Local([block], 1).total(problem, Sampled(Evaluate(np.zeros(X.shape[1]), 0), 0.1, 2))
        assert sums["value"] == pytest.approx(
            np.log(2) * trained_on(block, folds, fold)[here].sum()
        )


def test_a_worker_without_rows_answers_for_its_sample():
    block = to_block(np.empty((0, 3)), np.empty(0), place=Place(), classify=True)
    reply = Local([block], 1).total(
        Problem(LossRef("logistic"), 1.0), Sampled(Evaluate(np.ones(3), 0), 0.1, 1)
    )
    assert reply["rows"] == 0
    assert not reply["gradient"].any()


# ---- Newton begun on samples
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
@pytest.mark.parametrize("intercept", [True, False])
def test_newton_from_samples_ends_at_the_same_optimum(loss, intercept):
    X, y = large(loss)
    options = {"loss": loss, "fit_intercept": intercept, "tol": 1e-9}
    cold = daskglm.fit(
        X, y, solver="newton", warm_start=(np.full(X.shape[1], 1e-9), 0.0), **options
    )
    model = daskglm.fit(X, y, solver="newton", **options)
    assert model.report_.passes % 1.0 > 0.0, "samples were read"
    assert model.report_.objective == pytest.approx(cold.report_.objective, rel=2e-9)
    value = objective(X, y, model.coef_, model.intercept_, 1.0, loss)
    assert model.report_.objective == pytest.approx(value, rel=1e-12)


def test_dense_rows_take_little_more_than_two_passes_to_a_proved_1e_6():
    X, y = large(n=500_000, d=12)
    report = daskglm.fit(X, y, solver="newton", tol=1e-6).report_
    assert report.relative_gap <= 1e-6
    assert report.passes <= 2.2


def test_samples_of_sorted_and_of_lopsided_labels():
    X, y = large(n=100_000)
    order = np.argsort(y, kind="stable")
    sorted_rows = daskglm.fit(X[order], y[order], solver="newton", tol=1e-9)
    assert sorted_rows.report_.passes < 4
    rng = np.random.default_rng(0)
    rare = np.where(rng.random(len(y)) < 2e-4, 1.0, -1.0)
    few = daskglm.fit(X, rare, solver="newton", tol=1e-9)
    assert few.report_.converged
    np.testing.assert_allclose(
        few.coef_, daskglm.fit(X, rare, solver="tron", tol=1e-12).coef_, rtol=1e-3, atol=1e-4
    )


# ---- the bound by the Hessian
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_bound_by_the_hessian_holds_and_is_tight_near_the_optimum(C, intercept):
    X, y = make_problem(n=500, d=6)
    engine = Local([to_block(X, y, place=Place(), classify=True)], 1)
    loss = LOSSES["logistic"]
    whole = Objective(engine, Problem(loss.ref, 1.0), loss, C=C, fit_intercept=intercept, span=1.0)
    best = daskglm.fit(X, y, C=C, fit_intercept=intercept, solver="newton", tol=1e-15)
    at = np.append(best.coef_.ravel(), best.intercept_)[: whole.size]
    least = whole.at(at).value
    rng = np.random.default_rng(1)
    finite = []
    for size in np.logspace(-6, 2, 200):
        point = whole.at(at + size * rng.standard_normal(whole.size) / np.sqrt(C), gram=True)
        assert point.excess >= (point.value - least) * (1 - 1e-6) - 1e-12 * least
        if np.isfinite(point.excess) and point.value > least * (1 + 1e-10):
            finite.append(point.excess / (point.value - least))
    assert len(finite) > 20
    assert np.median(finite) < 1.1


def test_the_bound_is_exact_for_least_squares_and_absent_where_curvature_jumps():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 4))
    H, g = A.T @ A, rng.standard_normal(4)
    factor = HessianFactor.of(H, 0.0)
    assert excess(factor.decrement(g), 0.0) == pytest.approx(
        0.5 * g @ np.linalg.solve(H, g), rel=1e-9
    )
    assert excess(factor.decrement(1e6 * g), 1.0) == np.inf
    assert excess(HessianFactor.of(np.zeros((4, 4)), 0.0).decrement(g), 0.0) == np.inf
    assert excess(HessianFactor.of(H * np.nan, 0.0).decrement(g), 0.0) == np.inf
    assert not np.isfinite(LOSSES["squared_hinge"].self_concordance)


def test_the_hessian_of_a_sample_takes_the_place_of_that_of_all_rows_where_those_are_long():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70_000, 300), dtype=np.float32)
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ rng.standard_normal(300) / 6)), 1, -1)
    model = daskglm.fit(X, y, solver="newton", tol=1e-6)
    exact = daskglm.fit(X, y, solver="tron", tol=1e-10)
    assert model.report_.objective == pytest.approx(exact.report_.objective, rel=1e-6)
    engine = Local([to_block(X, y, place=Place(), classify=True)], 1)
    grams = []

    class Recording:
        def __getattr__(self, name):
            return getattr(engine, name)

        def total(self, problem, request):
            if isinstance(request, Evaluate):
                grams.append(request.gram)
            return engine.total(problem, request)

    loss = LOSSES["logistic"]
    whole = Objective(Recording(), Problem(loss.ref, 1), loss, C=1.0, fit_intercept=True, span=1.0)
    points = get_solver("newton").run(whole, np.zeros(whole.size), tol=1e-3)
    for _ in range(3):
        next(points)
    assert grams == [False, False, False]
