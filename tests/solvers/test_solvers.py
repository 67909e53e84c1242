"""Solvers: they reach the optimum, at a cost counted in passes and rounds, whatever the engine."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from benchmarks.datasets.problems import higgs_like
from daskglm.losses.table import LOSSES
from daskglm.solvers import get_solver, solver_names
from tests.conftest import make_problem, objective
from tests.covering import each_choice
from tests.losses.formulas import reference

SOLVER_NAMES = [name for name in solver_names() if not get_solver(name).rounds_corners]


SMOOTH = [name for name, loss in LOSSES.items() if loss.is_bounded]


def solvers_of(loss):
    """Those that take the loss."""
    return [name for name in SOLVER_NAMES if LOSSES[loss].has_dual or name != "sdca"]


@each_choice
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_solvers_reach_one_optimum(loss, C, intercept):
    X, y = make_problem(loss=loss)
    best = daskglm.fit(X, y, loss=loss, C=C, fit_intercept=intercept, solver="newton", tol=1e-11)
    for solver in solvers_of(loss):
        tol = 1e-6 if solver == "gd" else 1e-10
        model = daskglm.fit(X, y, loss=loss, C=C, fit_intercept=intercept, solver=solver, tol=tol)
        value = objective(X, y, model.coef_, model.intercept_, C, loss)
        assert model.report_.objective == pytest.approx(value, rel=1e-12)
        assert (value - best.report_.objective) / best.report_.objective <= tol
        assert model.report_.relative_gap <= tol
        assert intercept or not np.any(model.intercept_)


@each_choice
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
def test_without_penalty_the_hessian_proves(solver):
    X, y = make_problem(n=2000)
    from sklearn.linear_model import LogisticRegression

    model = daskglm.fit(X, y, C=np.inf, solver=solver, tol=1e-9)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-5)
    assert model.report_.relative_gap <= 1e-9
    assert model.report_.gradient_ratio <= 1e-9
    assert "relative gap    <= " in repr(model.report_)


def test_intercept_is_not_penalised():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, 3)), (np.arange(1000) % 10 == 0).astype(int)
    model = daskglm.fit(X, y, C=1e-9, tol=1e-10)
    assert model.intercept_[0] == pytest.approx(np.log(0.1 / 0.9), rel=1e-4)
    ridge = daskglm.fit(X, y * 1.0, loss="squared", C=1e-9, tol=1e-10)
    assert ridge.intercept_ == pytest.approx(0.1, rel=1e-4)


# ---- costs


def test_warm_start_at_the_optimum_stops_at_once():
    X, y = make_problem()
    first = daskglm.fit(X, y, tol=1e-10)
    again = daskglm.fit(X, y, tol=1e-8, warm_start=first)
    assert again.report_.n_iter == 0
    model = daskglm.LogisticRegression(warm_start=True, tol=1e-8).fit(X, y)
    assert model.fit(X, y).report_.n_iter == 0


# ---- gradient descent of the HPC paper


# ---- pieces


@pytest.mark.parametrize("scale", [1e-6, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_values(scale, dtype):
    X, y = make_problem(n=300)
    X = (X * scale).astype(dtype)
    model = daskglm.fit(X, y, C=scale**-2, solver="newton", tol=1e-6)
    direct = objective(X, y, model.coef_, model.intercept_, scale**-2, "logistic")
    assert model.report_.objective == pytest.approx(direct, rel=1e-9)


@each_choice
@pytest.mark.parametrize(
    ("solver", "sparse"),
    [("newton", False), ("tron", False), ("tron", True), ("lbfgs", False), ("lbfgs", True)],
)
def test_float32_rows_reach_the_optimum_of_the_stored_data_to_a_billionth(solver, sparse):
    """The optimum is found here by Newton's method in NumPy, in float64 on the float32 numbers as they are stored."""
    X, y = higgs_like(20_000)
    exact = X.astype(np.float64)
    w = np.zeros(X.shape[1])
    for _ in range(12):
        _, slope, curvature = reference("logistic", y, exact @ w)
        hessian = exact.T @ (curvature[:, None] * exact) + np.eye(len(w))
        w -= np.linalg.solve(hessian, exact.T @ slope + w)
    best = objective(exact, y, w, 0.0, 1.0, "logistic")
    model = daskglm.fit(
        sp.csr_matrix(X) if sparse else X, y, solver=solver, tol=1e-10, fit_intercept=False
    )
    assert model.report_.converged
    reached = objective(exact, y, model.coef_, 0.0, 1.0, "logistic")
    assert (reached - best) / best <= 1e-9
    assert model.report_.objective == pytest.approx(reached, rel=1e-12)
