"""The loss -log(F(a) - F(b)) of a row between two thresholds, for links other than the logit.

a = t_y - z is the way to the upper threshold and b = t_(y-1) - z to the lower one; f is the density
of F, P = F(a) - F(b), and psi = -f'/f, which increases. By z the terms of both thresholds have the
slopes f(a) / P and -f(b) / P, and with the mean E of psi between b and a the row's Hessian is

    (f(a) / P) (psi(a) - E)  along z - t_y,    (f(b) / P) (E - psi(b))  along z - t_(y-1),
    f(a) f(b) / P^2          along t_y - t_(y-1),

none of them negative. Functions return six numbers: the value, slope and curvature of the upper
threshold, those of the lower one without its sign, and the curvature between both.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from daskglm.losses.binomial import log_tail, mills
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.vector_math import exp_any, exp_less_linear

PROBIT, CLOGLOG = 1, 2

# Where the gap is at most 1, and at most 2 over the distance of its middle from zero, a density
# changes by at most e within it from the middle: Gauss's rule with eight points then has an error
# below 1e-16, and sums numbers of one sign where differences of two F would cancel.
_WIDEST, _STEEPEST = 1.0, 2.0
_NODES, _WEIGHTS = (part[4:] for part in np.polynomial.legendre.leggauss(8))
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
# Value of -log(1 - F) below which the first two terms of series are exact, and from which F is 1.
_SELDOM, _CERTAIN = 1e-8, 700.0


@njit(nogil=True, error_model="numpy")
def _probit_near(c: float, h: float) -> tuple[float, float, float, float, float, float]:
    """The probit between c - h and c + h, by Gauss's rule."""
    total, right, left = 0.0, 0.0, 0.0
    for i in range(len(_NODES)):
        x = h * _NODES[i]
        up = _WEIGHTS[i] * math.exp(-x * (c + 0.5 * x))
        down = _WEIGHTS[i] * math.exp(x * (c - 0.5 * x))
        total += up + down
        right += up * (h - x) + down * (h + x)
        left += up * (h + x) + down * (h - x)
    mass = h * total
    above, below = math.exp(-h * (c + 0.5 * h)) / mass, math.exp(h * (c - 0.5 * h)) / mass
    value = 0.5 * c * c + _LOG_ROOT_TWO_PI - math.log(mass)
    return value, above, above * right / total, below, below * left / total, above * below


@njit(nogil=True, error_model="numpy")
def _probit_left(a: float, b: float, gap: float) -> tuple[float, float, float, float, float, float]:
    """The probit between b and a, a + b <= 0, by Mills's ratios of both tails."""
    upper, bent = mills(a)
    lower, bent_lower = mills(b)
    fallen = math.exp(0.5 * gap * (a + b))  # f(b) / f(a)
    share = fallen * upper / lower  # F(b) / F(a)
    rest = 1.0 - share
    value = -log_tail(a) - math.log1p(-share)
    above, below = upper / rest, fallen * upper / rest
    from_above = max(bent - share * (bent_lower + gap), 0.0) / rest
    from_below = max(gap - bent + share * bent_lower, 0.0) / rest
    return value, above, above * from_above, below, below * from_below, above * below


@njit(nogil=True, error_model="numpy")
def probit(
    a: float, b: float, gap: float, has_above: bool, has_below: bool
) -> tuple[float, float, float, float, float, float]:
    """F is the normal distribution function."""
    if not has_below:
        ratio, bent = mills(a)
        return -log_tail(a), ratio, max(ratio * bent, 0.0), 0.0, 0.0, 0.0
    if not has_above:
        ratio, bent = mills(-b)
        return -log_tail(-b), 0.0, 0.0, ratio, max(ratio * bent, 0.0), 0.0
    middle = 0.5 * (a + b)
    if gap <= _WIDEST and abs(middle) * gap <= _STEEPEST:
        return _probit_near(middle, 0.5 * gap)
    if middle <= 0.0:
        return _probit_left(a, b, gap)
    # on the side where both F are small
    value, below, bent_below, above, bent_above, between = _probit_left(-b, -a, gap)
    return value, above, bent_above, below, bent_below, between


@njit(nogil=True, error_model="numpy")
def cloglog(
    a: float, b: float, gap: float, has_above: bool, has_below: bool
) -> tuple[float, float, float, float, float, float]:
    """F(a) = 1 - exp(-exp(a)): an exponential law between u = exp(b) and u + grown = exp(a)."""
    u = exp_any(b) if has_below else 0.0
    slope = min(u, LARGEST_CURVATURE)
    if not has_above:
        return u, 0.0, 0.0, slope, slope, 0.0
    shrunk = -math.expm1(-gap) if has_below else 1.0  # grown / exp(a)
    log_grown = a + math.log(shrunk)
    grown = exp_any(log_grown)
    # grown / (exp(grown) - 1), and one less that
    odds, mean, seldom = 0.0, 1.0, 0.0
    if grown < _SELDOM:
        mean = grown * (0.5 - grown / 12.0)
        odds, seldom = 1.0 - mean, 0.5 * grown - log_grown
    elif grown < _CERTAIN:
        e = math.expm1(grown)
        odds, mean = grown / e, exp_less_linear(grown, 1.0 + e) / e
        seldom = -math.log(-math.expm1(-grown))
    above = odds / shrunk
    bent = above * (grown - mean) if odds > 0.0 else 0.0
    if not has_below:
        return seldom, above, bent, 0.0, 0.0, 0.0
    below = slope + odds / math.expm1(gap)
    return u + seldom, above, bent, below, below * mean, above * below


@njit(nogil=True, error_model="numpy")
def row(
    link: float, a: float, b: float, gap: float, has_above: bool, has_below: bool
) -> tuple[float, float, float, float, float, float]:
    """The loss of a row with the link of a code; infinite where thresholds do not increase."""
    if not gap > 0.0:
        return np.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    if link == PROBIT:
        return probit(a, b, gap, has_above, has_below)
    return cloglog(a, b, gap, has_above, has_below)
