"""Negative binomial (NB2) with the log link: counts of variance mu + theta mu^2.

Half the unit deviance is y log(y / mu) - (y + 1/theta) log((1 + theta y) / (1 + theta mu)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from daskglm.losses.base import NEGATIVE_BINOMIAL, TINY, Loss, Parameter
from daskglm.losses.family import Domain, Family, log_factorial
from daskglm.losses.links import LOG
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
    p1=1.0,
    parameter=Parameter("theta", 0.0, np.inf, 1.0),
    code=NEGATIVE_BINOMIAL,
)
