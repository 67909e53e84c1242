"""Solvers: they reach the optimum, at a cost counted in passes and rounds, whatever the engine."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective, Point
from daskglm.solvers import get_solver, solver_names
from daskglm.solvers.linear_systems import DenseMetric, Diagonal, newton_step
from daskglm.solvers.trust_region import steihaug_cg
from tests.conftest import make_problem, objective

SOLVER_NAMES = list(solver_names())


class Recording:
    """An engine that keeps the list of requests it passes on."""

    def __init__(self, engine):
        self.engine, self.requests = engine, []

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def total(self, problem, request):
        self.requests.append(
            type(request).__name__ + ("+gram" if getattr(request, "gram", False) else "")
        )
        return self.engine.total(problem, request)


def make_objective(loss="logistic", C=1.0, intercept=True, record=False, **kwargs):
    X, y = make_problem(loss=loss, **kwargs)
    engine = Local([to_block(X, y, place=Place(), classify=LOSSES[loss].classifies)], 1)
    engine = Recording(engine) if record else engine
    problem = Problem(LOSSES[loss].ref, 1.0 if LOSSES[loss].classifies else None)
    return Objective(engine, problem, LOSSES[loss], C=C, fit_intercept=intercept, span=1.0)


SMOOTH = [name for name, loss in LOSSES.items() if np.isfinite(loss.smoothness)]


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_solvers_reach_one_optimum(loss, C, intercept):
    X, y = make_problem(loss=loss)
    best = daskglm.fit(X, y, loss=loss, C=C, fit_intercept=intercept, solver="newton", tol=1e-11)
    for solver in SOLVER_NAMES:
        tol = 1e-6 if solver == "gd" else 1e-10
        model = daskglm.fit(X, y, loss=loss, C=C, fit_intercept=intercept, solver=solver, tol=tol)
        value = objective(X, y, model.coef_, model.intercept_, C, loss)
        assert model.report_.objective == pytest.approx(value, rel=1e-12)
        assert (value - best.report_.objective) / best.report_.objective <= tol
        assert model.report_.relative_gap <= tol
        assert intercept or not np.any(model.intercept_)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd"])
def test_the_bound_holds_at_every_iteration(loss, solver):
    X, y = make_problem(loss=loss, n=300)
    best = daskglm.fit(X, y, loss=loss, solver="newton", tol=1e-14).report_.objective
    history = daskglm.fit(X, y, loss=loss, solver=solver, tol=1e-8).report_.history
    for record in history:
        assert record["objective"] <= best * (1 + record["relative_gap"]) + 1e-9 * best
        assert record["objective"] >= best * (1 - 1e-12)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_without_penalty_the_gradient_decides(solver):
    X, y = make_problem(n=2000)
    from sklearn.linear_model import LogisticRegression

    model = daskglm.fit(X, y, C=np.inf, solver=solver, tol=1e-9)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-5)
    assert np.isnan(model.report_.relative_gap)
    assert model.report_.gradient_ratio <= 1e-9
    assert "no bound" in repr(model.report_)


def test_intercept_is_not_penalised():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, 3)), (np.arange(1000) % 10 == 0).astype(int)
    model = daskglm.fit(X, y, C=1e-9, tol=1e-10)
    assert model.intercept_[0] == pytest.approx(np.log(0.1 / 0.9), rel=1e-4)
    ridge = daskglm.fit(X, y * 1.0, loss="squared", C=1e-9, tol=1e-10)
    assert ridge.intercept_ == pytest.approx(0.1, rel=1e-4)


# ---- costs
def drive(solver, point_count, **kwargs):
    obj = make_objective(record=True, **kwargs)
    points = get_solver(solver).run(obj, np.zeros(obj.size))
    for _ in range(point_count):
        next(points)
    return obj


def test_newton_makes_one_fused_pass_per_accepted_unit_step():
    obj = drive("newton", 5)
    assert obj.engine.requests == ["Evaluate+gram"] * 5
    assert obj.passes == 5.0


def test_least_squares_takes_newton_two_passes():
    X, y = make_problem(loss="squared")
    report = daskglm.fit(X, y, loss="squared", solver="newton", fit_intercept=False).report_
    assert (report.n_iter, report.passes, report.rounds) == (1, 2.0, 2)


def test_lbfgs_makes_one_pass_per_accepted_step():
    obj = drive("lbfgs", 8)
    assert obj.passes == 8.0
    assert set(obj.engine.requests) == {"Evaluate"}


def test_tron_makes_one_pass_per_product_and_trial():
    obj = drive("tron", 4)
    assert obj.passes == len(obj.engine.requests)
    assert set(obj.engine.requests) == {"Evaluate", "HessianVector"}


def test_a_rejected_step_is_searched_on_cached_margins():
    obj = make_objective("squared_hinge", C=100.0, record=True)
    from daskglm.solvers.line_search import backtrack

    start = obj.at(np.zeros(obj.size))
    trial = obj.at(-1e3 * start.gradient)
    accepted = backtrack(obj, start, trial)
    assert accepted.value < start.value < trial.value
    for other in (0.5, 2.0):  # what the search has tried too
        assert (
            accepted.value <= make_objective("squared_hinge", C=100.0).at(other * accepted.w).value
        )
    assert obj.engine.requests.count("Evaluate") == 3
    assert obj.engine.requests.count("EvaluateAlong") >= 1
    assert obj.passes == 3.0


def test_damped_newton_from_a_bad_start_converges():
    X, y = make_problem(n=400)
    best = daskglm.fit(X, y, C=100.0, tol=1e-12)
    far = daskglm.fit(
        X, y, C=100.0, solver="newton", tol=1e-10, warm_start=(-30 * best.coef_, [10.0])
    )
    assert far.report_.objective == pytest.approx(best.report_.objective, rel=1e-9)
    assert far.report_.gradient_ratio < 1e-3


def test_warm_start_at_the_optimum_stops_at_once():
    X, y = make_problem()
    first = daskglm.fit(X, y, tol=1e-10)
    again = daskglm.fit(X, y, tol=1e-8, warm_start=first)
    assert again.report_.n_iter == 0
    model = daskglm.LogisticRegression(warm_start=True, tol=1e-8).fit(X, y)
    assert model.fit(X, y).report_.n_iter == 0


# ---- gradient descent of the HPC paper
@pytest.mark.parametrize(("alpha", "epsilon"), [(0.1, 0.01), (0.01, 0.008)])
def test_gd_takes_exactly_the_papers_steps(alpha, epsilon):
    X, y = make_problem(n=300)
    A, t = np.c_[X, np.ones(300)], (y > 0).astype(float)
    w, steps = np.zeros(8), 0
    while True:  # Algorithms 1 and 7: gradient, step, then the test on the gradient just used
        gradient = A.T @ (1 / (1 + np.exp(-A @ w)) - t) / 300
        w, steps = w - alpha * gradient, steps + 1
        if np.linalg.norm(gradient) <= epsilon:
            break
    model = daskglm.fit(
        X,
        y,
        C=np.inf,
        solver="gd",
        tol=0,
        max_iter=100_000,
        solver_options={"step": alpha, "epsilon": epsilon},
    )
    np.testing.assert_allclose(np.r_[model.coef_[0], model.intercept_], w, rtol=1e-9)
    assert model.report_.n_iter == steps
    assert model.report_.converged
    assert "mean gradient" in model.report_.reason
    assert model.report_.passes == steps + 1


def test_gd_with_too_long_a_step_says_that_it_diverged():
    X, y = make_problem(loss="squared")
    with pytest.warns(ConvergenceWarning, match="not finite|max_iter"):
        model = daskglm.fit(
            X * 100, y, loss="squared", solver="gd", max_iter=3000, solver_options={"step": 1.0}
        )
    assert not model.report_.converged


# ---- pieces
@pytest.mark.parametrize("full", [False, True])
def test_steihaug_cg_solves_or_stops_on_the_border(full):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 20))
    H, g = A.T @ A + np.eye(20), rng.standard_normal(20)
    matrix = H + 5.0 * np.eye(20) if full else np.eye(20)
    M = DenseMetric(matrix) if full else Diagonal(np.ones(20))
    products = []

    def product(v):
        products.append(v)
        return H @ v

    inside = steihaug_cg(product, g, M, 1e6)
    assert not inside.on_border
    left = H @ inside.step + g
    assert left @ np.linalg.solve(matrix, left) <= 0.0101 * (g @ np.linalg.solve(matrix, g))
    np.testing.assert_allclose(inside.residual, -left, atol=1e-10)
    assert len(products) <= 3 or not full
    border = steihaug_cg(product, g, M, 1e-3)
    assert border.on_border
    assert np.sqrt(border.step @ matrix @ border.step) == pytest.approx(1e-3)


@pytest.mark.parametrize("C", [0.01, 10.0])
def test_tron_takes_the_hessian_of_a_sample_where_that_saves_products(C, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((60, 60)) * np.logspace(
        0, -1, 60
    )  # columns that go together: no diagonal helps
    X = (rng.standard_normal((40_000, 60)) @ mixing.T).astype(np.float32)
    y = np.where(X @ rng.standard_normal(60) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    options = {"C": C, "solver": "tron", "tol": 1e-8}
    found = daskglm.fit(X, y, **options).report_
    monkeypatch.setattr(sys.modules["daskglm.solvers.tron"], "LARGEST_SHARE", 0.0)
    diagonal = daskglm.fit(X, y, **options).report_
    assert found.passes < (0.5 if C == 0.01 else 0.15) * diagonal.passes
    assert found.objective == pytest.approx(diagonal.objective, rel=1e-7)


def test_newton_step_on_singular_and_badly_scaled_hessians():
    H = np.array([[2.0, 2.0, 0], [2.0, 2.0, 0], [0, 0, 0]])
    step = newton_step(H, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(H @ step, [-1.0, -1.0, 0.0], atol=1e-12)
    scale = np.array([1e-8, 1.0, 1e8])
    A = np.random.default_rng(0).standard_normal((9, 3)) * scale
    np.testing.assert_allclose(
        newton_step(A.T @ A, scale) * scale,
        -np.linalg.solve((A / scale).T @ (A / scale), np.ones(3)),
        rtol=1e-8,
    )


@pytest.mark.parametrize("scale", [1e-6, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_values(scale, dtype):
    X, y = make_problem(n=300)
    X = (X * scale).astype(dtype)
    model = daskglm.fit(X, y, C=scale**-2, solver="newton", tol=1e-6)
    direct = objective(X, y, model.coef_, model.intercept_, scale**-2, "logistic")
    assert model.report_.objective == pytest.approx(direct, rel=1e-9)


def test_messages_name_what_is_asked():
    assert Evaluate(np.ones(2), 1).gram is False
    assert HessianVector(np.ones(2), (1, np.ones(2))).at[0] == 1
    assert EvaluateAlong(((1, np.ones(2)),), np.ones((1, 2))).coefficients.shape == (1, 2)


def test_the_length_of_a_step_is_that_of_the_difference():
    from daskglm.objectives import primal as module

    def point(w):
        return Point(None, w, 0.0, w, 0)

    a, b = np.random.default_rng(0).standard_normal((2, 2 * module.AT_ONCE + 5))
    assert point(a).distance(point(b)) == pytest.approx(np.linalg.norm(a - b), rel=1e-12)
    with np.errstate(over="ignore"):
        assert point(1e200 * a).distance(point(b)) == np.inf, (
            "a diverging solver is told by its values"
        )
