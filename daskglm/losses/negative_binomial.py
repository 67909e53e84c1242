"""Negative binomial (NB2) with the log link: counts of variance mu + theta mu^2.

Half the unit deviance is y log(y / mu) - (y + 1/theta) log((1 + theta y) / (1 + theta mu)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from daskglm.losses.base import NEGATIVE_BINOMIAL, TINY, DualFormulas, Loss, Parameter
from daskglm.losses.entropy import beyond, bounded, kl_term, log_or_least, poisson_conjugate
from daskglm.losses.family import Domain, Family, log_factorial
from daskglm.losses.links import LOG
from daskglm.losses.logistic import sigma
from daskglm.losses.vector_math import divergence, exp_any, log, log1p


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature; p1 is theta."""
    e = exp_any(-abs(z))
    # mu / (1 + theta mu) and 1 / (1 + theta mu), for margins of any size
    over = 1.0 / (e + p1) if z > 0.0 else 1.0 / (1.0 + p1 * e)
    mean = over if z > 0.0 else e * over
    rest = e * over if z > 0.0 else over
    # a share theta mu / (1 + theta mu) of y + 1 / theta trials
    away = 1.0 / (1.0 + p1 * y)
    value = (y + 1.0 / p1) * divergence(p1 * y * away, away, z - log(max(y, TINY)))
    x = z + log(p1)
    none = (max(x, 0.0) + log1p(exp_any(-abs(x)))) / p1
    return (value if y > 0.0 else none) + 0.0 * z, mean - y * rest, (1.0 + p1 * y) * mean * rest


def fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature."""
    e = exp_any(-abs(z))
    return 1.0 / (e + p1) if z > 0.0 else e / (1.0 + p1 * e)


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """The Poisson conjugate plus s log(s) / theta - a, s = 1 + theta a; for a in [-1/theta, y]."""
    return poisson_conjugate(y, a) + kl_term(-p1 * a) / p1


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    at = min(max(a, -1.0 / p1), y)
    mean, rest = max(y - at, TINY), max(1.0 + p1 * at, TINY)
    value = poisson_conjugate(y, at) + kl_term(-p1 * at) / p1
    slope = log_or_least(rest) - log_or_least(mean)
    return value, slope, 1.0 / mean + p1 / rest, beyond(a, -1.0 / p1, y)


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable: that of y + 1/theta logistic losses at z + log(theta)."""
    trials, x = y + 1.0 / p1, z + log_or_least(p1)
    best = y - trials * sigma(q * (a - y) - x, q * trials, -x)
    return bounded(best, -1.0 / p1, y)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a in [-1/theta, y]."""
    return bounded(a, -1.0 / p1, y)


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the rows' likelihoods, times their weights."""
    size = 1.0 / p1
    counts = gammaln(y + size) - gammaln(size) - log_factorial(y)
    return weight * (counts + xlogy(y, p1 * mu) - (y + size) * np.log1p(p1 * mu))


FAMILY = Family(
    "negative_binomial",
    lambda mu, p1: mu + p1 * np.square(mu),
    Domain(0.0),
    log_density,
    dispersion=1.0,
)

LOSS = Loss(
    "negative_binomial",
    row,
    classifies=False,
    smoothness=np.inf,
    self_concordance=1.0,
    family=FAMILY,
    link=LOG,
    fisher=fisher,
    rest_curvature=lambda weight, total, p1: min(total, weight / p1),
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    p1=1.0,
    parameter=Parameter("theta", 0.0, np.inf, 1.0),
    code=NEGATIVE_BINOMIAL,
)
