"""Newton's method: passes, damping and samples of the rows."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.requests import Evaluate, Problem
from daskglm.core.view import ALL
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from tests.conftest import make_problem, objective
from tests.solvers.problems import drive
from tests.solvers.samples import large


def test_newton_makes_one_fused_pass_per_accepted_unit_step():
    obj = drive("newton", 5)
    assert obj.engine.requests == ["Evaluate+gram"] * 5
    assert obj.passes == 5.0


def test_least_squares_takes_newton_one_pass():
    X, y = make_problem(loss="squared")
    report = daskglm.fit(X, y, loss="squared", solver="newton", fit_intercept=False).report_
    assert (report.n_iter, report.passes, report.rounds) == (1, 1.0, 1)


def test_damped_newton_from_a_bad_start_converges():
    X, y = make_problem(n=400)
    best = daskglm.fit(X, y, C=100.0, tol=1e-12)
    far = daskglm.fit(
        X, y, C=100.0, solver="newton", tol=1e-10, warm_start=(-30 * best.coef_, [10.0])
    )
    assert far.report_.objective == pytest.approx(best.report_.objective, rel=1e-9)
    assert far.report_.gradient_ratio < 1e-3


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
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


def test_short_one_hot_rows_with_rare_levels_do_without_samples():
    """A sample has no row of a rare level, or some of one class: steps from there led astray."""
    rng = np.random.default_rng(0)
    n, sizes = 300_000, (12, 20, 100)
    effects = [rng.standard_normal(m) for m in sizes]
    levels = [(m * rng.random(n) ** 4).astype(int) for m in sizes]
    z = sum(effect[level] for effect, level in zip(effects, levels, strict=True))
    columns = np.stack(levels, axis=1) + np.cumsum([0, *sizes[:-1]])
    starts = np.arange(0, 3 * n + 1, 3)
    X = sp.csr_matrix((np.ones(3 * n), columns.ravel(), starts), (n, sum(sizes)))
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    fit = daskglm.fit(sp.hstack([X, X[:, :20]], format="csr"), y, solver="newton")
    assert fit.report_.passes <= 8.0
    assert fit.report_.passes % 1.0 == 0.0, "of all rows"


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

        def total(self, problem, request, view=ALL):
            if isinstance(request, Evaluate) and view == ALL:
                grams.append(request.gram)
            return engine.total(problem, request, view)

    loss = LOSSES["logistic"]
    whole = Objective(
        Recording(), Problem(loss.ref, 1), loss, C=1.0, fit_intercept=True, intercept_radius=1.0
    )
    points = get_solver("newton").run(whole, np.zeros(whole.size), tol=1e-3)
    for _ in range(3):
        next(points)
    assert grams == [False, False, False]
