"""What the duals of exponential families are made of: entropies, and the root of u + exp(u) = x.

Conjugates are sums of terms of a Kullback-Leibler divergence and of products with the margin at
which a loss is least, rather than of logarithms that nearly cancel: so their rounding errors are as
small as they are.
"""

from __future__ import annotations

import math

from numba import njit

from daskglm.losses.base import TINY
from daskglm.losses.vector_math import linear_less_log1p, log

# Steps of the iteration for Wright's omega: each takes the error to its fourth power, and no start
# is off by more than a fifth. Chosen.
_STEPS = 3
# Argument below which omega(x) = exp(x) to rounding.
_SMALL = -37.0
# Largest dual variable that a step gives: products of it with weights, and sums, stay finite.
LARGEST = 1e100


@njit(nogil=True, error_model="numpy")
def kl_term(t: float) -> float:
    """Return scipy.special.kl_div(s, 1) = s log(s) - s + 1 for s = 1 - t >= 0.

    It is at least zero, and exact to rounding near t = 0.
    """
    s = 1.0 - t
    if abs(t) < 0.5:
        return s * linear_less_log1p(t / s)
    return s * log(max(s, TINY)) + t


@njit(nogil=True, error_model="numpy")
def log_or_least(s: float) -> float:
    """Return log(s), of zero that of the least positive number that is told from it."""
    return log(max(s, TINY))


@njit(nogil=True, error_model="numpy")
def poisson_conjugate(y: float, a: float) -> float:
    """Return the conjugate of half the Poisson deviance at -a, for a <= y."""
    if y > 0.0:
        return y * kl_term(a / y) - a * log_or_least(y)
    return a - a * log_or_least(-a)


@njit(nogil=True, error_model="numpy")
def wright_omega(x: float) -> float:
    """Return the w that solves w + log(w) = x.

    The iteration is that of Fritsch, Shafer & Crowley 1973 (CACM 16, algorithm 443).
    """
    if x < _SMALL:
        return math.exp(x)
    if x > 1.0:
        w = x - math.log(x)
    else:
        # between exp(x) far on the left and (1 + x) / 2 at one
        e = math.exp(x)
        w = e / (1.0 + 0.56 * e)
    if x > 1e17:
        return w
    for _ in range(_STEPS):
        r = x - w - math.log(w)
        p = 1.0 + w
        q = 2.0 * p * (p + 2.0 / 3.0 * r)
        w *= 1.0 + r / p * (q - r) / (q - 2.0 * r)
    return w


@njit(nogil=True, error_model="numpy")
def exponential_root(k: float, q: float) -> float:
    """Return the m that solves log(m) + q m = k, for q >= 0; at most `LARGEST`."""
    q = max(q, TINY)
    x = k + math.log(q)
    m = wright_omega(x) / q if x > -30.0 else math.exp(min(k, 700.0))
    return min(m, LARGEST)


@njit(nogil=True, error_model="numpy")
def bounded(a: float, low: float, high: float) -> float:
    """Return the nearest number within [low, high], and within what `LARGEST` allows."""
    return min(max(a, max(low, -LARGEST)), min(high, LARGEST))


@njit(nogil=True, error_model="numpy")
def beyond(a: float, low: float, high: float) -> bool:
    """Return whether a is outside of [low, high] by more than rounding."""
    return a < low - 1e-15 * abs(low) or a > high + 1e-15 * abs(high)
