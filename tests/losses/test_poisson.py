"""Poisson of one row, with three links."""

import pytest
from scipy import stats

from daskglm.losses.poisson import LOSSES
from tests.losses import checks

LOG = LOSSES[0]
COUNTS = [0.0, 1e-9, 0.3, 1.0, 7.0, 1e9]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_formulas(loss):
    checks.check_derivatives(loss, [0.0, 0.3, 7.0])
    checks.check_extremes(loss, COUNTS)
    checks.check_fisher(loss, [0.0, 3.0])
    checks.check_log_density(loss, stats.poisson.logpmf, [0.0, 1.0, 5.0])


def test_digits_near_the_least_value():
    checks.check_near_the_least_value(LOG, lambda y, d: y * checks.remainder(d), COUNTS[1:])


def test_constants():
    checks.check_self_concordance(LOG, COUNTS)
    checks.check_rest_curvature(LOG, lambda rng, n: rng.poisson(2.0, n).astype(float))


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: loss.name)
def test_rates_at_which_curvatures_fall(loss):
    checks.check_local_rate(loss, COUNTS, checks.SIZES)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: loss.name)
def test_other_links_near_the_least_value(loss):
    for y in (1e-6, 1.0, 1e9):
        z = float(loss.link.of_mean(y)) * (1.0 + 1e-6)
        curvature = checks.at(loss, y, z)[2]
        assert checks.at(loss, y, z)[0] == pytest.approx(
            0.5 * curvature * (1e-6 * z) ** 2, rel=1e-5
        )
