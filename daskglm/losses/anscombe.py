"""Anscombe residuals: targets and means on the scale on which a family is nearest to normal.

With A' = V^(-1/3) they are (A(y) - A(mu)) / V(mu)^(1/6) (Anscombe 1953; McCullagh & Nelder 1989,
section 2.4.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import beta, betainc, hyp2f1

from daskglm.losses.family import Family

# Families whose variance is a power of the mean, which for Tweedie is the parameter.
POWERS = {"gaussian": 0.0, "poisson": 1.0, "gamma": 2.0, "inverse_gaussian": 3.0}


def anscombe(family: Family, y: Any, mu: Any, p1: float) -> Any:
    """Return Anscombe residuals (n,) of rows of weight one.

    p1 is the parameter of the family. Raises ValueError for families that have none here.
    """
    if family.name == "binomial":
        apart = _of_share(y) - _of_share(mu)
    elif family.name == "negative_binomial":
        apart = _of_count(y, p1) - _of_count(mu, p1)
    elif family.name in POWERS or family.name == "tweedie":
        apart = _of_power(y, mu, 1.0 - POWERS.get(family.name, p1) / 3.0)
    else:
        raise ValueError(f"family={family.name!r} has no Anscombe residuals here")
    return apart / np.asarray(family.variance(mu, p1)) ** (1.0 / 6.0)


def _of_power(y: Any, mu: Any, c: float) -> Any:
    """Return the difference of A(x) = x^c / c, or of the logarithms where c is zero."""
    if c == 1.0:
        return y - mu
    return np.log(y / mu) if c == 0.0 else (y**c - mu**c) / c


def _of_share(x: Any) -> Any:
    return betainc(2.0 / 3.0, 2.0 / 3.0, x) * beta(2.0 / 3.0, 2.0 / 3.0)


def _of_count(x: Any, theta: float) -> Any:
    return 1.5 * x ** (2.0 / 3.0) * hyp2f1(2.0 / 3.0, 1.0 / 3.0, 5.0 / 3.0, -theta * x)
