"""One solver hands over to another."""

import itertools
import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.solvers import costs, get_solver
from daskglm.solvers.workload import Workload
from tests.solvers.problems import decaying, problem


def test_lbfgs_hands_over_once_others_are_expected_to_end_sooner(monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "HAND_OVER", 0.0)
    asked = problem(X, y, "squared_hinge", C=1e3)
    iterates = get_solver("lbfgs").run(asked, np.zeros(asked.size), automatic=True)
    seen = []
    for iterate in itertools.islice(iterates, 60):
        seen.append(iterate.by)
        if iterate.by == "newton" and iterate.resume():
            assert iterate.resume() == {"by_newton": True}
    assert [by for by, _ in itertools.groupby(seen)] == ["", "newton"]
    assert seen.count("") == costs.SEEN_ITERATIONS + 1


def test_tron_takes_over_first_and_newton_after_its_own_cost(monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "HAND_OVER", 0.0)
    monkeypatch.setattr("daskglm.solvers.hybrid.newton_from_here", lambda *_: math.inf)
    asked = problem(X, y, "squared_hinge", C=1e3)
    certain = get_solver("newton").cost(Workload.of(asked))
    iterates = get_solver("lbfgs").run(asked, np.zeros(asked.size), automatic=True)
    seen = [(iterate.by, asked.passes) for iterate in itertools.islice(iterates, 60)]
    assert [by for by, _ in itertools.groupby(by for by, _ in seen)] == ["", "tron", "newton"]
    began = next(spent for by, spent in seen if by == "newton")
    assert certain <= began <= 2.0 * certain + 20.0


def test_lbfgs_goes_on_where_its_end_is_nearer_than_that_of_the_next_method(monkeypatch):
    X, y = decaying(3000, 40, 0.1)
    monkeypatch.setattr("daskglm.solvers.hybrid.newton_from_here", lambda *_: math.inf)
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: ("lbfgs", "for the test"))
    found = daskglm.fit(X, y, fit_intercept=False).report_
    assert found.solver == "lbfgs"
    assert found.n_iter > costs.SEEN_ITERATIONS
    monkeypatch.setattr(costs, "HAND_OVER", 0.0)
    assert daskglm.fit(X, y, fit_intercept=False).report_.solver != "lbfgs"


def test_lbfgs_hands_over_where_its_rate_slows_down():
    """Eigenvalues that decay: 158 iterations where TRON took 81 products."""
    X, y = decaying(4_000, 100, 1.2)
    fit = {"C": 30.0, "fit_intercept": False}
    alone = daskglm.fit(X, y, solver="lbfgs", **fit).report_
    objective = problem(X, y, C=30.0)
    iterates = get_solver("lbfgs").run(objective, objective.origin, automatic=True)
    stages = {iterate.by for iterate in itertools.islice(iterates, alone.n_iter)}
    assert stages & {"tron", "newton"}


def test_a_solve_handed_over_resumes_with_newton(tmp_path, monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "HAND_OVER", 0.0)
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: ("lbfgs", "for the test"))
    fit = {"loss": "squared_hinge", "C": 1e3, "fit_intercept": False, "tol": 1e-9}
    whole = daskglm.fit(X, y, **fit)
    assert whole.report_.solver == "lbfgs+newton"
    first = next(
        k for k, record in enumerate(whole.report_.history) if record["solver"] == "newton"
    )
    with pytest.warns(ConvergenceWarning):
        daskglm.fit(X, y, max_iter=first + 1, checkpoint=tmp_path, checkpoint_every=1, **fit)
    resumed = daskglm.fit(X, y, resume=tmp_path, **fit)
    assert resumed.report_.converged
    assert resumed.report_.solver == "newton"
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-4, atol=1e-8)
