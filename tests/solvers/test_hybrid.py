"""One solver hands over to another."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.solvers import costs, get_solver
from daskglm.solvers.workload import Workload
from tests.solvers.problems import decaying, problem


def test_newton_takes_over_from_tron_after_its_own_cost(monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    asked = problem(X, y, "squared_hinge", C=1e3)
    known = Workload.of(asked)
    enough = get_solver("newton").cost(known) / known.tron_product
    iterates = get_solver("tron").run(asked, np.zeros(asked.size), automatic=True)
    seen = []
    for iterate in itertools.islice(iterates, 60):
        seen.append((iterate.by, asked.passes))
        if iterate.by == "newton":
            assert iterate.resume() == {"by_newton": True}
    assert [by for by, _ in itertools.groupby(by for by, _ in seen)] == ["", "newton"]
    began = next(spent for by, spent in seen if by == "newton")
    assert enough <= began <= 2.0 * enough + 20.0


def test_tron_that_was_asked_for_goes_on_to_its_end(monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    fit = {"loss": "squared_hinge", "C": 1e3, "fit_intercept": False, "tol": 1e-9}
    found = daskglm.fit(X, y, solver="tron", **fit).report_
    assert found.converged
    assert found.solver == "tron"


def test_a_solve_handed_over_resumes_with_newton(tmp_path, monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: ("tron", "for the test"))
    fit = {"loss": "squared_hinge", "C": 1e3, "fit_intercept": False, "tol": 1e-9}
    whole = daskglm.fit(X, y, **fit)
    assert whole.report_.solver == "tron+newton"
    first = next(
        k for k, record in enumerate(whole.report_.history) if record["solver"] == "newton"
    )
    with pytest.warns(ConvergenceWarning):
        daskglm.fit(X, y, max_iter=first + 1, checkpoint=tmp_path, checkpoint_every=1, **fit)
    resumed = daskglm.fit(X, y, resume=tmp_path, **fit)
    assert resumed.report_.converged
    assert resumed.report_.solver == "newton"
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-4, atol=1e-8)
