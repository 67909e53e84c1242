"""The barrier between two thresholds: values at both ends, derivatives, how fast curvature varies."""

import numpy as np
import pytest

from daskglm.losses.ordinal import (
    LOSS,
    barrier,
    barrier_curvature,
    barrier_rate,
    barrier_slope,
)

GAPS = np.concatenate([np.logspace(-12, 2, 60), [0.69, 0.7, 0.71, 300.0]])
LONG = np.longdouble


def test_the_barrier_and_its_derivatives_in_long_double():
    g = GAPS.astype(LONG)
    e = np.expm1(g)
    value = -np.where(g < 1, np.log(-np.expm1(-g)), np.log1p(-np.exp(-g)))
    np.testing.assert_allclose(barrier(GAPS), value.astype(float), rtol=4e-16)
    np.testing.assert_allclose(barrier_slope(GAPS), (-1 / e).astype(float), rtol=1e-14)
    curvature = np.exp(g) / e**2
    np.testing.assert_allclose(barrier_curvature(GAPS), curvature.astype(float), rtol=4e-14)
    third = np.exp(g) * (np.exp(g) + 1) / e**3
    np.testing.assert_allclose(barrier_rate(GAPS), (third / curvature).astype(float), rtol=4e-14)


def test_derivatives_are_those_of_the_value():
    g, h = np.logspace(-1, 1, 9), 1e-5
    slope = (barrier(g + h) - barrier(g - h)) / (2 * h)
    np.testing.assert_allclose(barrier_slope(g), slope, rtol=1e-6)
    curvature = (barrier_slope(g + h) - barrier_slope(g - h)) / (2 * h)
    np.testing.assert_allclose(barrier_curvature(g), curvature, rtol=1e-6)


def test_beyond_the_thresholds_and_far_apart():
    assert barrier(np.array([0.0, -1.0])).tolist() == [np.inf, np.inf]
    assert barrier(np.array([800.0])) == 0.0
    assert barrier_slope(np.array([800.0])) == 0.0
    assert barrier_curvature(np.array([3000.0])) == 0.0


def test_a_barrier_lies_above_the_quadratic_of_its_rate():
    """beta(g + u) >= beta + beta' u + beta'' u^2 h(coth(g / 2) |u|), by which the Hessian proves gaps."""
    for g in np.logspace(-3, 0.5, 40):
        u = np.concatenate([-g * np.linspace(1e-3, 0.999, 50), np.logspace(-3, 2, 80)])
        t = barrier_rate(np.array(g)) * np.abs(u)
        h = np.where(t < 1e-3, 0.5 - t / 6, (np.exp(-t) + t - 1) / t**2)
        base, slope = barrier(np.array(g)), barrier_slope(np.array(g))
        lower = base + slope * u + barrier_curvature(np.array(g)) * u * u * h
        size = 1e-12 * (1 + np.abs(base) + np.abs(slope * u))
        assert (barrier(g + u) >= lower - size).all()
        # and the rate is needed: with three quarters of it the bound fails
        t *= 0.75
        h = np.where(t < 1e-3, 0.5 - t / 6, (np.exp(-t) + t - 1) / t**2)
        lower = base + slope * u + barrier_curvature(np.array(g)) * u * u * h
        assert (barrier(g + u) < lower - size).any()


@pytest.mark.parametrize("z", [-3.0, 0.2, 5.0])
def test_the_record_bounds_two_logistic_terms(z):
    def curvature(m):
        p = 1 / (1 + np.exp(-m))
        return p * (1 - p)

    both = curvature(z - 0.5) + curvature(-0.5 - z)
    assert both <= LOSS.smoothness
    h = 1e-4
    third = (curvature(z + h - 0.5) + curvature(-0.5 - z - h) - both) / h
    assert abs(third) <= LOSS.self_concordance * both
