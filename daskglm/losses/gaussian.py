"""Gaussian with the log and the inverse link: half the square of y - exp(z), and of y - 1 / z.

With the identity it is `squared`. The inverse link has means above zero only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.losses.base import GAUSSIAN_INVERSE, GAUSSIAN_LOG, Loss
from daskglm.losses.family import Family
from daskglm.losses.links import INVERSE, LOG
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.vector_math import exp_any


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature."""
    mu = exp_any(z)
    r = mu - y
    return 0.5 * r * r + 0.0 * z, mu * r, min(mu * mu, LARGEST_CURVATURE)


def inverse(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature with the inverse link; infinite unless z > 0."""
    mu = 1.0 / (z if z > 0.0 else np.nan)
    r, square = mu - y, mu * mu
    value = 0.5 * r * r + 0.0 * z
    return (value if z > 0.0 else np.inf), -r * square, min(square * square, LARGEST_CURVATURE)


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the likelihoods of rows with the variance phi / weight."""
    spread = weight * np.square(y - mu) / phi
    return -0.5 * (spread + np.log(2.0 * np.pi * phi / weight))


FAMILY = Family(
    "gaussian",
    lambda mu, p1: np.ones_like(mu),
    log_density=log_density,
    variance_by_weight=True,
)

LOSSES = (
    Loss(
        "gaussian_log",
        row,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=LOG,
        code=GAUSSIAN_LOG,
    ),
    Loss(
        "gaussian_inverse",
        inverse,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=INVERSE,
        code=GAUSSIAN_INVERSE,
    ),
)
