"""The quadratic penalty with a matrix against its definition, and against `Ridge`."""

import numpy as np
import pytest

from daskglm.penalties.config import PenaltyConfig
from daskglm.penalties.ridge import Ridge
from daskglm.penalties.tikhonov import Tikhonov, part

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((4, 4))
P = ROOT @ ROOT.T


@pytest.mark.parametrize("size", [4, 5])
def test_value_and_derivatives(size):
    penalty, w, v = Tikhonov(4, P), RNG.standard_normal(size), RNG.standard_normal(size)
    assert penalty.value(w) == pytest.approx(0.5 * w[:4] @ P @ w[:4], rel=1e-14)
    np.testing.assert_allclose(penalty.gradient(w)[:4], P @ w[:4], rtol=1e-14)
    value, gradient = penalty.value_and_gradient(w)
    assert value == penalty.value(w)
    np.testing.assert_array_equal(gradient, penalty.gradient(w))
    np.testing.assert_allclose(penalty.hessian_vector(v)[:4], P @ v[:4])
    np.testing.assert_array_equal(penalty.diagonal(size)[:4], np.diag(P))
    assert size == 4 or penalty.gradient(w)[4] == penalty.diagonal(size)[4] == 0.0
    H = RNG.standard_normal((size, size))
    whole = H.copy()
    penalty.add_to(whole)
    np.testing.assert_array_equal(whole[:4, :4], H[:4, :4] + P)
    np.testing.assert_array_equal(whole[4:], H[4:])
    np.testing.assert_array_equal(whole[:, 4:], H[:, 4:])


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_curvature_is_within_its_bounds(rank):
    matrix = ROOT[:, :rank] @ ROOT[:, :rank].T
    penalty, values = Tikhonov(4, matrix), np.linalg.eigvalsh(matrix)
    assert penalty.largest >= values[-1]
    assert penalty.strong_convexity <= max(values[0], 0.0)
    if rank < 4:
        assert penalty.strong_convexity == 0.0  # not what rounding has made of zero
    else:
        assert penalty.strong_convexity == pytest.approx(values[0], rel=1e-10)


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_rounding_of_eigenvalues_makes_no_penalty_stronger(least):
    rng = np.random.default_rng(0)
    for d in range(2, 21):
        root = rng.integers(-9, 10, (d, d - 1)).astype(float)  # products of integers are exact
        told = Tikhonov(d, root @ root.T + least * np.eye(d)).strong_convexity
        assert max(least - 1e-10, 0.0) <= told <= least


def test_a_diagonal_matrix_is_a_ridge():
    strengths = np.array([1.0, 0.0, 3.0, 0.5])
    matrix, ridge = Tikhonov(4, np.diag(strengths)), Ridge(4, strengths)
    w = RNG.standard_normal(5)
    assert matrix.value(w) == pytest.approx(ridge.value(w), rel=1e-14)
    np.testing.assert_allclose(matrix.gradient(w), ridge.gradient(w))
    some = np.array([0, 2])
    assert matrix.restricted(some).value(w[:2]) == pytest.approx(
        ridge.restricted(some).value(w[:2])
    )


def test_restricted_is_the_value_where_others_are_zero():
    penalty, some = Tikhonov(4, P), np.array([1, 3])
    w = np.array([0.0, 1.0, 0.0, -2.0, 9.0])
    assert penalty.restricted(some).value(w[[1, 3, 4]]) == pytest.approx(penalty.value(w))


def test_the_part_is_of_scaled_coefficients():
    given = PenaltyConfig(l1_ratio=0.5, P2=P).for_features(4, None)
    scale, w = np.array([1.0, 2.0, 0.5, 3.0]), RNG.standard_normal(4)
    penalty = part(given, scale, 0.5)
    assert penalty.value(w) == pytest.approx(0.25 * (scale * w) @ P @ (scale * w), rel=1e-13)
    assert part(PenaltyConfig().for_features(4, None), scale, 1.0) is None
