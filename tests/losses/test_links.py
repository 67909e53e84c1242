"""Links and their inverses."""

import numpy as np
import pytest

from daskglm.losses import links
from daskglm.losses.links import Link

LINKS = [link for link in vars(links).values() if isinstance(link, Link)]
LINKS += [links.power(exponent) for exponent in (-1.5, -0.5, 0.3, 1.0, 2.0)]
SHARES = {"logit", "probit", "cloglog"}


def name_of(link):
    return f"{link.name}-{link.low:g}-{link.high:g}"


def means(link):
    inside = [0.01, 0.2, 0.5, 0.7, 0.99]
    of_shares = link.name in SHARES or link.high < np.inf
    return np.array(inside if of_shares else [*inside, 3.0, 1e4])


def test_all_are_here():
    named = {"identity", "log", "logit", "probit", "cloglog", "inverse", "sqrt", "1/mu^2", "power"}
    assert {link.name for link in LINKS} == named


@pytest.mark.parametrize("link", LINKS, ids=name_of)
def test_they_invert_and_have_slopes(link):
    mu = means(link)
    z = link.of_mean(mu)
    np.testing.assert_allclose(link.mean(z), mu, rtol=1e-12)
    h = 1e-6 * np.maximum(np.abs(z), 0.0 if link.is_bounded else 1e-3)
    differences = (link.mean(z + h) - link.mean(z - h)) / (2 * h)
    np.testing.assert_allclose(link.slope(z), differences, rtol=1e-5)
    assert (link.room(z) > 0.0).all()
    assert link.is_bounded == (link.low == 0.0 or link.high <= 1.0)
    assert np.shape(link.mean(2.0)) == np.shape(link.slope(2.0)) == ()


@pytest.mark.parametrize("link", LINKS, ids=name_of)
def test_large_margins_give_finite_means(link):
    z = np.array([-1e6, -1e3, 1e-3, 0.5, 1.0, 1e3, 1e6])
    z = z[link.room(z) > 0.0]
    with np.errstate(under="ignore", over="raise", invalid="raise"):
        assert np.isfinite(link.mean(z)).all()
        if link.name != "cloglog":  # exp(z - exp(z)) is zero only after an overflow
            assert np.isfinite(link.slope(z)).all()


def test_how_far_margins_are_inside():
    z = np.array([-2.0, 0.0, 0.25, 0.75, 1.0, 3.0])
    room = {name_of(link): link.room(z) for link in LINKS}
    assert (room["log--inf-inf"] == np.inf).all()
    np.testing.assert_array_equal(room["sqrt-0-inf"], z)
    np.testing.assert_array_equal(room["log--inf-0"], -z)
    np.testing.assert_array_equal(room["identity-0-1"], [-2.0, 0.0, 0.25, 0.25, 0.0, -2.0])
    words = {link.inside for link in LINKS if link.is_bounded}
    assert words == {"above 0", "below 0", "in (0, 1)"}
