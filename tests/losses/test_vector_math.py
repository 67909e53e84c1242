"""exp and log to the last few bits, over the whole range of numbers."""

import math

import numpy as np
import pytest
from numba import njit

from daskglm.losses.vector_math import (
    divergence,
    exp,
    exp_any,
    exp_less_linear,
    exp_remainder,
    linear_less_log,
    linear_less_log1p,
    log,
    twice_artanh,
)


@njit
def each(function, values):
    return np.array([function(value) for value in values])


def test_exp():
    x = np.concatenate([np.linspace(-708.0, 0.0, 20_001), -np.logspace(-300, 0, 301)])
    np.testing.assert_allclose(each(exp, x), np.exp(x), rtol=1e-13)


def test_log():
    x = np.concatenate([np.logspace(-300, 300, 20_001), np.linspace(0.5, 2.0, 10_001)])
    np.testing.assert_allclose(each(log, x), np.log(x), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("s", [0.0, 1e-20, 1e-8, 0.01, 0.1, 1 / 3])
def test_twice_artanh(s):
    assert each(twice_artanh, np.array([s]))[0] == pytest.approx(2.0 * math.atanh(s), rel=1e-14)


def test_exp_of_any_number():
    x = np.concatenate([np.linspace(-708.0, 709.0, 20_001), -np.logspace(-300, 0, 301)])
    np.testing.assert_allclose(each(exp_any, x), np.exp(x), rtol=1e-13)
    found = each(exp_any, np.array([710.0, 1e300, np.inf, -1e300, -np.inf, np.nan]))
    assert (found[:3] == np.inf).all()
    np.testing.assert_allclose(found[3:5], np.exp(-708.0), rtol=1e-13)
    assert np.isnan(found[5])


LONG = np.longdouble
SMALL = np.concatenate([np.logspace(-150, -0.302, 401), -np.logspace(-150, -0.302, 401)])


def test_exp_less_its_linear_part():
    wanted, term = np.zeros(len(SMALL), LONG), np.ones(len(SMALL), LONG)
    for k in range(1, 30):
        term = term * SMALL / k
        wanted += term if k > 1 else 0
    np.testing.assert_allclose(each(exp_remainder, SMALL), wanted.astype(float), rtol=1e-15)
    d = np.concatenate([SMALL, np.linspace(-700, 700, 1401)])
    found = np.array([exp_less_linear(x, math.exp(x)) for x in d])
    assert (found >= 0.0).all()
    wanted = np.concatenate([wanted, np.expm1(LONG(1) * d[len(SMALL) :]) - d[len(SMALL) :]])
    np.testing.assert_allclose(found, wanted.astype(float), rtol=4e-15)


def test_numbers_less_their_logarithms():
    small = SMALL[np.abs(SMALL) < 0.3]
    wanted = sum((LONG(-1)) ** k * (LONG(1) * small) ** k / k for k in range(2, 60))
    np.testing.assert_allclose(each(linear_less_log1p, small), wanted.astype(float), rtol=1e-14)
    u = np.array([-1.0 + 1e-12, -0.9, 0.5, 3.0, 1e9, 1e300])
    wanted = LONG(1) * u - np.log1p(LONG(1) * u)
    np.testing.assert_allclose(each(linear_less_log1p, u), wanted.astype(float), rtol=1e-4)
    x = np.array([1e-290, 1e-9, 0.3, 0.75, 1.0, 1.25, 4.0, 1e300])
    wanted = LONG(1) * x - 1 - np.log(LONG(1) * x)
    np.testing.assert_allclose(each(linear_less_log, x), wanted.astype(float), rtol=1e-14)
    found = each(linear_less_log, np.array([0.0, -1.0, np.nan, np.inf]))
    assert (found[:2] == np.inf).all()
    assert not np.isfinite(found).any()


@pytest.mark.parametrize("p", [1e-300, 1e-12, 1e-3, 0.5, 0.9, 1.0 - 1e-9])
def test_divergence(p):
    s, q = LONG(p), 1 - LONG(p)
    for d in (0.0, 1e-9, -1e-3, 0.3, -0.7, 5.0, -40.0, 300.0, -1e3):
        t = LONG(d)
        if abs(d) <= 1e-3:
            v = s * q
            wanted = v * (t**2 / 2 + (q - s) * t**3 / 6 + (1 - 6 * v) * t**4 / 24)
        elif d > 0:
            wanted = t * q + np.log(s + q * np.exp(-t))
        else:
            wanted = np.log1p(s * np.expm1(t)) - s * t
        found = divergence(p, 1.0 - p, d)
        assert found >= 0.0
        # what cancels in the reference
        size = float(abs(t) * min(s, q)) + (float(t) if d > 0 else 0.0)
        assert found == pytest.approx(float(wanted), rel=1e-8, abs=1e-18 * size)
    assert not np.isfinite(divergence(p, 1.0 - p, np.nan))
