"""The logistic loss of one row, and its best dual variable."""

import math

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
def test_sigma_solves_its_equation_from_any_start(c, q, start):
    p = sigma(c, q, start)
    m = c + q * p
    assert 0.0 <= p <= 1.0
    # an error of p moves the margin by q times that
    assert p == pytest.approx(expit(-m), rel=1e-6, abs=1e-12 + 1e-12 * (abs(c) + q))


def test_constants():
    assert log_odds(3.0, 1.0, 0.0, 0.0) == math.log(3.0)
    assert intercept_radius(1.0, 4.0, 0.0) == math.log(4.0)
    assert intercept_radius(0.0, 4.0, 0.0) == math.inf
    assert LOSS.row(1.0, LOSS.rest_margin, 0.0, 0.0)[0] <= 2.3e-16
