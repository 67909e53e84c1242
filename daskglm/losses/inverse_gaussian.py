"""Inverse Gaussian: half the unit deviance (y - mu)^2 / (2 y mu^2) of positive targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskglm.losses.base import (
    INVERSE_GAUSSIAN,
    INVERSE_GAUSSIAN_IDENTITY,
    INVERSE_GAUSSIAN_SQUARED,
    Loss,
)
from daskglm.losses.family import Domain, Family
from daskglm.losses.links import INVERSE_SQUARED, LOG, POSITIVE_IDENTITY
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.vector_math import exp_any


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature with the log link, mu = exp(z)."""
    rate = exp_any(-z)
    r = 1.0 - y * rate
    return 0.5 * r * r / y + 0.0 * z, rate * r, min(rate, LARGEST_CURVATURE)


def inverse_squared(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature with the link 1 / mu^2; infinite unless z > 0."""
    root = math.sqrt(z if z > 0.0 else np.nan)
    r = y * root - 1.0
    value = 0.5 * r * r / y
    return (value if z > 0.0 else np.inf), 0.5 * r / root, 0.25 / (root * root * root)


def inverse_squared_rate(y: Any, z: Any) -> Any:
    """Return the rate at which z^-1.5 falls: see `Loss.local_rate`."""
    return 1.5 / z


def identity(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature with the identity link; infinite unless z > 0."""
    rate = 1.0 / (z if z > 0.0 else np.nan)
    r = 1.0 - y * rate
    curvature = min(rate * rate * rate, LARGEST_CURVATURE)
    value = 0.5 * r * r / y + 0.0 * z
    return (value if z > 0.0 else np.inf), rate * rate * r, curvature


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the rows' likelihoods, times their weights."""
    spread = np.square(y - mu) / (y * np.square(mu) * phi)
    return -0.5 * weight * (spread + np.log(2.0 * np.pi * phi * y**3))


FAMILY = Family(
    "inverse_gaussian", lambda mu, p1: np.asarray(mu) ** 3, Domain(0.0, open=True), log_density
)

LOSSES = (
    Loss(
        "inverse_gaussian",
        row,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=LOG,
        code=INVERSE_GAUSSIAN,
    ),
    Loss(
        "inverse_gaussian_squared",
        inverse_squared,
        classifies=False,
        smoothness=np.inf,
        family=FAMILY,
        link=INVERSE_SQUARED,
        local_rate=inverse_squared_rate,
        code=INVERSE_GAUSSIAN_SQUARED,
    ),
    Loss(
        "inverse_gaussian_identity",
        identity,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=POSITIVE_IDENTITY,
        code=INVERSE_GAUSSIAN_IDENTITY,
    ),
)
