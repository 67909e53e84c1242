"""Pairs of conjugate gradients as a preconditioner."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.solvers import costs, get_solver
from daskglm.solvers.linear_systems import DenseMetric, Diagonal, inverse_times, pair_of
from daskglm.solvers.secant_pairs import QuasiNewton, SecantPairs
from tests.solvers.problems import decaying, problem


def positive(rng, n):
    square = rng.standard_normal((n, n))
    return square @ square.T + np.eye(n)


@pytest.mark.parametrize("full", [False, True])
def test_it_is_the_matrix_of_the_two_loops(full):
    rng = np.random.default_rng(0)
    hessian = positive(rng, 30)
    M = DenseMetric(positive(rng, 30)) if full else Diagonal(rng.uniform(1.0, 9.0, 30))
    steps = rng.standard_normal((7, 30))
    found = QuasiNewton(M, steps, steps @ hessian)
    pairs = [pair_of(s, hessian @ s, M.solve) for s in steps]
    if full:  # not scaled down
        pairs = [pair._replace(scale=1.0) for pair in pairs]
    for v in rng.standard_normal((3, 30)):
        np.testing.assert_allclose(found.solve(v), inverse_times(pairs, M.solve, v), rtol=1e-9)


def test_a_system_of_known_directions_is_solved():
    rng = np.random.default_rng(1)
    hessian = positive(rng, 30)
    steps = np.linalg.eigh(hessian)[1].T[:7]
    known = QuasiNewton(Diagonal(np.ones(30)), steps, steps @ hessian)
    v = rng.standard_normal(7) @ steps
    np.testing.assert_allclose(hessian @ known.solve(v), v, atol=1e-9)


def test_they_save_products(monkeypatch):
    X, y = decaying(3_000, 200)
    options = {"C": 30.0, "solver": "tron", "tol": 1e-8}
    found = daskglm.fit(X, y, **options).report_
    monkeypatch.setattr(costs, "MOST_PAIRS", 0)
    without = daskglm.fit(X, y, **options).report_
    assert found.converged
    assert without.converged
    assert found.passes < 0.8 * without.passes
    assert found.objective == pytest.approx(without.objective, rel=1e-8)


def kept(X, y):
    steps = get_solver("tron").run(problem(X, y), np.zeros(X.shape[1]))
    return [next(steps).resume() for _ in range(3)][-1].get("steps")


def test_none_are_kept_where_they_are_much_beside_the_rows():
    rng = np.random.default_rng(3)
    X = sp.random(400, 30_000, 0.0005, "csr", rng=rng)
    assert kept(X, np.where(rng.uniform(size=400) < 0.5, 1.0, -1.0)) is None
    assert kept(*decaying(3_000, 200)).shape[1] == 200


def test_pairs_without_curvature_are_not_kept():
    pairs = SecantPairs(problem(*decaying(3_000, 200)))
    pairs.learn(np.ones(200), np.zeros(200))
    pairs.learn(np.eye(200)[0], np.eye(200)[1])
    assert pairs.state() == {}
