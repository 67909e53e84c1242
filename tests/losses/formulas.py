"""The losses by other formulas than those of the package, and targets of their domains."""

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from daskglm.losses.table import LOSSES

# beyond this the package gives infinite values or cuts curvatures off: see `losses.poisson`
LARGEST_CURVATURE = 1e30
# families whose link takes margins within ends only, and those of them that take all above zero
BOUNDED = tuple(name for name, loss in LOSSES.items() if loss.link and loss.link.is_bounded)
POSITIVE = tuple(
    name for name in BOUNDED if (LOSSES[name].link.low, LOSSES[name].link.high) == (0.0, np.inf)
)
FAMILIES = tuple(
    name for name, loss in LOSSES.items() if loss.family is not None and name != "squared"
)
DIFFERENCES = ("huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive")


def two_targets(name):
    """A small and a large target of a loss's domain: the labels of classes."""
    domain = LOSSES[name].family.domain if LOSSES[name].family else None
    if domain is None or not np.isfinite(domain.low):
        return -1.0, 1.0
    if np.isfinite(domain.high):
        return 0.25, 1.0
    return (0.5 if domain.open else 0.0), 3.0


def targets(name, z, rng):
    """Random targets with means that rise with the margins z."""
    domain = LOSSES[name].family.domain if LOSSES[name].family else None
    if LOSSES[name].classifies:
        return np.where(rng.random(len(z)) < expit(z), 1.0, -1.0)
    if domain is None or not np.isfinite(domain.low):
        return z + rng.standard_normal(len(z))
    if np.isfinite(domain.high):
        return rng.binomial(5, expit(z)) / 5.0
    mean = np.exp(np.clip(z, -5.0, 5.0))
    if domain.open:
        return mean * rng.gamma(2.0, 0.5, len(z)) + 1e-3
    return rng.poisson(mean).astype(float)


def margins_of(name, z):
    """Margins that the loss takes, from any."""
    if name not in BOUNDED:
        return z
    link, z = LOSSES[name].link, np.abs(z) + 0.05
    if name in POSITIVE:
        return z
    return -z if np.isinf(link.low) else z / (1.0 + z)


def reference(loss, y, z):
    """Value, slope and curvature by other formulas than the kernels'."""
    m = y * z
    if loss == "logistic":
        return np.logaddexp(0, -m), -y * expit(-m), expit(m) * expit(-m)
    if loss == "squared_hinge":
        return np.maximum(0, 1 - m) ** 2, -2 * y * np.maximum(0, 1 - m), 2.0 * (m < 1)
    if loss == "hinge":
        return np.maximum(0, 1 - m), -y * (m < 1), np.zeros_like(z)
    if loss == "smoothed_hinge":
        parabola = (m < 1) & (1 - m <= 1)
        return (
            np.where(parabola, 0.5 * (1 - m) ** 2, np.maximum(0.5 - m, 0) * (m <= 0)),
            -y * np.clip(1 - m, 0, 1),
            1.0 * parabola,
        )
    if loss == "squared":
        return 0.5 * (z - y) ** 2, z - y, np.ones_like(z)
    if loss in DIFFERENCES:
        return _of_difference(loss, y - z)
    with np.errstate(all="ignore"):
        found = _BY_NAME[loss](np.longdouble(1) * y, np.longdouble(1) * z, LOSSES[loss].p1)
        value, slope, curvature = (np.asarray(part, float) for part in found)
    if loss not in BOUNDED:
        return value, slope, np.minimum(curvature, LARGEST_CURVATURE)
    if not LOSSES[loss].convex:
        curvature = np.minimum(curvature, LARGEST_CURVATURE)
    outside = LOSSES[loss].link.room(z) <= 0.0
    return tuple(
        np.where(outside, at_zero, part)
        for part, at_zero in ((value, np.inf), (slope, np.nan), (curvature, np.nan))
    )


# ---- half unit deviances of y around the mean, in long double, with derivatives by the chain rule
def _ylog(y, x):
    return np.where(y > 0, y * np.log(np.where(y > 0, x, 1)), 0)


def _poisson(y, mu):
    return _ylog(y, y) - _ylog(y, mu) - y + mu


def _gamma(y, mu):
    return y / mu - 1 - np.log(y / mu)


def _inverse_gaussian(y, mu):
    return (y - mu) ** 2 / (2 * y * mu**2)


def _tweedie(y, mu, p):
    least = np.where(y > 0, np.abs(y) ** (2 - p), 0) / ((1 - p) * (2 - p))
    return least - y * mu ** (1 - p) / (1 - p) + mu ** (2 - p) / (2 - p)


def _negative_binomial(y, mu, theta):
    return _ylog(y, y / mu) + (y + 1 / theta) * (np.log1p(theta * mu) - np.log1p(theta * y))


def _log(deviance, variance, *, expected=False):
    """With the log link: the slope is (mu - y) mu / V(mu)."""

    def found(y, z, p1):
        mu = np.exp(z)
        value = deviance(y, mu, p1)
        slope = (mu - y) * mu / variance(mu, p1)
        if expected:
            return value, slope, mu * mu / variance(mu, p1)
        h = np.longdouble(1e-6)
        up, down = np.exp(z + h), np.exp(z - h)
        up, down = ((m - y) * m / variance(m, p1) for m in (up, down))
        return value, slope, (up - down) / (2 * h)

    return found


def _binomial(y, z, p1):
    other = 1 - y
    away = np.log1p(np.exp(-np.abs(z)))
    softplus = np.where(y == 1, np.maximum(-z, 0), np.maximum(z, 0) - y * z) + away
    p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    return softplus + _ylog(y, y) + _ylog(other, other), other * p - y * q, p * q


def _probit(y, z, p1):
    # these functions are of doubles
    z = np.float64(z)
    up, down, other = log_ndtr(z), log_ndtr(-z), 1 - y
    r, s = (np.sqrt(2 / np.pi) / erfcx(m / np.sqrt(2)) for m in (-z, z))
    value = -y * up - other * down + _ylog(y, y) + _ylog(other, other)
    # far out in the tail, where r + z cancels, it has a series
    bent, unbent = (
        np.where(m < -60, -1 / m * (1 - 2 / m**2 + 10 / m**4 - 74 / m**6), q + m)
        for m, q in ((z, r), (-z, s))
    )
    return value, other * s - y * r, y * r * bent + other * s * unbent


def _cloglog(y, z, p1):
    u, other = np.exp(z), 1 - y
    odds = np.where(u > 0, u / np.expm1(u), 1)
    seldom = np.where(u < 1, z - np.log(u / -np.expm1(-u)), np.log1p(-np.exp(-u)))
    value = other * u - y * seldom + _ylog(y, y) + _ylog(other, other)
    bend = np.where(u < 1e-3, u / 2 - u * u / 6 + u**4 / 180, odds * (u + odds - 1))
    return value, other * u - y * odds, np.where(u < 1e30, other * u, 1e30 * other) + y * bend


def _share_log(y, z, p1):
    other, odds = 1 - y, 1 / np.expm1(-z)
    seldom = np.where(z > -0.5, np.log(-np.expm1(z)), np.log1p(-np.exp(z)))
    value = _ylog(y, y) + _ylog(other, other) - y * z - other * seldom
    return value, other * odds - y, other * odds * (1 + odds)


def _share_identity(y, z, p1):
    other = 1 - y
    value = _ylog(y, y / z) + np.where(other > 0, other * np.log1p((z - y) / (1 - z)), 0)
    return value, (z - y) / (z * (1 - z)), y / z**2 + other / (1 - z) ** 2


def _power(q):
    """Tweedie with the link mu^q."""

    def found(y, z, p):
        mu = z ** (1 / np.longdouble(q))
        by_margin = mu / (q * z)
        variance = mu**p
        return _tweedie(y, mu, p), (mu - y) / variance * by_margin, by_margin**2 / variance

    return found


_BY_NAME = {
    "gaussian_log": _log(
        lambda y, mu, p: (y - mu) ** 2 / 2, lambda mu, p: np.ones_like(mu), expected=True
    ),
    "poisson": lambda y, z, p: (_poisson(y, np.exp(z)), np.exp(z) - y, np.exp(z)),
    "poisson_identity": lambda y, z, p: (_poisson(y, z), 1 - y / z, y / z**2),
    "poisson_sqrt": lambda y, z, p: (_poisson(y, z**2), 2 * z - 2 * y / z, 2 + 2 * y / z**2),
    "gamma": lambda y, z, p: (_gamma(y, np.exp(z)), 1 - y * np.exp(-z), y * np.exp(-z)),
    "gamma_inverse": lambda y, z, p: (_gamma(y, 1 / z), y - 1 / z, 1 / z**2),
    "gamma_identity": lambda y, z, p: (_gamma(y, z), (z - y) / z**2, 1 / z**2),
    "inverse_gaussian": _log(
        lambda y, mu, p: _inverse_gaussian(y, mu), lambda mu, p: mu**3, expected=True
    ),
    "inverse_gaussian_squared": lambda y, z, p: (
        _inverse_gaussian(y, z**-0.5),
        y / 2 - 0.5 * z**-0.5,
        0.25 * z**-1.5,
    ),
    "tweedie": lambda y, z, p: (
        _tweedie(y, np.exp(z), p),
        np.exp((2 - p) * z) - y * np.exp((1 - p) * z),
        (2 - p) * np.exp((2 - p) * z) + (p - 1) * y * np.exp((1 - p) * z),
    ),
    "negative_binomial": lambda y, z, p: (
        _negative_binomial(y, np.exp(z), p),
        (np.exp(z) - y) / (1 + p * np.exp(z)),
        (1 + p * y) / (np.exp(-z) + p) / (1 + p * np.exp(z)),
    ),
    "gaussian_inverse": lambda y, z, p: ((y - 1 / z) ** 2 / 2, (y - 1 / z) / z**2, z**-4),
    "inverse_gaussian_identity": lambda y, z, p: (
        _inverse_gaussian(y, z),
        (z - y) / z**3,
        1 / z**3,
    ),
    "tweedie_identity": _power(1.0),
    "tweedie_power": _power(-0.5),
    "binomial_log": _share_log,
    "binomial_identity": _share_identity,
    "binomial": _binomial,
    "binomial_probit": _probit,
    "binomial_cloglog": _cloglog,
}


# ---- losses of the difference r = y - z
def _of_difference(loss, r):
    if loss == "huber":  # delta 1.35
        inside = np.abs(r) <= 1.35
        return (
            np.where(inside, 0.5 * r * r, 1.35 * np.abs(r) - 0.5 * 1.35**2),
            np.clip(-r, -1.35, 1.35),
            np.where(inside, 1.0, 0.1 * 1.35 / np.maximum(np.abs(r), 1e-300)),
        )
    if loss == "quantile":  # q 0.5
        return np.abs(r) / 2, -np.sign(r) / 2, np.zeros_like(r)
    beyond = np.maximum(np.abs(r) - 0.1, 0.0)
    if loss == "epsilon_insensitive":
        return beyond, -np.sign(r) * (beyond > 0), np.zeros_like(r)
    return beyond**2, -2 * np.sign(r) * beyond, 2.0 * (np.abs(r) >= 0.1)
