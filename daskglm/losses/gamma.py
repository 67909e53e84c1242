"""Gamma: half the unit deviance y / mu - 1 - log(y / mu) of positive targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from daskglm.losses.base import GAMMA, GAMMA_IDENTITY, GAMMA_INVERSE, TINY, DualFormulas, Loss
from daskglm.losses.entropy import (
    LARGEST,
    beyond,
    bounded,
    exponential_root,
    kl_term,
    log_or_least,
)
from daskglm.losses.family import Domain, Family
from daskglm.losses.links import INVERSE, LOG, POSITIVE_IDENTITY
from daskglm.losses.poisson import LARGEST_CURVATURE, identity_rate
from daskglm.losses.vector_math import REMAINDER, exp_any, exp_remainder, linear_less_log, log


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the log link, mu = exp(z)."""
    d = z - log(max(y, TINY))
    ratio = y * exp_any(-z)
    near = exp_remainder(-d)
    value = near if abs(d) <= REMAINDER else ratio - 1.0 + d
    return value, 1.0 - ratio, min(ratio, LARGEST_CURVATURE)


def fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature with the log link."""
    return 1.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """(1 + a) log((1 + a) / y) - a + log(y), for a >= -1."""
    return kl_term(-a) - a * log_or_least(y)


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    at = max(a, -1.0)
    ratio = max(1.0 + at, TINY)
    value = kl_term(-at) - at * log_or_least(y)
    slope = log_or_least(ratio) - log_or_least(y)
    return value, slope, 1.0 / ratio, beyond(a, -1.0, LARGEST)


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row, m - 1 with log(m) + q m = log(y) - z + q a + q."""
    return exponential_root(log_or_least(y) - z + q * a + q, q) - 1.0


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a >= -1."""
    return bounded(a, -1.0, LARGEST)


def inverse(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the inverse link, mu = 1 / z; infinite unless z > 0."""
    t = z if z > 0.0 else np.nan
    return (linear_less_log(y * t) if z > 0.0 else np.inf), y - 1.0 / t, 1.0 / (t * t)


def identity(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature with the identity link; infinite unless z > 0."""
    t = z if z > 0.0 else np.nan
    return (linear_less_log(y / t) if z > 0.0 else np.inf), (t - y) / (t * t), 1.0 / (t * t)


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the rows' likelihoods, times their weights; the shape is 1 / phi."""
    shape = 1.0 / phi
    scaled = shape * y / mu
    return weight * (shape * np.log(scaled) - scaled - np.log(y) - gammaln(shape))


FAMILY = Family("gamma", lambda mu, p1: np.square(mu), Domain(0.0, open=True), log_density)

LOSSES = (
    Loss(
        "gamma",
        row,
        classifies=False,
        smoothness=np.inf,
        self_concordance=1.0,
        family=FAMILY,
        link=LOG,
        fisher=fisher,
        rest_curvature=lambda weight, total, p1: weight,
        dual=DualFormulas(conjugate, derivatives, step, into_domain),
        code=GAMMA,
    ),
    Loss(
        "gamma_inverse",
        inverse,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=INVERSE,
        local_rate=identity_rate,
        code=GAMMA_INVERSE,
    ),
    Loss(
        "gamma_identity",
        identity,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=POSITIVE_IDENTITY,
        code=GAMMA_IDENTITY,
    ),
)
