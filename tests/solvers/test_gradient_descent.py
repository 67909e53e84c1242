"""Gradient descent: the steps of the paper, and steps that are too long."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.1, 0.01), (0.01, 0.008)])
@pytest.mark.slow
def test_gd_takes_exactly_the_papers_steps(alpha, epsilon):
    X, y = make_problem(n=300)
    A, t = np.c_[X, np.ones(300)], (y > 0).astype(float)
    w, steps = np.zeros(8), 0
    while True:  # Algorithms 1 and 7: gradient, step, then the test on the gradient just used
        gradient = A.T @ (1 / (1 + np.exp(-A @ w)) - t) / 300
        w, steps = w - alpha * gradient, steps + 1
        if np.linalg.norm(gradient) <= epsilon:
            break
    model = daskglm.fit(
        X,
        y,
        C=np.inf,
        solver="gd",
        tol=0,
        max_iter=100_000,
        solver_options={"step": alpha, "epsilon": epsilon},
    )
    np.testing.assert_allclose(np.r_[model.coef_[0], model.intercept_], w, rtol=1e-9)
    assert model.report_.n_iter == steps
    assert model.report_.converged
    assert "mean gradient" in model.report_.reason
    assert model.report_.passes == steps + 1


def test_gd_with_too_long_a_step_says_that_it_diverged():
    X, y = make_problem(loss="squared")
    with pytest.warns(ConvergenceWarning, match="not finite|max_iter"):
        model = daskglm.fit(
            X * 100, y, loss="squared", solver="gd", max_iter=3000, solver_options={"step": 1.0}
        )
    assert not model.report_.converged
