"""One solver hands over to another."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from benchmarks.unseen.problems import raw_counts
from daskglm.core.outcome import Reason
from daskglm.core.requests import SDCAConfig
from daskglm.duals.dual import Dual
from daskglm.solvers import costs, get_solver, hybrid
from daskglm.solvers.workload import Workload
from tests.conftest import make_problem
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


def test_an_ascent_goes_on_where_the_second_method_of_a_hinge_comes_to_rest(monkeypatch):
    """On rcv1_binary one of six orders of rows ended at 1e-5."""
    calls = []

    def at_rest(dual, w, passes, tol, **_):
        calls.append(passes)
        return Reason.STALLED, None
        yield

    monkeypatch.setattr(hybrid, "_second", at_rest)
    monkeypatch.setattr(hybrid, "takes_interior_points", lambda dual: False)
    monkeypatch.setattr(hybrid, "_second_epochs", lambda *_, **__: costs.PROXIMAL_TRON_EPOCHS)
    monkeypatch.setattr(hybrid._Pace, "left", lambda self, tol: 1e9 if len(self.gaps) > 2 else 0.0)
    X, y = make_problem(300, 20)
    model = daskglm.fit(X, y, loss="hinge", solver="sdca", C=0.1, tol=1e-4, random_state=0)
    assert len(calls) == 1
    assert model.report_.converged
    assert model.report_.solver.startswith("sdca")


def test_a_hinge_of_noise_alone_begins_above_zero_and_is_not_lost():
    """Each round came nearer, but proximal points took over, and ended at a gap of 9e-5."""
    X = sp.random(20_000, 4_000, 0.01, format="csr", random_state=0)
    y = np.random.default_rng(1).integers(0, 2, X.shape[0])
    above = []
    how = {"loss": "hinge", "tol": 1e-5, "random_state": 0}
    zero = 20_000 * 1.0  # the loss at w = 0
    report = daskglm.fit(
        X, y, callback=lambda r: above.append(r["objective"] > zero), **how
    ).report_
    assert sum(above) >= 5
    assert report.converged
    assert report.solver == "sdca"
    assert report.passes < 500


def test_a_squared_hinge_on_many_features_is_left_to_the_steps_of_its_ascent():
    """TRON, to which it went after three epochs, took ten times the passes."""
    X, y = raw_counts(6_000, 5)
    how = {"loss": "squared_hinge", "random_state": 0}
    report, tron = (daskglm.fit(X, y, **how, solver=s).report_ for s in ("auto", "tron"))
    assert report.converged
    assert report.solver == "sdca"
    assert report.passes < 0.3 * tron.passes
    assert report.objective == pytest.approx(tron.objective, rel=2e-6)


def test_tron_takes_over_from_steps_where_it_is_foreseen_to_end_before():
    """The ascent alone took 194 passes of such rows, whose spectrum decays."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2100)) / np.arange(1, 2101)
    y = X @ rng.normal(size=2100) + 0.3 * rng.normal(size=1500) > 0.0
    how = {"loss": "squared_hinge", "C": 10.0, "random_state": 0, "solver": "sdca"}
    report = daskglm.fit(X, y, **how).report_
    alone = daskglm.fit(X, y, solver_options={"polish": False}, **how).report_
    assert report.converged
    assert report.solver == "sdca+tron"
    assert report.passes < 0.6 * alone.passes


@pytest.mark.parametrize("near", [False, True])
def test_a_second_method_does_not_begin_far_out(near):
    """28,976 rows of 102,597 features took 336 passes from a lower value far out, 83 from zero."""
    objective = problem(*make_problem(300, 20), "logistic", C=1.0)
    dual = Dual(objective, np.zeros(objective.size), SDCAConfig(), 0)
    dual.start_point()
    dual.value = math.inf  # whatever the value is there
    w = np.full(objective.size, 1e3)
    first = next(hybrid._second(dual, w, math.inf, 0.0, near=near)).point
    assert np.array_equal(first.w, w if near else dual.kept)


def test_tron_after_an_ascent_hands_over_to_newton(monkeypatch):
    """804 x 1,012 squared hinges took 47,199 passes, Newton's method the time of 12,000."""
    monkeypatch.setattr(hybrid, "_finisher", lambda objective: "tron")
    monkeypatch.setattr(hybrid, "newton_cost", lambda workload: 2.0)
    monkeypatch.setattr(hybrid._Pace, "left", lambda self, tol: 1e9 if len(self.gaps) > 2 else 0.0)
    X, y = make_problem(300, 20)
    model = daskglm.fit(X, y, loss="logistic", solver="sdca", C=100.0, random_state=0)
    assert model.report_.converged
    assert model.report_.solver == "sdca+tron+newton"


@pytest.mark.parametrize("proved", [False, True])
def test_a_point_of_which_nothing_is_proved_is_left(proved):
    objective = problem(*make_problem(300, 20), "logistic", C=1.0)
    dual = Dual(objective, np.zeros(objective.size), SDCAConfig(), 0)
    dual.start_point()
    w = daskglm.fit(
        *make_problem(300, 20), C=0.01, fit_intercept=False
    ).coef_.ravel()  # the way there
    dual.gap = (0.9 if proved else 1.1) * objective.at(w).value
    first = next(hybrid._second(dual, w, math.inf, 0.0, near=False)).point
    assert np.array_equal(first.w, w if proved else dual.kept)
