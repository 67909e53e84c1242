"""Several problems with kinks, each at its own pace, by shared passes."""

import math

import numpy as np
import pytest

from daskglm.fitting.driver import StoppingRule, solve
from daskglm.objectives.carried_point import carried
from daskglm.objectives.many import Place, Trial
from daskglm.solvers import batched_proximal_newton as together
from daskglm.solvers.proximal_newton import proximal_newton
from tests.objectives.test_many import Case, D

TOL = 1e-12


def work(case, fold, strength, *, w=None, tol=TOL, max_iter=50):
    objective = case.shared_objective(fold, strength)
    w = objective.origin if w is None else w
    return together.shared_newton(objective, Place(fold), w, tol=tol, max_iter=max_iter)


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_solutions_are_those_of_solves_alone_and_passes_those_of_the_longest(name):
    case = Case(name)
    kinds = [(fold, strength) for fold in (0, 1, -1) for strength in (0.1, 3.0, 30.0)]
    before = case.rows.passes
    seen, trials = [], [0] * len(kinds)

    def counted(k):
        solve = work(case, *kinds[k])
        trial = next(solve)
        while True:
            trials[k] += 1
            try:
                trial = solve.send((yield trial))
            except StopIteration as end:
                return end.value

    solves = [counted(k) for k in range(len(kinds))]
    found = together.solve_together(case.rows, solves, lambda points: seen.append(len(points)))
    passes = case.rows.passes - before
    assert passes == len(seen) == max(trials)
    assert sum(seen) == sum(trials)
    assert all(each.steps < count for each, count in zip(found, trials, strict=True))
    alone = 0.0
    for (fold, strength), each in zip(kinds, found, strict=True):
        assert each.solved
        assert each.point.relative_gap <= TOL
        objective = case.objective(fold, strength)
        iterates = proximal_newton(objective, objective.origin, tol=TOL)
        solution = solve(objective, iterates, StoppingRule(TOL, 50))
        np.testing.assert_allclose(each.point.w, solution.point.w, atol=1e-6)
        assert each.point.value == pytest.approx(solution.point.value, rel=2 * TOL)
        alone += objective.passes
    assert passes < 0.4 * alone


def test_a_point_that_is_known_takes_no_pass():
    case = Case("poisson")
    (found,) = together.solve_together(case.rows, [work(case, 0, 1.0)])
    before = case.rows.passes
    objective = case.shared_objective(0, 1.0)
    start = carried(found.point, objective)
    again = together.shared_newton(objective, Place(0), start.w, tol=TOL, max_iter=5, begin=start)
    (same,) = together.solve_together(case.rows, [again])
    assert case.rows.passes == before
    assert same.solved
    assert same.steps == 0


def test_steps_that_are_too_long_are_shortened(monkeypatch):
    """Where means are far too small, Newton's step leads to means that are far too large."""
    case = Case("poisson")
    w = np.zeros(D + 1)
    w[-1] = -1.5
    asked = []
    evaluate = together.evaluate_together

    def counted(rows, trials):
        asked.extend(trials)
        return evaluate(rows, trials)

    monkeypatch.setattr(together, "evaluate_together", counted)
    (found,) = together.solve_together(case.rows, [work(case, 0, 0.1, w=w)])
    assert found.solved
    assert len(asked) > found.steps + 1
    (straight,) = together.solve_together(case.rows, [work(case, 0, 0.1)])
    np.testing.assert_allclose(found.point.w, straight.point.w, atol=1e-6)


@pytest.mark.parametrize("intercept", [-40.0, 800.0])
def test_what_shared_steps_do_not_solve_is_given_up(intercept):
    case = Case("poisson")
    w = np.zeros(D + 1)
    w[-1] = intercept
    hopeless, other = together.solve_together(
        case.rows, [work(case, 0, 0.1, w=w), work(case, 1, 0.1)]
    )
    assert not hopeless.solved
    assert np.isfinite(hopeless.point.w).all()
    assert other.solved


def test_a_proof_that_rounding_hides_is_given_up():
    case = Case("poisson", dtype=np.float32)
    (found,) = together.solve_together(case.rows, [work(case, 0, 1.0, tol=1e-26)])
    assert not found.solved
    assert 0.0 < found.point.relative_gap < 1e-10


def test_max_iter_ends_a_solve():
    case = Case("poisson")
    (found,) = together.solve_together(case.rows, [work(case, 0, 0.1, max_iter=1)])
    assert found.steps == 1
    assert not found.solved


def test_no_more_hessians_are_asked_for_than_memory_holds(monkeypatch):
    case = Case("poisson")
    kinds = [(fold, strength) for fold in (0, 1) for strength in (0.1, 1.0, 10.0)]
    whole = together.solve_together(case.rows, [work(case, *kind) for kind in kinds])
    at_once = case.rows.passes
    monkeypatch.setattr(together, "hessians_at_once", lambda size: 2)
    seen = []
    parts = together.solve_together(
        case.rows, [work(case, *kind) for kind in kinds], lambda points: seen.append(len(points))
    )
    assert max(seen) == 2
    assert case.rows.passes - at_once > 2 * at_once
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a.point.w, b.point.w, atol=1e-9)


def test_solves_that_want_nothing_return_at_once():
    def at_once():
        return 7
        yield Trial(None, Place(0), np.zeros(1))

    case = Case("poisson")
    assert together.solve_together(case.rows, [at_once(), at_once()]) == [7, 7]
    assert case.rows.passes == 0.0
    assert math.isfinite(case.rows.passes)
