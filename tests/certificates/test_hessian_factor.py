"""Factors of Hessians give Newton's step and its decrement, and prove nothing of singular ones."""

import math

import numpy as np
import pytest

from daskglm.certificates.hessian_factor import HessianFactor


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
