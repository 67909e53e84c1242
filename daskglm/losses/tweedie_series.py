"""The density of Tweedie of a power p between 1 and 2, as a series (Dunn & Smyth 2005).

The target is a sum of a Poisson number of gamma variables. The density of a positive target is a
sum over that number j, of which the terms near the largest one count.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from daskglm.losses.vector_math import exp_any
from daskglm.system.compiled import compiled

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
# Numbers j whose constants are kept. Chosen.
TABLE = 1 << 12


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
    a, b = p1 - 1.0, 2.0 - p1
    alpha = b / a  # minus theirs
    found = alpha * np.log(y / a) - (1.0 + alpha) * np.log(phi) - math.log(b)
    _sum_terms(peak, found, alpha, _constants(alpha))
    return found


@functools.lru_cache(maxsize=8)
def _constants(alpha: float) -> Any:
    """Return the parts of the terms' logarithms that no row has a share in, by number j."""
    j = np.arange(1.0, TABLE)
    return np.concatenate([[0.0], -gammaln(j + 1.0) - gammaln(alpha * j)])


@compiled(nogil=True, error_model="numpy")
def _constant(j, alpha, constants):  # type: ignore[no-untyped-def]
    if j < len(constants):
        return constants[int(j)]
    return -math.lgamma(j + 1.0) - math.lgamma(alpha * j)


@compiled(nogil=True, error_model="numpy")
def _sum_terms(peak, log_z, alpha, constants):  # type: ignore[no-untyped-def]
    """Put the logarithm of each row's sum of terms z^j / (j! Gamma(alpha j)) in the place of log z.

    `peak` is where terms are largest, as a real number.
    """
    for i in range(len(peak)):
        middle = max(np.rint(peak[i]), 1.0)
        deviation = math.sqrt(middle / (1.0 + alpha))
        stride = max(math.floor(deviation / TERMS), 1.0) if middle > MANY else 1.0
        top = middle * log_z[i] + _constant(middle, alpha, constants)
        total = 1.0
        for way in (stride, -stride):
            # terms only fall on the way from the largest one
            j, term = middle + way, 1.0
            while term > LEAST_TERM and j >= 1.0:
                term = exp_any(j * log_z[i] + _constant(j, alpha, constants) - top)
                total += term
                j += way
        log_z[i] = top + math.log(total * stride)
