"""The solver files for benchopt solve what its benchmarks ask for; benchopt itself need not be installed."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.benchopt.race import table

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "benchopt"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 6))


@pytest.fixture
def solver_of(monkeypatch):
    """Load a solver file as benchopt does, which sets the parameters as attributes."""

    def load(name, **parameters):
        if importlib.util.find_spec("benchopt") is None:
            monkeypatch.setitem(sys.modules, "benchopt", types.SimpleNamespace(BaseSolver=object))
        spec = importlib.util.spec_from_file_location(f"benchopt_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        solver = module.Solver()
        vars(solver).update(parameters)
        return solver

    return load


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "sdca"])
def test_logistic_regression(solver_of, solver):
    y = np.where(X[:, 0] + RNG.standard_normal(150) > 0, 1, -1)
    model = solver_of("logreg_l2", solver=solver)
    model.set_objective(X=X, y=y, lmbd=0.5)
    model.run(500)
    w = model.get_result()["beta"]
    assert w.shape == (6,)
    # the gradient of their objective
    slope = -(X.T @ (y / (1.0 + np.exp(y * (X @ w))))) + 0.5 * w
    assert np.linalg.norm(slope) < 1e-5


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "sdca"])
def test_ridge(solver_of, solver, fit_intercept):
    y = X @ np.arange(6) + 3.0 + RNG.standard_normal(150)
    model = solver_of("ridge", solver=solver)
    model.set_objective(X=X, y=y, lmbd=0.1, fit_intercept=fit_intercept)
    model.run(500)
    beta = model.get_result()["beta"]
    w, b = (beta[:6], beta[6]) if fit_intercept else (beta, 0.0)
    left = y - X @ w - b
    assert np.linalg.norm(-X.T @ left + 0.1 * w) < 1e-4
    if fit_intercept:
        assert abs(left.sum()) < 1e-4


def test_a_run_of_no_iterations_is_the_start(solver_of):
    model = solver_of("logreg_l2", solver="lbfgs")
    model.set_objective(X=X, y=np.where(X[:, 0] > 0, 1, -1), lmbd=1.0)
    model.run(0)
    assert not model.get_result()["beta"].any()


def test_the_table_has_the_fastest_point_within_each_target_in_all_repeats():
    points = pd.DataFrame(
        [
            *[("a", 0, 1.0, 2.0), ("a", 1, 2.0, 1.0005), ("a", 2, 4.0, 1.0), ("a", 2, 6.0, 1.0)],
            *[("b", 0, 1.0, 1.0), ("b", 0, 1.0, 1.1), ("b", 1, 3.0, 1.0001)],
        ],
        columns=["solver_name", "stop_val", "time", "objective_value"],
    ).assign(data_name="rows", objective_name="lasso")
    assert table(points).splitlines()[2:] == [
        "| rows | lasso | a | 2 | 5 | 0e+00 |",
        "| rows | lasso | b | 3 | - | 1e-04 |",
    ]
