"""Binomial: shares y from 0 to 1 of so many trials as the row's weight says.

Half the unit deviance is y log(y / mu) + (1 - y) log((1 - y) / (1 - mu)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from scipy.special import gammaln, xlog1py, xlogy

from daskglm.losses.base import (
    BINOMIAL,
    BINOMIAL_CLOGLOG,
    BINOMIAL_IDENTITY,
    BINOMIAL_LOG,
    BINOMIAL_PROBIT,
    TINY,
    DualFormulas,
    Loss,
)
from daskglm.losses.entropy import beyond, bounded, log_or_least, poisson_conjugate
from daskglm.losses.family import Domain, Family
from daskglm.losses.links import CLOGLOG, LOGIT, PROBIT, SHARE_IDENTITY, SHARE_LOG
from daskglm.losses.logistic import sigma
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.vector_math import divergence, exp_any, exp_less_linear, less, log, log1p

_ROOT_HALF, _ROOT_TWO_PI = math.sqrt(0.5), math.sqrt(2.0 * math.pi)
# Margin from which Mills's ratio is taken by its continued fraction, to 1e-15 with so many terms.
_FAR, _TERMS = 4.0, 40
# Value of -log(1 - mu) from which exp(-u) is zero beside any number.
_CERTAIN = 700.0


@njit(nogil=True, error_model="numpy")
def entropy(y: float) -> float:
    """Return y log(y) + (1 - y) log(1 - y), zero at both ends."""
    other = 1.0 - y
    return y * log(max(y, TINY)) + other * log(max(other, TINY))


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the logit link."""
    e = exp_any(-abs(z))
    r = 1.0 / (1.0 + e)
    other = 1.0 - y
    if y > 0.0 and y < 1.0:
        value = divergence(y, other, z - log(max(y / other, TINY)))
    else:
        value = max(z if y == 0.0 else -z, 0.0) + log1p(e)
    # the slope by the smaller of both tails, which is not a difference of numbers near one
    slope = less(other, e * r) if z > 0.0 else less(e * r, y)
    return value + 0.0 * z, slope, e * r * r


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """The entropy of the share y - a less that of y, for a in [y - 1, y]."""
    return poisson_conjugate(y, a) + poisson_conjugate(1.0 - y, -a)


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    at = min(max(a, y - 1.0), y)
    mean, rest = max(y - at, TINY), max(1.0 - y + at, TINY)
    value = poisson_conjugate(y, at) + poisson_conjugate(1.0 - y, -at)
    slope = log_or_least(rest) - log_or_least(mean)
    return value, slope, 1.0 / mean + 1.0 / rest, beyond(a, y - 1.0, y)


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row, y less the share at the best margin."""
    return bounded(y - sigma(q * (a - y) - z, q, -z), y - 1.0, y)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a in [y - 1, y]."""
    return bounded(a, y - 1.0, y)


@njit(nogil=True, error_model="numpy")
def mills(m: float) -> tuple[float, float]:
    """Return r = phi(m) / Phi(m), the normal density over its left tail, and r + m."""
    if not m <= -_FAR:
        tail = 0.5 * math.erfc(-m * _ROOT_HALF)
        ratio = math.exp(-0.5 * m * m) / (_ROOT_TWO_PI * tail)
        return ratio, ratio + m
    fraction = -m
    for k in range(_TERMS, 1, -1):
        fraction = -m + k / fraction
    return -m + 1.0 / fraction, 1.0 / fraction


@njit(nogil=True, error_model="numpy")
def log_tail(m: float) -> float:
    """Return log(Phi(m))."""
    if m > 0.0:
        return math.log1p(-0.5 * math.erfc(m * _ROOT_HALF))
    if m > -_FAR:
        return math.log(0.5 * math.erfc(-m * _ROOT_HALF))
    return -0.5 * m * m - math.log(_ROOT_TWO_PI * mills(m)[0])


def probit(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the probit link."""
    up, bent_up = mills(z)
    down, bent_down = mills(-z)
    least = entropy(y) if y > 0.0 and y < 1.0 else 0.0
    value = -y * log_tail(z) - (1.0 - y) * log_tail(-z) + least
    curvature = y * up * bent_up + (1.0 - y) * down * bent_down
    return max(value, 0.0) + 0.0 * z, (1.0 - y) * down - y * up, max(curvature, 0.0)


def probit_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the probit link."""
    return mills(z)[0] * mills(-z)[0]


def probit_rate(y: Any, z: Any) -> Any:
    """Return the rate at which curvatures of the probit fall: see `Loss.local_rate`."""
    return np.abs(z) + 2.0


def cloglog(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the complementary log-log link, u = -log(1 - mu) = exp(z)."""
    u, other = exp_any(z), 1.0 - y
    # -log(mu), u / (exp(u) - 1) and minus its derivative in z
    seldom, odds, bend = 0.0, 0.0, 0.0
    if u < 1e-8:
        seldom, odds, bend = -z + 0.5 * u, 1.0 - 0.5 * u, u * (0.5 - u / 6.0)
    elif u < 1.0:
        grown = math.expm1(u)
        seldom, odds = -math.log(-math.expm1(-u)), u / grown
        bend = odds * (u * grown - exp_less_linear(u, 1.0 + grown)) / grown
    elif u < _CERTAIN:
        odds = u / math.expm1(u)
        seldom, bend = -math.log1p(-math.exp(-u)), odds * (u + odds - 1.0)
    least = entropy(y) if y > 0.0 and y < 1.0 else 0.0
    value = (other * u if other > 0.0 else 0.0) + y * seldom + least
    slope = (other * u if other > 0.0 else 0.0) - y * odds
    curvature = other * min(u, LARGEST_CURVATURE) + y * bend
    return max(value, 0.0) + 0.0 * z, slope, curvature


def cloglog_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the complementary log-log link."""
    u = min(exp_any(z), 700.0)
    return u * u / math.expm1(u) if u > 0.0 else 0.0


def cloglog_rate(y: Any, z: Any) -> Any:
    """Return the rate at which curvatures of the complementary log-log fall.

    See `Loss.local_rate`. It is infinite where curvatures are cut off.
    """
    u = np.exp(np.minimum(z, _CERTAIN))
    rate = np.where(y > 0.0, 2.0 + u, 1.0)
    return np.where(u < LARGEST_CURVATURE, rate, np.inf)


def share_log(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the log link, mu = exp(z); infinite unless z < 0."""
    t, other = z if z < 0.0 else np.nan, 1.0 - y
    # mu / (1 - mu), and -log(1 - mu) by the smaller of both shares
    odds = math.exp(t) / -math.expm1(t)
    seldom = -math.log(-math.expm1(t)) if t > -0.5 else -math.log1p(-math.exp(t))
    if y > 0.0 and y < 1.0:
        value = divergence(y, other, t + seldom - log(max(y / other, TINY)))
    else:
        value = (seldom if y == 0.0 else -t) + 0.0 * t
    return (value if z < 0.0 else np.inf), less(other * odds, y), other * odds * (1.0 + odds)


def share_log_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the log link."""
    return math.exp(z) / -math.expm1(z)


def share_log_rate(y: Any, z: Any) -> Any:
    """Return the rate at which odds (1 + odds) fall: see `Loss.local_rate`."""
    return 1.0 / np.tanh(-0.5 * np.asarray(z))


def share_identity(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the identity link; infinite unless 0 < z < 1."""
    inside = z > 0.0 and z < 1.0
    t, other = z if inside else np.nan, 1.0 - y
    rest = 1.0 - t
    if y > 0.0 and y < 1.0:
        value = divergence(y, other, math.log(t / rest) - log(max(y / other, TINY)))
    else:
        value = -math.log1p(-t) if y == 0.0 else -math.log(t)
    curvature = y / (t * t) + other / (rest * rest)
    return (value if inside else np.inf), less(t, y) / (t * rest), curvature


def share_identity_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the identity link."""
    return 1.0 / (z * (1.0 - z))


def share_identity_rate(y: Any, z: Any) -> Any:
    """Return the rate at which y / z^2 and (1 - y) / (1 - z)^2 fall: see `Loss.local_rate`."""
    z = np.asarray(z)
    return np.maximum(np.where(y > 0.0, 2.0 / z, 0.0), np.where(y < 1.0, 2.0 / (1.0 - z), 0.0))


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the likelihoods of y times `weight` successes in `weight` trials."""
    good = y * weight
    ways = gammaln(weight + 1.0) - gammaln(good + 1.0) - gammaln(weight - good + 1.0)
    return ways + xlogy(good, mu) + xlog1py(weight - good, -mu)


FAMILY = Family(
    "binomial", lambda mu, p1: mu * (1.0 - mu), Domain(0.0, 1.0), log_density, dispersion=1.0
)

LOSSES = (
    Loss(
        "binomial",
        row,
        classifies=False,
        smoothness=0.25,
        self_concordance=1.0,
        family=FAMILY,
        link=LOGIT,
        dual=DualFormulas(conjugate, derivatives, step, into_domain),
        code=BINOMIAL,
    ),
    Loss(
        "binomial_probit",
        probit,
        classifies=False,
        smoothness=1.0,
        family=FAMILY,
        link=PROBIT,
        fisher=probit_fisher,
        local_rate=probit_rate,
        code=BINOMIAL_PROBIT,
    ),
    Loss(
        "binomial_cloglog",
        cloglog,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=CLOGLOG,
        fisher=cloglog_fisher,
        local_rate=cloglog_rate,
        code=BINOMIAL_CLOGLOG,
    ),
    Loss(
        "binomial_log",
        share_log,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=SHARE_LOG,
        has_open_ends=True,
        fisher=share_log_fisher,
        local_rate=share_log_rate,
        code=BINOMIAL_LOG,
    ),
    Loss(
        "binomial_identity",
        share_identity,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=SHARE_IDENTITY,
        has_open_ends=True,
        fisher=share_identity_fisher,
        local_rate=share_identity_rate,
        code=BINOMIAL_IDENTITY,
    ),
)
