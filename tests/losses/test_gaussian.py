"""Gaussian with a log link, of one row."""

from scipy import stats

from daskglm.losses.gaussian import LOSSES
from daskglm.losses.squared import LOSS as SQUARED
from tests.losses import checks

LOSS, INVERSE = LOSSES


def test_formulas():
    targets = [-1e9, -2.0, 0.0, 1e-9, 3.0, 1e9]
    checks.check_derivatives(LOSS, [-2.0, 0.0, 3.0])
    checks.check_extremes(LOSS, targets)
    checks.check_fisher(LOSS, [-2.0, 3.0])
    checks.check_log_density(
        LOSS, lambda y, mu: stats.norm.logpdf(y, mu, 0.3**0.5), [-1.0, 2.0], phi=0.3
    )


def test_formulas_with_the_inverse_link():
    checks.check_derivatives(INVERSE, [-2.0, 0.0, 3.0])
    checks.check_extremes(INVERSE, [-1e9, -2.0, 0.0, 1e-9, 3.0, 1e9])
    checks.check_fisher(INVERSE, [-2.0, 3.0])
    assert not INVERSE.convex
    assert INVERSE.bends
    assert INVERSE.family is SQUARED.family


def test_nothing_is_known_of_its_curvature_and_it_is_of_the_squared_losses_family():
    assert not LOSS.convex
    assert not LOSS.is_bounded
    assert LOSS.family is SQUARED.family
    assert SQUARED.shifts
    assert not SQUARED.bends
    assert LOSS.bends
