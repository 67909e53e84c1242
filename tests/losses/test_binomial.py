"""Binomial of one row, of shares and of labels, with five links."""

import numpy as np
import pytest
from scipy import stats

from daskglm.losses.binomial import LOSSES, mills
from daskglm.losses.dispatch import tile
from daskglm.losses.logistic import LOSS as LOGISTIC
from daskglm.losses.table import law_of
from tests.losses import checks
from tests.losses.formulas import reference

LOGIT, PROBIT, CLOGLOG, LOG, IDENTITY = LOSSES
SHARES = [0.0, 1e-9, 0.3, 0.5, 1.0 - 1e-9, 1.0]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_formulas(loss):
    checks.check_derivatives(loss, [0.0, 0.3, 1.0])
    checks.check_fisher(loss, [0.0, 0.3])
    # beside other links than the logit, differences of terms of the size of one
    exact = {"rtol": 1e-10, "atol": 2e-15} if loss in (PROBIT, CLOGLOG) else {}
    checks.check_extremes(loss, SHARES, **exact)


def test_likelihoods_are_those_of_counts():
    y, mu, trials = np.array([0.0, 0.25, 1.0]), np.array([0.1, 0.5, 0.9]), np.array([4.0, 8.0, 3.0])
    found = LOGIT.family.log_density(y, mu, trials, 1.0, 0.0)
    np.testing.assert_allclose(found, stats.binom.logpmf(y * trials, trials, mu), rtol=1e-12)


def test_labels_are_those_of_the_logistic_loss():
    for z in (-800.0, -40.0, -1.5, 0.0, 1e-9, 3.0, 40.0, 800.0):
        for y in (0.0, 1.0):
            found, known = checks.at(LOGIT, y, z), checks.at(LOGISTIC, 2.0 * y - 1.0, z)
            np.testing.assert_allclose(found, known, rtol=4e-15, atol=1e-300)


@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("y", [0.0, 1e-9, 0.3, 1.0 - 1e-9, 1.0])
def test_compiled_slopes_are_those_of_the_smaller_tail(y, weights):
    """As they were written: sums that are reassociated lose digits where margins are large."""
    z = np.concatenate([np.linspace(-700.0, 700.0, 1403), [-20.0, 20.0, 1e-9]])
    slope, curvature = np.empty_like(z), np.empty_like(z)
    tile(law_of(LOGIT.ref), np.full_like(z, y), z, np.ones(weights * len(z)), slope, curvature)
    _, s, c = reference("binomial", np.full_like(z, y), z)
    np.testing.assert_allclose(slope, s, rtol=4e-15)
    np.testing.assert_allclose(curvature, c, rtol=4e-15)


@pytest.mark.parametrize("y", [1e-9, 0.01, 0.5, 0.9, 1.0 - 1e-6])
def test_digits_near_the_least_value(y):
    for step in (1e-6, -1e-6, 1e-3):
        z = float(LOGIT.link.of_mean(y)) + step
        p = checks.LONG(y)
        d, v = checks.LONG(z) - np.log(p / (1 - p)), p * (1 - p)
        exact = v * (d**2 / 2 + (1 - 2 * p) * d**3 / 6 + (1 - 6 * v) * d**4 / 24)
        assert checks.at(LOGIT, y, z)[0] == pytest.approx(float(exact), rel=1e-7)


def test_constants():
    checks.check_self_concordance(LOGIT, SHARES)
    assert max(checks.at(LOGIT, 0.3, z)[2] for z in np.linspace(-9, 9, 901)) == LOGIT.smoothness
    for y in (0.0, 0.3, 1.0):
        curvatures = [checks.at(PROBIT, y, z)[2] for z in np.linspace(-40, 40, 801)]
        assert max(curvatures) <= PROBIT.smoothness
    assert not any(loss.is_bounded for loss in (CLOGLOG, LOG, IDENTITY))
    assert all(loss.convex for loss in LOSSES)


@pytest.mark.parametrize("loss", [PROBIT, CLOGLOG], ids=lambda loss: loss.name)
def test_rates_at_which_curvatures_fall(loss):
    # beyond, curvatures of single rows are below 1e-250
    checks.check_local_rate(loss, SHARES, np.linspace(-25.0, 5.0, 121))


@pytest.mark.parametrize("loss", [LOG, IDENTITY], ids=lambda loss: loss.name)
def test_rates_near_the_ends_of_margins(loss):
    sizes = np.array([1e-9, 1e-6, 1e-3, 0.1, 0.4, 0.9, 1.0 - 1e-6, 3.0, 25.0])
    margins = -sizes if loss is LOG else sizes[sizes < 1.0]
    checks.check_local_rate(loss, SHARES[:-1] if loss is LOG else SHARES, margins)


def test_the_normal_density_over_its_tail():
    for m in (-1e150, -1e3, -40.0, -4.1, -3.9, -0.1, 0.0, 2.0, 30.0, 1e3):
        ratio, above = mills(m)
        if abs(m) < 1e3:
            known = np.exp(stats.norm.logpdf(m) - stats.norm.logcdf(m))
            assert ratio == pytest.approx(known, rel=1e-10, abs=1e-300)
        if m <= -40.0:
            assert above == pytest.approx(-1.0 / m, rel=2.1 / m**2 + 1e-12)
