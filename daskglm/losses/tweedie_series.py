"""The density of Tweedie of a power p between 1 and 2, as a series (Dunn & Smyth 2005).

The target is a sum of a Poisson number of gamma variables. The density of a positive target is a
sum over that number j, of which the terms near the largest one count.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

# Terms below this share of the largest one are left out.
LEAST_TERM = 1e-17
# Largest number j at which the series is summed: beyond, the saddlepoint approximation is as good
# as 1 / j.
MOST_TERMS = 1e6
# Numbers j from which terms are far from those of no gamma, and so smooth that each second, third
# ... tells the sum.
MANY = 150
# Terms that are taken for each standard deviation of j: the error of a sum of every h-th is about
# exp(-2 pi^2 (deviation / h)^2), 1e-34.
TERMS = 2.0
# Terms on each side of the largest one: 9 standard deviations for 1e-17, of up to 12 where j < 150.
MOST_STEPS = 1_000


def log_density(y: Any, mu: Any, weight: Any, phi: float, p1: float) -> Any:
    """Return logarithms of the densities of rows with the variance phi mu^p1 / weight.

    For targets of zero it is that of their probability; nan unless 1 < p1 < 2.
    """
    if not 1.0 < p1 < 2.0:
        return np.full(len(y), np.nan)
    a, b = p1 - 1.0, 2.0 - p1
    scale = np.broadcast_to(phi / np.asarray(weight), np.shape(y))
    found = -(mu**b) / (b * scale)
    some = y > 0.0
    t, m, f = y[some], mu[some], scale[some]
    with np.errstate(over="ignore"):
        peak = t**b / (b * f)  # where terms are largest, as a real number
        few = peak <= MOST_TERMS
    series = np.empty(len(t))
    series[few] = _log_sum(t[few], f[few], peak[few], p1) - np.log(t[few])
    series[few] -= t[few] * m[few] ** -a / (a * f[few])
    # for these the exponent of mu is in the deviance
    t, m, f = t[~few], m[~few], f[~few]
    deviance = 2.0 * (t * (m**-a - t**-a) / a + (m**b - t**b) / b)
    series[~few] = -0.5 * (np.log(2.0 * np.pi * f * t**p1) + deviance / f) + m**b / (b * f)
    found[some] += series
    return found


def _log_sum(y: Any, phi: Any, peak: Any, p1: float) -> Any:
    """Return the logarithm of the sum of the series: W in Dunn & Smyth's equation 7."""
    if not len(y):
        return y
    a, b = p1 - 1.0, 2.0 - p1
    alpha = b / a  # minus theirs
    log_z = alpha * np.log(y / a) - (1.0 + alpha) * np.log(phi) - math.log(b)
    middle = np.maximum(np.rint(peak), 1.0)
    deviation = np.sqrt(middle / (1.0 + alpha))
    stride = np.where(middle > MANY, np.maximum(np.floor(deviation / TERMS), 1.0), 1.0)

    def logarithms(j: Any, log_z: Any) -> Any:
        return j * log_z - gammaln(j + 1.0) - gammaln(alpha * j)

    top = logarithms(middle, log_z)
    total = np.ones(len(y))
    for way in (1.0, -1.0):
        left = np.arange(len(y))  # rows whose terms are not yet too small
        for step in range(1, MOST_STEPS):
            j = middle[left] + way * step * stride[left]
            left, j = left[j >= 1.0], j[j >= 1.0]
            terms = np.exp(np.minimum(logarithms(j, log_z[left]) - top[left], 700.0))
            total[left] += terms
            # terms only fall on the way from the largest one
            left = left[terms > LEAST_TERM]
            if not len(left):
                break
    return top + np.log(total * stride)
