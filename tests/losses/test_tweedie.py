"""Tweedie of one row: powers between one and two, and above."""

import math

import numpy as np
import pytest

from daskglm.losses.gamma import LOSSES as GAMMA
from daskglm.losses.inverse_gaussian import LOSSES as INVERSE_GAUSSIAN
from daskglm.losses.poisson import LOSSES as POISSON
from daskglm.losses.table import find, loss_of, loss_of_family
from daskglm.losses.tweedie import LOSSES
from tests.losses import checks

LOSS, IDENTITY, POWER = LOSSES

POWERS = [1.001, 1.1, 1.5, 1.9, 1.999]
TARGETS = [0.0, 1e-9, 0.3, 1.0, 7.0, 1e9]


def test_formulas():
    checks.check_extremes(LOSS, TARGETS)
    for power in (1.1, 1.5, 1.9):
        checks.check_derivatives(LOSS.with_parameter(power), [0.0, 0.3, 7.0])
        checks.check_fisher(LOSS.with_parameter(power), [0.0, 3.0])
    for power in (2.5, 3.0):
        checks.check_derivatives(LOSS.with_parameter(power), [0.1, 7.0])
        checks.check_fisher(LOSS.with_parameter(power), [0.1, 3.0])


@pytest.mark.parametrize("power", [*POWERS, 2.5, 3.0, 4.0])
def test_digits_near_the_least_value(power):
    def exact(y, d):
        a, b = checks.LONG(power) - 1, 2 - checks.LONG(power)
        return y**b * (checks.remainder(-a * d) / a + checks.remainder(b * d) / b)

    loss = LOSS.with_parameter(power)
    checks.check_near_the_least_value(loss, exact, [1e-3, 1.0, 1e9])


@pytest.mark.parametrize("power", POWERS)
def test_constants(power):
    loss = LOSS.with_parameter(power)
    assert loss.self_concordance == max(power - 1.0, 2.0 - power)
    checks.check_self_concordance(loss, [0.0, 0.3, 7.0])
    checks.check_rest_curvature(loss, lambda rng, n: rng.gamma(0.5, 2.0, n) * (rng.random(n) < 0.7))


@pytest.mark.parametrize(
    ("power", "limit"), [(1.0 + 1e-9, POISSON[0]), (2.0 - 1e-9, GAMMA[0])], ids=["poisson", "gamma"]
)
def test_its_ends_are_poisson_and_gamma(power, limit):
    loss = LOSS.with_parameter(power)
    for y in (1e-3, 1.0, 1e3):
        for z in (-5.0, -0.1, 0.0, 2.0, 9.0):
            np.testing.assert_allclose(
                checks.at(loss, y, z), checks.at(limit, y, z), rtol=1e-6, atol=1e-8 * (1 + y)
            )


def test_powers():
    assert LOSS.with_parameter(2.0) is GAMMA[0]
    assert find("tweedie(1.3)").p1 == 1.3
    above = find("tweedie(3)")
    assert not above.convex
    assert above.family.domain.open
    for z in (-2.0, 0.5, 3.0):
        np.testing.assert_allclose(
            checks.at(above, 0.7, z), checks.at(INVERSE_GAUSSIAN[0], 0.7, z), rtol=1e-12
        )
    for wrong in (1.0, 0.5, 0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="power"):
            LOSS.with_parameter(wrong)


@pytest.mark.parametrize("loss", [IDENTITY, POWER], ids=lambda loss: loss.name)
def test_other_links(loss):
    checks.check_extremes(loss, TARGETS, rtol=1e-10)
    for power in (1.1, 1.5, 1.9, 2.5, 3.0):
        targets = [0.3, 7.0] if power > 2.0 else [0.0, 0.3, 7.0]
        checks.check_derivatives(loss.with_parameter(power), targets)
        checks.check_fisher(loss.with_parameter(power), targets)
        assert not loss.with_parameter(power).convex
        assert loss.with_parameter(power).family.domain.open == (power > 2.0)


@pytest.mark.parametrize("exponent", [-2.0, -0.3, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("power", [1.2, 2.0, 2.7])
def test_exponents_of_the_link(power, exponent):
    loss = loss_of_family(f"tweedie({power})", f"power({exponent})")
    assert (loss.p1, loss.p2, loss.link.of_mean(4.0)) == (power, exponent, 4.0**exponent)
    checks.check_derivatives(loss, [0.3, 7.0])
    checks.check_fisher(loss, [0.3])
    for known in (find(loss.full_name), loss_of(loss.ref)):
        assert (known.ref, known.link.of_mean(4.0)) == (loss.ref, 4.0**exponent)
    assert POWER.with_parameter(power).p2 == 1.0 - power


def test_what_other_losses_links_of_a_power_are():
    """Those of gamma and inverse Gaussian, and the limit of Poisson."""
    pairs = [
        (("tweedie(2)", "power"), "gamma_inverse", 1.0),
        (("tweedie(2)", "power(1)"), "gamma_identity", 1.0),
        (("tweedie(3)", "power"), "inverse_gaussian_squared", 1.0),
        (("tweedie(3)", "identity"), "inverse_gaussian_identity", 1.0),
        (("tweedie(1.000000001)", "power(0.5)"), "poisson_sqrt", None),
    ]
    for names, other, exact in pairs:
        loss, known = loss_of_family(*names), find(other)
        for y in (0.2, 3.0):
            for z in (0.1, 1.0, 4.0):
                rtol = 1e-11 if exact else 1e-6
                found, wanted = checks.at(loss, y, z), checks.at(known, y, z)
                parts = 3 if exact else 2  # the last curvature is the expected one
                np.testing.assert_allclose(found[:parts], wanted[:parts], rtol=rtol, atol=1e-12)
    assert loss_of_family("tweedie(2)", "identity") is find("gamma_identity")
    for wrong in ("power(0)", "power(inf)", "power(nan)", "power(x)", "power(1, 2)", "powers(1)"):
        with pytest.raises(ValueError, match="power"):
            loss_of_family("tweedie(1.5)", wrong)
    with pytest.raises(ValueError, match="link"):
        loss_of_family("poisson", "power(0.5)")


@pytest.mark.parametrize(
    ("family", "link"), [("tweedie(2.5)", "log"), ("tweedie(3.5)", "power(0.5)")]
)
def test_far_above_the_targets_powers_beyond_two_have_a_limit(family, link):
    """The logarithms of two terms cancel: of margins of 1e90 their rounding was all there was."""
    loss = loss_of_family(family, link)
    p, y = loss.p1, np.array([0.01, 1.0, 30.0])
    limit = y ** (2.0 - p) / ((p - 1.0) * (p - 2.0))
    for mean in (1e60, 1e300) if link == "log" else (1e60, 1e200):
        z = math.log(mean) if link == "log" else mean**0.5
        found = [loss.row(each, z, loss.p1, loss.p2)[0] for each in y]
        np.testing.assert_allclose(found, limit, rtol=1e-13)
    if link == "log":
        found = [loss.row(each, 2.5e90, loss.p1, loss.p2)[0] for each in y]
        np.testing.assert_allclose(found, limit, rtol=1e-13)
