"""Domains of targets, and variances."""

import math

import numpy as np
import pytest

from daskglm.losses.family import Domain
from daskglm.losses.table import LOSSES

Y = np.array([-1.0, 0.0, 1e-300, 0.5, 1.0, 1.5, 1e9])


@pytest.mark.parametrize(
    ("domain", "outside", "said"),
    [
        (Domain(), [], "any numbers"),
        (Domain(0.0), [0], "at least 0"),
        (Domain(0.0, open=True), [0, 1], "above 0"),
        (Domain(0.0, 1.0), [0, 5, 6], "from 0 to 1"),
    ],
)
def test_domains(domain, outside, said):
    np.testing.assert_array_equal(np.flatnonzero(domain.outside(Y)), outside)
    assert str(domain) == said


def test_families_have_the_variances_of_their_names():
    mu = np.array([0.2, 0.7])
    wanted = {
        "gaussian": np.ones(2),
        "poisson": mu,
        "gamma": mu**2,
        "inverse_gaussian": mu**3,
        "tweedie": mu**1.5,
        "negative_binomial": mu + mu**2,
        "binomial": mu * (1 - mu),
    }
    for loss in LOSSES.values():
        if loss.family is not None:
            np.testing.assert_allclose(loss.family.variance(mu, loss.p1), wanted[loss.family.name])
    assert set(wanted) == {loss.family.name for loss in LOSSES.values() if loss.family}


def test_least_targets_have_a_finite_loss():
    for loss in LOSSES.values():
        if loss.family is None or not math.isfinite(loss.family.domain.low):
            continue
        y = 1e-12 if loss.family.domain.open else 0.0
        z = 0.5 if loss.link.room(0.5) > 0.0 else -0.5
        assert math.isfinite(loss.row(y, z, loss.p1, loss.p2)[0])
