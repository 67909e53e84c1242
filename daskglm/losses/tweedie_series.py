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
# Terms on each side of the largest one: with 1e6 gammas they spread over 1,000, times 9 for 1e-17.
MOST_STEPS = 10_000


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
    middle = np.maximum(np.rint(peak), 1.0).astype(np.int64)
    numbers = np.arange(int(middle.max()) + MOST_STEPS + 1, dtype=np.float64)
    numbers[0] = 1.0  # not used
    base = gammaln(numbers + 1.0) + gammaln(alpha * numbers)
    top = middle * log_z - base[middle]
    total = np.ones(len(y))
    for way in (1, -1):
        for step in range(1, MOST_STEPS):
            j = middle + way * step
            terms = np.exp(np.minimum(j * log_z - base[np.maximum(j, 0)] - top, 700.0))
            terms[j < 1] = 0.0
            total += terms
            # terms only fall on the way from the largest one
            if not (terms > LEAST_TERM).any():
                break
    return top + np.log(total)
