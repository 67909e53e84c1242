"""Links and their inverses."""

import numpy as np
import pytest

from daskglm.losses import links
from daskglm.losses.links import Link

LINKS = [link for link in vars(links).values() if isinstance(link, Link)]
SHARES = {"logit", "probit", "cloglog"}


def means(link):
    inside = [0.01, 0.2, 0.5, 0.7, 0.99]
    return np.array(inside if link.name in SHARES else [*inside, 3.0, 1e4])


def test_all_are_here():
    named = {"identity", "log", "logit", "probit", "cloglog", "inverse", "sqrt", "1/mu^2"}
    assert {link.name for link in LINKS} == named


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.name}-{link.positive}")
def test_they_invert_and_have_slopes(link):
    mu = means(link)
    z = link.of_mean(mu)
    np.testing.assert_allclose(link.mean(z), mu, rtol=1e-12)
    h = 1e-6 * np.maximum(np.abs(z), 0.0 if link.positive else 1e-3)
    differences = (link.mean(z + h) - link.mean(z - h)) / (2 * h)
    np.testing.assert_allclose(link.slope(z), differences, rtol=1e-5)
    assert not link.positive or (z > 0.0).all()
    assert np.shape(link.mean(2.0)) == np.shape(link.slope(2.0)) == ()


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.name}-{link.positive}")
def test_large_margins_give_finite_means(link):
    z = np.array([1e-3, 1.0, 1e3, 1e6]) if link.positive else np.array([-1e6, -1e3, 1e3, 1e6])
    with np.errstate(under="ignore", over="raise", invalid="raise"):
        assert np.isfinite(link.mean(z)).all()
        if link.name != "cloglog":  # exp(z - exp(z)) is zero only after an overflow
            assert np.isfinite(link.slope(z)).all()
