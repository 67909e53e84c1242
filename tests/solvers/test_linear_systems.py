"""Newton steps of singular and badly scaled Hessians."""

import numpy as np
import pytest

from daskglm.solvers.linear_systems import expected_fall, newton_step


def test_newton_step_on_singular_and_badly_scaled_hessians():
    H = np.array([[2.0, 2.0, 0], [2.0, 2.0, 0], [0, 0, 0]])
    step = newton_step(H, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(H @ step, [-1.0, -1.0, 0.0], atol=1e-12)
    scale = np.array([1e-8, 1.0, 1e8])
    A = np.random.default_rng(0).standard_normal((9, 3)) * scale
    np.testing.assert_allclose(
        newton_step(A.T @ A, scale) * scale,
        -np.linalg.solve((A / scale).T @ (A / scale), np.ones(3)),
        rtol=1e-8,
    )


@pytest.mark.parametrize("H", [np.eye(2), np.ones((2, 2))], ids=["regular", "singular"])
def test_the_expected_fall_is_half_the_squared_decrement_and_infinite_where_it_overflows(H):
    gradient = np.array([3.0, 3.0])
    step = np.linalg.lstsq(H, gradient, rcond=None)[0]
    assert expected_fall(4.0 * H, gradient) == pytest.approx(0.125 * gradient @ step, rel=1e-12)
    assert expected_fall(1e-300 * H, 1e200 * gradient) == np.inf
    assert expected_fall(H * [[np.inf, 1.0], [1.0, 1.0]], gradient) == np.inf
    # a slope along which the Hessian is flat is not overlooked
    assert expected_fall(np.diag([1.0, 0.0]), np.array([0.0, 1.0])) > 1e14
