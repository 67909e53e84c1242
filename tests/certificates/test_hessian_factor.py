"""Factors of Hessians give Newton's step and its decrement, and prove nothing of singular ones."""

import math

import numpy as np
import pytest

from daskglm.certificates.hessian_factor import CentredTriangle, HessianFactor, Triangle


def matrix(n=6, scale=1.0, seed=0):
    A = np.random.default_rng(seed).normal(size=(20, n)) * np.logspace(0, scale, n)
    return A.T @ A


def test_step_and_decrement_are_those_of_the_inverse():
    H, g = matrix(scale=3.0), np.arange(1.0, 7.0)
    factor = HessianFactor.of(H, 1e-15)
    step, square = factor.step(g)
    np.testing.assert_allclose(step, -np.linalg.solve(H, g), rtol=1e-9)
    assert square == pytest.approx(g @ np.linalg.solve(H, g))
    assert factor.proves
    assert math.sqrt(square) <= factor.decrement(g) <= 1.001 * math.sqrt(square)
    inverse = np.diag(np.linalg.inv(H))
    assert (factor.roots >= np.sqrt(inverse) * (1 - 1e-12)).all()
    assert factor.root_trace**2 == pytest.approx(inverse.sum(), rel=1e-3)


def test_singular_and_inexact_hessians_prove_nothing():
    H = matrix()
    H[:, 1] = H[:, 0]
    H[1] = H[0]
    for factor in (HessianFactor.of(H, 0.0), HessianFactor.of(matrix(), 0.3)):
        assert not factor.proves
        assert factor.decrement(np.ones(6)) == math.inf
    steps = HessianFactor.for_steps(H, 0.0, np.zeros(6))
    assert np.isfinite(steps.step(np.ones(6))[0]).all()
    assert not steps.proves


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan])
def test_a_hessian_that_has_overflowed_proves_nothing(far):
    H = matrix()
    H[1, :] = H[:, 1] = far
    factor = HessianFactor.of(H, 1e-15)
    assert not factor.proves
    assert math.isinf(factor.decrement(np.ones(6)))


def far_from_zero(n=6, rows=400, mean=1e5, seed=0):
    """Return a Hessian of columns with large means and an intercept, and the exact one's parts.

    These are the means, and the Hessian of centred columns, both rounded last.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, n))
    X[:, ::2] += mean
    A = np.hstack([X, np.ones((rows, 1))])
    exact = X.astype(np.longdouble)
    means = exact.mean(axis=0)
    centred = exact - means
    return A.T @ A, means, np.asarray(centred.T @ centred, dtype=float)


def test_columns_far_from_zero_are_centred():
    H, means, centred = far_from_zero()
    rows, error = 400, 400 * 2.0**-53
    factor = HessianFactor.of(H, error)
    assert factor.proves
    rng = np.random.default_rng(1)
    for _ in range(20):
        g = rng.standard_normal(7)
        pull = np.asarray(g[:-1].astype(np.longdouble) - means * g[-1], dtype=float)
        true = math.sqrt(pull @ np.linalg.solve(centred, pull) + g[-1] ** 2 / rows)
        assert true <= factor.decrement(g) <= 1.2 * true
        step, square = factor.step(g)
        np.testing.assert_allclose(step[:-1], -np.linalg.solve(centred, pull), rtol=1e-4)
        assert math.sqrt(square) == pytest.approx(true, rel=1e-4)
        twice = factor.times(4.0)
        assert twice.decrement(g) == pytest.approx(0.5 * factor.decrement(g))
    inverse = np.diag(np.linalg.inv(centred))
    assert (factor.roots[:-1] >= np.sqrt(inverse) * (1 - 1e-9)).all()
    last = np.asarray(means, dtype=float)
    assert factor.roots[-1] >= math.sqrt(last @ np.linalg.solve(centred, last) + 1 / rows) * 0.999


def test_errors_of_entries_count_as_much_as_columns_are_far():
    H, _, _ = far_from_zero()
    near, _, _ = far_from_zero(mean=0.0)
    # entries of 1e10 are off by 1e-8 of them: more than what the columns vary by
    assert not HessianFactor.of(H, 1e-8).proves
    assert HessianFactor.of(near, 1e-8).proves
    assert HessianFactor.of(H, 1e-14).is_doubtful(1e-10)
    assert not HessianFactor.of(near, 1e-14).is_doubtful(1e-10)


def test_the_factor_that_leaves_less_doubt_is_taken():
    """A row at an end of its margins has nearly all the curvature: less it little is left."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30, 7)), np.ones(30)])
    hessian = 2.0 * X.T @ X + 5e10 * np.outer(X[0], X[0])
    found = HessianFactor.of(hessian, 3e-14)
    assert isinstance(found.factor, Triangle)
    assert found.proves
    X[:, :3] += 1e5
    assert isinstance(HessianFactor.of(X.T @ X, 1e-16).factor, CentredTriangle)
