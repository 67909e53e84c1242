"""L-BFGS of the softmax: its inverses, its passes, its state."""

import numpy as np
import pytest

from daskglm.core.outcome import Reason
from daskglm.fitting.driver import StoppingRule, solve
from daskglm.solvers import output_lbfgs as module
from daskglm.solvers.output_lbfgs import by_blocks, by_diagonals, output_lbfgs
from tests.kernels.softmax_case import draw
from tests.objectives.test_multinomial import objective_of


def problem(n=800, d=7, *, correlated=0.0, **how):
    X, _, weight, W, _ = draw(n, d)
    X[:, 1:] += correlated * X[:, :1]
    rng = np.random.default_rng(3)
    codes = (X @ W[:, :-1].T + rng.gumbel(size=(n, 4))).argmax(axis=1)
    return objective_of(X * np.logspace(0, 2, d), codes, weight, **how)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_inverses_are_those_of_each_class(intercept, C):
    objective = problem(intercept=intercept, C=C)
    rng = np.random.default_rng(0)
    w, v = 0.01 * rng.normal(size=(2, objective.size))
    blocks = objective.margins.class_blocks(objective, w)
    G = objective.margins.matrix(v)
    expected = np.array([np.linalg.solve(block, g) for block, g in zip(blocks, G, strict=True)])
    found = by_blocks(objective, w)(v)
    np.testing.assert_allclose(found, objective.margins.vector(expected), rtol=1e-4, atol=1e-10)
    diagonals = np.array([np.diag(block) for block in blocks])
    found = by_diagonals(objective, w)(v)
    np.testing.assert_allclose(found, objective.margins.vector(G / diagonals), rtol=1e-9)
    u = rng.normal(size=objective.size)  # symmetric, so that two loops keep it definite
    for form in (by_blocks, by_diagonals):
        inverse = form(objective, w)
        assert u @ inverse(v) == pytest.approx(v @ inverse(u), rel=1e-8)
        assert v @ inverse(v) > 0


def test_blocks_take_fewer_passes_than_diagonals(monkeypatch):
    counts = []
    for most in (2000, 0):
        monkeypatch.setattr(module.costs, "LARGEST_HESSIAN", most)
        objective = problem(correlated=3.0)
        found = solve(
            objective,
            output_lbfgs(objective, np.zeros(objective.size)),
            StoppingRule(1e-8, 500),
        )
        assert found.reason is Reason.CONVERGED
        counts.append(objective.passes)
    assert counts[0] < 0.7 * counts[1]


def test_a_solve_is_resumed_where_it_was():
    objective = problem()
    steps = output_lbfgs(objective, np.zeros(objective.size))
    for _ in range(7):
        iterate = next(steps)
    state = iterate.resume()
    assert state["taken"] == 6
    assert state["steps"].shape == state["changes"].shape == (6, objective.size)
    resumed = output_lbfgs(objective, iterate.point.w, **state)
    assert next(resumed).point.value == pytest.approx(iterate.point.value, rel=1e-12)
    assert next(resumed).point.value < iterate.point.value
