"""Poisson: half the unit deviance y log(y / mu) - y + mu of counts or rates y >= 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from daskglm.losses.base import (
    POISSON,
    POISSON_IDENTITY,
    POISSON_SQRT,
    TINY,
    DualFormulas,
    Loss,
)
from daskglm.losses.entropy import (
    LARGEST,
    beyond,
    bounded,
    exponential_root,
    log_or_least,
    poisson_conjugate,
)
from daskglm.losses.family import Domain, Family, log_factorial
from daskglm.losses.links import LOG, POSITIVE_IDENTITY, SQUARE_ROOT
from daskglm.losses.vector_math import REMAINDER, exp_any, exp_remainder, linear_less_log, log

# Largest curvature that is returned: squares of float32 rows times larger ones would overflow.
LARGEST_CURVATURE = 1e30


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the log link, mu = exp(z)."""
    mu = exp_any(z)
    d = z - log(max(y, TINY))
    # near the least value, where the terms of the other form cancel
    near = y * exp_remainder(d)
    value = near if abs(d) <= REMAINDER else mu - y - y * d
    value = mu if y == 0.0 else value
    return value + 0.0 * z, mu - y, min(mu, LARGEST_CURVATURE)


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """(y - a) log(y - a) + a - y log(y), for a <= y."""
    return poisson_conjugate(y, a)


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    at = min(a, y)
    mu = max(y - at, TINY)
    return poisson_conjugate(y, at), -log_or_least(mu), 1.0 / mu, beyond(a, -LARGEST, y)


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row, y - mu with log(mu) + q mu = z - q a + q y."""
    return y - exponential_root(z - q * a + q * y, q)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a <= y."""
    return bounded(a, -LARGEST, y)


def identity(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the identity link; infinite unless z > 0."""
    t = z if z > 0.0 else np.nan
    value = y * linear_less_log(t / max(y, TINY)) if y > 0.0 else t
    return (value if z > 0.0 else np.inf), 1.0 - y / t, y / (t * t)


def identity_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the identity link."""
    return 1.0 / z


def square_root(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the square root's link, mu = z^2; infinite unless z > 0."""
    t = z if z > 0.0 else np.nan
    value = y * linear_less_log(t * t / max(y, TINY)) if y > 0.0 else t * t
    return (value if z > 0.0 else np.inf), 2.0 * t - 2.0 * y / t, 2.0 + 2.0 * y / (t * t)


def square_root_fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the square root's link."""
    return 4.0


def identity_rate(y: Any, z: Any) -> Any:
    """Return the rate at which y / z^2 falls: see `Loss.local_rate`."""
    return np.where(y > 0.0, 2.0 / z, 0.0)


def square_root_rate(y: Any, z: Any) -> Any:
    """Return the rate at which 2 + 2 y / z^2 falls: see `Loss.local_rate`."""
    return 2.0 * y / (z * (z * z + y))


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the rows' likelihoods, times their weights."""
    return weight * (xlogy(y, mu) - mu - log_factorial(y))


FAMILY = Family("poisson", lambda mu, p1: mu, Domain(0.0), log_density, dispersion=1.0)

LOSSES = (
    Loss(
        "poisson",
        row,
        classifies=False,
        smoothness=np.inf,
        self_concordance=1.0,
        family=FAMILY,
        link=LOG,
        rest_curvature=lambda weight, total, p1: total,
        dual=DualFormulas(conjugate, derivatives, step, into_domain),
        code=POISSON,
    ),
    Loss(
        "poisson_identity",
        identity,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=POSITIVE_IDENTITY,
        has_open_ends=True,
        fisher=identity_fisher,
        local_rate=identity_rate,
        code=POISSON_IDENTITY,
    ),
    Loss(
        "poisson_sqrt",
        square_root,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=SQUARE_ROOT,
        has_open_ends=True,
        fisher=square_root_fisher,
        local_rate=square_root_rate,
        code=POISSON_SQRT,
    ),
)
