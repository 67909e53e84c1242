"""A solver is one module: registered from outside of the package it is used like those within."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.solvers import SolverSpec, get_solver, register, solver_names, unregister
from tests.conftest import make_problem
from tests.extending.barzilai_borwein import SPEC, barzilai_borwein

X, y = make_problem(n=600)
NAME = SPEC.name


@pytest.fixture
def registered():
    """The solver made known, and forgotten afterwards."""
    register(SPEC)
    yield
    unregister(NAME)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
def test_it_reaches_the_optimum_in_process(loss):
    X, y = make_problem(n=600, loss=loss)
    model = daskglm.fit(X, y, loss=loss, solver=NAME, tol=1e-8)
    best = daskglm.fit(X, y, loss=loss, solver="newton", tol=1e-10)
    assert model.report_.converged
    assert model.report_.solver == NAME
    assert model.report_.objective == pytest.approx(best.report_.objective, rel=1e-8)


@pytest.mark.usefixtures("registered")
def test_it_reaches_the_optimum_on_a_cluster(client):
    rows = da.from_array(X, chunks=(150, -1)), da.from_array(y, chunks=150)
    model = daskglm.fit(*rows, solver=NAME, tol=1e-8, client=client)
    assert model.report_.workers == 2
    here = daskglm.fit(X, y, solver=NAME, tol=1e-8)
    np.testing.assert_allclose(model.coef_, here.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("registered")
def test_estimators_and_options_know_it():
    model = daskglm.LogisticRegression(solver=NAME, solver_options={"first_step": 1e-2}).fit(X, y)
    assert model.report_.solver == NAME
    with pytest.raises(ValueError, match="first_step=-1 must be a positive number"):
        daskglm.fit(X, y, solver=NAME, solver_options={"first_step": -1})
    with pytest.raises(ValueError, match="does not take polish; it takes first_step"):
        daskglm.fit(X, y, solver=NAME, solver_options={"polish": True})
    with pytest.raises(ValueError, match="needs a smooth loss"):
        daskglm.fit(X, y, solver=NAME, loss="hinge")


@pytest.mark.usefixtures("registered")
def test_a_checkpoint_keeps_its_state(tmp_path):
    with pytest.warns(ConvergenceWarning):
        daskglm.fit(
            X,
            y,
            solver=NAME,
            tol=1e-8,
            max_iter=5,
            checkpoint=tmp_path,
            checkpoint_every=1,
        )
    resumed = daskglm.fit(X, y, solver=NAME, tol=1e-8, resume=tmp_path).report_
    assert resumed.converged
    assert resumed.resumed == 5
    assert resumed.n_iter + 5 <= daskglm.fit(X, y, solver=NAME, tol=1e-8).report_.n_iter + 1


@pytest.mark.parametrize(("cost", "solver"), [(0.0, NAME), (1e9, "newton")])
def test_auto_takes_it_where_it_costs_least(cost, solver):
    register(replace(SPEC, cost=lambda workload: cost))
    try:
        report = daskglm.fit(X, y).report_
    finally:
        unregister(NAME)
    assert report.solver == solver, report.why


def test_a_name_is_given_once():
    before = solver_names()
    with pytest.raises(ValueError, match="there is a solver 'newton' already"):
        register(SolverSpec("newton", barzilai_borwein, max_iter=1))
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        register(SolverSpec("two words", barzilai_borwein, max_iter=1))
    with pytest.raises(ValueError, match="setting='threads' is not one of 'tol'"):
        register(SolverSpec("third", barzilai_borwein, max_iter=1, settings=("threads",)))
    with pytest.raises(ValueError, match=f"solver='{NAME}' is not one of"):
        get_solver(NAME)
    assert solver_names() == before
