"""The density of Tweedie: against the mixture of gammas that it is, and against integrals."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from daskglm.losses import tweedie_series
from daskglm.losses.tweedie_series import log_density

ONE = np.ones(1)


def by_mixture(y, mu, phi, p, most=20_000):
    """Log densities by the sum over the number of gammas, by SciPy's densities."""
    rate = mu ** (2 - p) / (phi * (2 - p))
    n = np.arange(1, most)[:, None]
    shape, scale = (2 - p) / (p - 1), phi * (p - 1) * mu ** (p - 1)
    gammas = stats.gamma.logpdf(np.where(y > 0, y, 1.0), n * shape, scale=scale)
    return np.where(y > 0, logsumexp(stats.poisson.logpmf(n, rate) + gammas, axis=0), -rate)


@pytest.mark.parametrize("p", [1.01, 1.1, 1.5, 1.9, 1.99])
@pytest.mark.parametrize("phi", [0.05, 1.0, 30.0])
def test_densities_are_those_of_a_poisson_number_of_gammas(p, phi):
    y = np.array([0, 1e-6, 0.01, 0.3, 1, 2.5, 10, 80])
    mu = np.array([1.0, 1, 0.5, 0.2, 1, 2, 12, 50])
    weight = np.array([1.0, 2, 0.5, 1, 1, 3, 1, 1])
    wanted = by_mixture(y, mu, phi / weight, p)
    np.testing.assert_allclose(log_density(y, mu, weight, phi, p), wanted, rtol=1e-10, atol=1e-10)


def test_probabilities_add_up_to_one():
    for p, phi in ((1.2, 0.7), (1.8, 2.0)):
        zero = np.exp(log_density(np.zeros(1), ONE, ONE, phi, p))[0]
        rest, _ = integrate.quad(
            lambda t, phi=phi, p=p: np.exp(log_density(np.array([t]), ONE, ONE, phi, p))[0],
            *(0, 60),
            limit=200,
        )
        assert zero + rest == pytest.approx(1.0, abs=1e-6)


def test_tiny_dispersions_have_the_saddlepoint_approximation(monkeypatch):
    y, mu = np.array([5.0, 2.0]), np.array([5.1, 1.9])
    exact = log_density(y, mu, np.ones(2), 1e-3, 1.5)
    monkeypatch.setattr(tweedie_series, "MOST_TERMS", 1.0)
    np.testing.assert_allclose(log_density(y, mu, np.ones(2), 1e-3, 1.5), exact, atol=2e-4)


def test_other_powers_have_no_density():
    assert np.isnan(log_density(np.ones(2), np.ones(2), np.ones(2), 1.0, 3.5)).all()
    assert len(log_density(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.5)) == 0
