"""The logistic loss log(1 + exp(-y z))."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from daskglm.losses.base import LOGISTIC, TINY, DualFormulas, Loss
from daskglm.losses.vector_math import exp, log, twice_artanh

# A Newton step is the last once its square, of which a twentieth bounds its error, is this small
# beside the move.
INNER = 0.25


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature: equations (4)-(7) of Halloran & Rocke 2020, supplement."""
    m = y * z
    e = exp(-abs(m))
    both = 1.0 / ((1.0 + e) * (2.0 + e))  # one division for the slope's and the logarithm's
    other = (2.0 + e) * both
    p = e * other if m > 0.0 else other
    # 0 * m lets NaN and infinite margins through to the sum, which max() would hide
    value = max(-m, 0.0) + twice_artanh(e * (1.0 + e) * both) + 0.0 * m
    return value, -y * p, e * other * other


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """P log p + (1 - p) log(1 - p), p = y a within [0, 1]."""
    p = y * a
    return p * log(max(p, TINY)) + (1.0 - p) * log(max(1.0 - p, TINY))


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    p = y * a
    is_outside = p < 0.0 or p > 1.0
    p = min(max(p, TINY), 1.0)
    other = max(1.0 - p, 1e-17)
    log_p, log_other = log(p), log(other)
    return p * log_p + other * log_other, y * (log_p - log_other), 1.0 / (p * other), is_outside


@njit(nogil=True, error_model="numpy")
def sigma(c: float, q: float, start: float) -> float:
    """Return sigma(-m) at the root m of m - q sigma(-m) = c.

    It takes Newton's method, kept within brackets by bisection. The last step is applied to sigma
    by its derivative: no further exponential, and it stays within (0, 1).
    """
    low, high = c, c + q
    m = min(max(start, low), high)
    p, last = 0.5, np.inf
    for _ in range(200):
        e = math.exp(-abs(m))
        r = 1.0 / (1.0 + e)
        p = e * r if m > 0.0 else r
        slope = e * r * r
        excess = m - q * p - c
        if excess > 0.0:
            high = m
        else:
            low = m
        move = -excess / (1.0 + q * slope)
        if abs(move) <= 0.25 and (
            move * move <= INNER * abs(m + move - start) or abs(move) <= 1e-12 * (1.0 + abs(m))
        ):
            return p - slope * move
        if high - low <= 1e-15 * (abs(low) + abs(high)):
            break
        if not (low < m + move < high) or abs(move) > 0.5 * last:
            move = 0.5 * (low + high) - m
        last = abs(move)
        m += move
    return p


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Shalev-Shwartz & Zhang 2013, section 6."""
    return y * sigma(y * z - q * (y * a), q, y * z)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a with y a in [0, 1]."""
    return y * min(max(y * a, 0.0), 1.0)


def log_odds(positive: float, negative: float, p1: float, p2: float) -> float:
    """Return the best constant margin."""
    return math.log(positive / negative)


def intercept_radius(positive: float, negative: float, largest: float) -> float:
    """Margins all above log(S+/S-) would make the slopes sum to less than zero."""
    return abs(math.log(positive / negative)) if positive > 0 and negative > 0 else math.inf


LOSS = Loss(
    "logistic",
    row,
    classifies=True,
    smoothness=0.25,
    self_concordance=1.0,
    # 36: a row's loss is then the rounding of 1
    rest_margin=-math.log(np.finfo(float).eps),
    attains_infimum=False,
    intercept_radius=intercept_radius,
    dual=DualFormulas(conjugate, derivatives, step, into_domain, log_odds),
    code=LOGISTIC,
)
