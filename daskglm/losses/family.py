"""Exponential families: which targets they have, their variances and likelihoods.

A family is shared by the losses that its links make of it: each is half the unit deviance as a
function of the margin. What is here is NumPy, for statistics of a fit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

# Largest count whose logarithm of the factorial is looked up: 512 KiB. Chosen.
LARGEST_COUNT = 1 << 16


@functools.cache
def _log_factorials() -> np.ndarray:
    return gammaln(np.arange(1.0, LARGEST_COUNT + 2.0))


def log_factorial(y: Any) -> Any:
    """Return log(y!) of numbers y >= 0, (n,); for counts it is looked up, which is much faster."""
    counts = np.minimum(y, LARGEST_COUNT).astype(np.intp)
    if np.array_equal(counts, y):
        return _log_factorials()[counts]
    return gammaln(np.asarray(y) + 1.0)


@dataclass(frozen=True)
class Domain:
    """Targets that a family has.

    Parameters
    ----------
    low, high : float
    open : bool
        Whether `low` itself is excluded.
    name : str
        Whose it is, for errors.
    """

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    name: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether no number is outside."""
        return self.low == -math.inf and self.high == math.inf and not self.open

    def outside(self, y: np.ndarray) -> np.ndarray:
        """Return which targets are not in the domain, (n,) bools."""
        below = y <= self.low if self.open else y < self.low
        return below | (y > self.high)

    def __str__(self) -> str:
        if math.isfinite(self.high):
            return f"from {self.low:g} to {self.high:g}"
        if math.isfinite(self.low):
            return f"{'above' if self.open else 'at least'} {self.low:g}"
        return "any numbers"


@dataclass(frozen=True)
class Family:
    """A distribution of the target around its mean mu, with the variance phi V(mu).

    Parameters
    ----------
    name : str
    variance : callable
        V(mu, p1), p1 the parameter of the family.
    domain : Domain
    log_density : callable, optional
        (y, mu, weight, phi, p1) to the logarithm of the rows' likelihoods, (n,); None: no
        likelihood is computed.
    dispersion : float, optional
        phi where the family fixes it, else None: it is estimated.
    variance_by_weight : bool
        Whether a row's density takes phi / weight for its variance, so that the likeliest phi is
        the deviance over the number of rows; else over the sum of weights.
    """

    name: str
    variance: Callable[[Any, float], Any]
    domain: Domain = Domain()
    log_density: Callable[[Any, Any, Any, float, float], Any] | None = None
    dispersion: float | None = None
    variance_by_weight: bool = False
