"""Iterations left are foreseen from the rate of the last error bounds."""

import math

import numpy as np
import pytest

from daskglm.solvers.forecast import iterations_left, relative_error
from tests.solvers.problems import make_objective


@pytest.mark.parametrize(
    ("errors", "tol", "left"),
    [
        ([10.0**-k for k in range(7)], 1e-9, 3.0),
        ([1e3] + [10.0**-k for k in range(6)], 1e-6, 1.0),  # only the last five steps count
        ([1.0, 1e-7], 1e-6, 0.0),
        ([1.0] * 10, 1e-6, math.inf),
        ([1.0, 0.1], 1e-6, math.inf),
        ([10.0**-k for k in range(7)], 0.0, math.inf),
        ([], 1e-6, math.inf),
        ([math.inf] + [10.0**-k for k in range(5)], 1e-6, math.inf),  # a rate of infinity is none
        ([math.nan] + [10.0**-k for k in range(5)], 1e-6, math.inf),
        ([10.0**-k for k in range(6)] + [math.nan], 1e-6, math.inf),
    ],
)
def test_the_rate_of_the_last_steps_goes_on(errors, tol, left):
    assert iterations_left(errors, tol) == pytest.approx(left)


@pytest.mark.parametrize("C", [1.0, math.inf])
def test_the_relative_error_is_a_bound_or_the_share_of_the_first_gradient(C):
    objective = make_objective(C=C, intercept=False)
    point = objective.at(np.zeros(objective.size))
    found = relative_error(objective, point, 2.0 * point.gradient_norm)
    if math.isinf(C):
        assert found == pytest.approx(0.5)
    else:
        least = point.value - 0.5 * point.gradient_norm**2  # of a 1-strongly convex function
        assert found >= 1.0 - least / point.value - 1e-12
