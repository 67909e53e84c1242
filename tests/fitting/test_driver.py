"""The driver returns the lowest point that was evaluated, whatever a solver does in between."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.fitting.driver import StoppingRule, solve
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import Iterate
from tests.conftest import make_problem

X, y = make_problem(300, 4)
LOSS = LOSSES["logistic"]


@pytest.fixture
def problem():
    """Logistic regression without an intercept."""
    engine = Local([to_block(X, y, place=Place(), classify=True)], 1)
    yield Objective(engine, Problem(LOSS.ref, 1.0), LOSS, C=1.0, fit_intercept=False)
    engine.close()


def iterates_at(problem, *ws, reason=Reason.NO_PROGRESS):
    for w in ws:
        yield Iterate(problem.at(np.asarray(w, dtype=float)))
    return reason


def found(problem, *ws, zero=None, **keywords):
    iterates = iterates_at(problem, *ws)
    return solve(problem, iterates, StoppingRule(1e-12, 100), zero=zero, **keywords)


GOOD, BAD = 1e-3 * X.T @ y, np.full(4, 50.0)


def test_a_solver_that_ends_worse_than_it_was(problem):
    solution = found(problem, np.zeros(4), GOOD, BAD)
    np.testing.assert_array_equal(solution.point.w, GOOD)
    assert solution.relative_gap == solution.history[1]["relative_gap"]
    assert solution.history[-1]["objective"] > solution.point.value


def test_zero_is_returned_where_nothing_lower_was_seen(problem):
    zero = problem.at(np.zeros(4))
    solution = found(problem, BAD, 2 * BAD, zero=zero)
    assert not solution.point.w.any()
    assert solution.point.value == zero.value
    assert solution.gradient_ratio == 1.0


def test_values_that_are_none_are_never_the_best(problem):
    def diverging():
        yield Iterate(problem.at(GOOD))
        yield Iterate(replace(problem.at(BAD), value=math.nan))
        return Reason.NO_PROGRESS

    solution = solve(problem, diverging(), StoppingRule(1e-12, 100))
    assert solution.reason is Reason.NOT_FINITE
    np.testing.assert_array_equal(solution.point.w, GOOD)


def test_estimates_are_never_the_best_but_what_they_turn_out_to_be_counts(problem):
    true = problem.at(BAD)

    def dual(value):
        estimate = replace(
            problem.at(BAD), value=value, gap=0.0, certify=lambda: replace(true, gap=true.value)
        )
        yield Iterate(problem.at(GOOD))
        yield Iterate(estimate)
        return Reason.STALLED

    for value in (0.0, math.inf):
        solution = solve(problem, dual(value), StoppingRule(1e-12, 100))
        np.testing.assert_array_equal(solution.point.w, GOOD)
        assert not solution.reason.converged


def test_of_points_that_rounding_tells_apart_the_one_with_the_smaller_bound(problem):
    best = daskglm.fit(X, y, fit_intercept=False, tol=1e-13, solver="newton").coef_[0]

    def level():
        near, far = problem.at(best), problem.at(best + 1e-8)
        yield Iterate(near)
        yield Iterate(replace(far, value=near.value * (1 - 1e-15)))
        return Reason.NO_PROGRESS

    np.testing.assert_array_equal(solve(problem, level(), StoppingRule(0.0, 100)).point.w, best)


@pytest.mark.parametrize(("by_default", "made"), [(True, 250), (False, 100)])
def test_a_solver_that_takes_over_has_its_own_default_of_iterations(problem, by_default, made):
    """Dual ascent may make 1,000, where proximal Newton that began may make 100."""

    def falling():
        point = problem.at(GOOD)
        for k in range(251):
            by = "sdca" if k > 3 else ""
            yield Iterate(replace(point, value=point.value * (2.0 - k / 1000)), by=by)
        return Reason.NO_PROGRESS

    solution = solve(problem, falling(), StoppingRule(1e-12, 100, by_default=by_default))
    assert len(solution.history) - 1 == made
    assert solution.reason is (Reason.NO_PROGRESS if by_default else Reason.MAX_ITER)


def test_gradient_descent_with_a_step_too_long():
    for step in (1e-1, 1e3, 1e12):
        with pytest.warns(ConvergenceWarning):
            report = daskglm.fit(
                X * 1e3, y, solver="gd", max_iter=30, solver_options={"step": step}
            ).report_
        assert report.objective <= 300 * math.log(2) * (1 + 1e-12)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "sdca"])
@pytest.mark.parametrize("max_iter", [1, 3])
def test_a_stopped_fit_from_a_bad_start_is_not_above_zero(solver, max_iter):
    with pytest.warns(ConvergenceWarning):
        model = daskglm.fit(
            X,
            y,
            solver=solver,
            tol=1e-14,
            max_iter=max_iter,
            warm_start=(np.full((1, 4), 1e4), 1e4),
            random_state=0,
        )
    assert model.report_.objective <= 300 * math.log(2) * (1 + 1e-12)
