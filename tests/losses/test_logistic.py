"""The logistic loss of one row, and its best dual variable."""

import math

import numpy as np
import pytest
from scipy.special import expit

from daskglm.losses.logistic import LOSS, intercept_radius, log_odds, sigma


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("z", [-700.0, -40.0, -1.5, 0.0, 1e-9, 3.0, 40.0, 700.0])
def test_value_slope_and_curvature(y, z):
    value, slope, curvature = LOSS.row(y, z, 0.0, 0.0)
    assert value == pytest.approx(math.log1p(math.exp(-y * z)) if y * z > -700 else -y * z)
    assert slope == pytest.approx(-y * expit(-y * z), rel=1e-14)
    assert curvature == pytest.approx(expit(z) * expit(-z), rel=1e-14)


@pytest.mark.parametrize("z", [math.nan, math.inf, -math.inf])
def test_a_margin_that_is_not_finite_is_seen_in_the_value(z):
    assert not math.isfinite(LOSS.row(1.0, z, 0.0, 0.0)[0])


@pytest.mark.parametrize("q", [0.0, 1e-3, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("c", [-1e3, -2.0, 0.0, 5.0, 1e3])
@pytest.mark.parametrize("start", [-5.0, 0.0, 5.0])
def test_the_best_dual_variable_gains_as_much_as_any_other(c, q, start):
    def dual(p):  # of one row whose other variables are fixed, up to a constant
        return -LOSS.dual.conjugate(1.0, p, 0.0, 0.0) - c * p - 0.5 * q * p * p

    best = sigma(c, q, start)
    assert 0.0 <= best <= 1.0
    size = abs(c) + q + 1.0
    for p in [*np.linspace(0.0, 1.0, 21), best * 0.99, best + 0.01 * (1.0 - best)]:
        # INNER stops Newton's method where the error is a quarter of the move
        assert dual(best) >= dual(p) - 0.02 * abs(dual(p) - dual(expit(-start))) - 1e-9 * size


def test_constants():
    assert log_odds(3.0, 1.0, 0.0, 0.0) == math.log(3.0)
    assert intercept_radius(1.0, 4.0, 0.0) == math.log(4.0)
    assert intercept_radius(0.0, 4.0, 0.0) == math.inf
    assert LOSS.row(1.0, LOSS.rest_margin, 0.0, 0.0)[0] <= 2.3e-16
