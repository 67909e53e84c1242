"""Negative binomial of one row, over many dispersions."""

import numpy as np
import pytest
from scipy import stats

from daskglm.losses.negative_binomial import LOSS
from daskglm.losses.poisson import LOSSES as POISSON
from tests.losses import checks

THETAS = [1e-6, 0.01, 0.5, 1.0, 30.0]
COUNTS = [0.0, 0.3, 1.0, 7.0, 1e9]


def test_formulas():
    checks.check_extremes(LOSS, COUNTS)
    for theta in THETAS:
        loss = LOSS.with_parameter(theta)
        checks.check_derivatives(loss, [0.0, 0.3, 7.0])
        checks.check_fisher(loss, [0.0, 3.0])
    loss = LOSS.with_parameter(0.5)
    checks.check_log_density(
        loss, lambda y, mu: stats.nbinom.logpmf(y, 2.0, 1 / (1 + 0.5 * mu)), [0.0, 1.0, 5.0]
    )


@pytest.mark.parametrize("theta", THETAS)
def test_digits_near_the_least_value(theta):
    def exact(y, d):
        t = checks.LONG(theta)
        p, q = t * y / (1 + t * y), 1 / (1 + t * y)
        if abs(d) < 1e-3:
            kl = p * q * (d**2 / 2 + (q - p) * d**3 / 6 + (1 - 6 * p * q) * d**4 / 24)
        else:
            s, e = (p, d) if p < q else (q, -d)
            kl = np.log1p(s * np.expm1(e)) - s * e
        return (y + 1 / t) * kl

    checks.check_near_the_least_value(LOSS.with_parameter(theta), exact, [1e-3, 1.0, 1e9])


@pytest.mark.parametrize("theta", THETAS)
def test_constants(theta):
    loss = LOSS.with_parameter(theta)
    checks.check_rest_curvature(loss, lambda rng, n: rng.poisson(2.0, n).astype(float))
    checks.check_self_concordance(loss, [0.0, 0.3, 1e4])


def test_without_dispersion_it_is_poisson():
    loss = LOSS.with_parameter(1e-14)
    for y in (0.0, 0.3, 7.0, 1e3):
        for z in (-5.0, -0.1, 0.0, 2.0, 9.0):
            np.testing.assert_allclose(
                checks.at(loss, y, z), checks.at(POISSON[0], y, z), rtol=1e-9, atol=1e-12
            )


def test_dispersions_are_above_zero():
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="theta"):
            LOSS.with_parameter(wrong)
