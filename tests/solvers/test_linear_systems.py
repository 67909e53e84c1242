"""Newton steps of singular and badly scaled Hessians."""

import numpy as np

from daskglm.solvers.linear_systems import newton_step


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
