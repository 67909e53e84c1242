"""exp and log to the last few bits, over the whole range of numbers."""

import math

import numpy as np
import pytest
from numba import njit

from daskglm.losses.vector_math import exp, log, twice_artanh


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
