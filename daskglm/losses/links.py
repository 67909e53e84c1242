"""Link functions g of generalised linear models: the margin z = g(mu) of a mean mu, and back.

These are NumPy functions, for predictions and tables. Kernels have each family's formulas in the
margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

# Margins beyond this are not exponentiated further: the mean is then above 1e307.
LARGEST_EXPONENT = 708.0


@dataclass(frozen=True)
class Link:
    """A link function g.

    Parameters
    ----------
    name : str
    of_mean : callable
        g: means to margins.
    mean : callable
        Its inverse: margins to means.
    slope : callable
        Derivative of the mean in the margin.
    low, high : float
        Margins that the link takes lie between them; both ends are excluded.
    """

    name: str
    of_mean: Callable[[Any], Any]
    mean: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_bounded(self) -> bool:
        """Whether there are margins that the link does not take."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def inside(self) -> str:
        """Where margins are, in words, for errors."""
        if math.isinf(self.high):
            return f"above {self.low:g}"
        return (
            f"below {self.high:g}" if math.isinf(self.low) else f"in ({self.low:g}, {self.high:g})"
        )

    def room(self, z: Any) -> Any:
        """Return how far margins are inside of the ends, (n,); negative outside of them."""
        return np.minimum(z - self.low, self.high - z)


def _exp(z: Any) -> Any:
    return np.exp(np.minimum(z, LARGEST_EXPONENT))


def _normal_density(z: Any) -> Any:
    return np.exp(-0.5 * np.square(z)) / np.sqrt(2.0 * np.pi)


def _identity(z: Any) -> Any:
    return z


IDENTITY = Link("identity", _identity, _identity, np.ones_like)
LOG = Link("log", np.log, _exp, _exp)
LOGIT = Link("logit", logit, expit, lambda z: expit(z) * expit(-np.asarray(z)))
PROBIT = Link("probit", ndtri, ndtr, _normal_density)
CLOGLOG = Link(
    "cloglog",
    lambda mu: np.log(-np.log1p(-np.asarray(mu))),
    lambda z: -np.expm1(-_exp(z)),
    lambda z: np.exp(np.minimum(z, LARGEST_EXPONENT) - _exp(z)),
)
INVERSE = Link(
    "inverse",
    lambda mu: 1.0 / np.asarray(mu),
    lambda z: 1.0 / np.asarray(z),
    lambda z: -1.0 / np.square(z),
    low=0.0,
)
SQUARE_ROOT = Link("sqrt", np.sqrt, np.square, lambda z: 2.0 * np.asarray(z), low=0.0)
INVERSE_SQUARED = Link(
    "1/mu^2",
    lambda mu: np.asarray(mu) ** -2.0,
    lambda z: np.asarray(z) ** -0.5,
    lambda z: -0.5 * np.asarray(z) ** -1.5,
    low=0.0,
)
# the identity where means must be above zero
POSITIVE_IDENTITY = Link("identity", _identity, _identity, np.ones_like, low=0.0)
# those of means from zero to one
SHARE_IDENTITY = Link("identity", _identity, _identity, np.ones_like, low=0.0, high=1.0)
SHARE_LOG = Link("log", np.log, _exp, _exp, high=0.0)


def power(exponent: float, name: str = "power") -> Link:
    """Return the link z = mu^exponent of means above zero; the exponent is not zero."""
    return Link(
        name,
        lambda mu: np.asarray(mu) ** exponent,
        lambda z: np.asarray(z) ** (1.0 / exponent),
        lambda z: np.asarray(z) ** (1.0 / exponent - 1.0) / exponent,
        low=0.0,
    )
