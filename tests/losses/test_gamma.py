"""Gamma of one row, with three links."""

import pytest
from scipy import stats

from daskglm.losses.gamma import LOSSES
from tests.losses import checks

LOG = LOSSES[0]
TARGETS = [1e-9, 0.3, 1.0, 7.0, 1e9]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_formulas(loss):
    checks.check_derivatives(loss, [0.1, 1.0, 7.0])
    checks.check_extremes(loss, TARGETS)
    checks.check_fisher(loss, [0.1, 3.0])
    checks.check_log_density(
        loss, lambda y, mu: stats.gamma.logpdf(y, 1 / 0.3, scale=mu * 0.3), [0.1, 3.0], phi=0.3
    )


def test_digits_near_the_least_value():
    checks.check_near_the_least_value(LOG, lambda y, d: checks.remainder(-d), TARGETS)


def test_constants():
    checks.check_self_concordance(LOG, TARGETS)
    checks.check_rest_curvature(LOG, lambda rng, n: rng.gamma(0.5, 2.0, n))


def test_rates_at_which_curvatures_fall():
    checks.check_local_rate(LOSSES[1], TARGETS, checks.SIZES)


def test_the_canonical_link_near_the_least_value():
    for y in (1e-6, 1.0, 1e9):
        found = checks.at(LOSSES[1], y, (1.0 + 1e-6) / y)[0]
        assert found == pytest.approx(0.5e-12, rel=1e-5)
