"""The losses seen from the dual: conjugates and exact coordinate steps of one row.

The dual variable a of a row stands for -slope at its margin, so w = C sum_i s_i a_i x_i. Formulas
only, as in `losses`: nothing here knows of rows or storage. For losses of classes p = y a is used,
whose domain does not depend on the label. Formulas: Shalev-Shwartz & Zhang 2013, section 6, for the
losses as `losses` scales them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from daskglm.losses.base import (
    HINGE,
    LOGISTIC,
    SMOOTHED_HINGE,
    SQUARED,
    SQUARED_HINGE,
    as_bits,
    as_float,
    exp,
    log1p,
)
from daskglm.system.compiled import compiled

_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52
TINY = 1e-300
# a Newton step is the last once its square, whose 0.05 bounds its error, is so small beside the
# move
INNER = 0.25


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _log(x: float) -> float:
    """log(x) for normal x > 0: exponent and 2 artanh((m - 1) / (m + 1)) of the mantissa;
    vectorises, unlike libm's.
    """
    bits = as_bits(x)
    k = float((bits >> 52) - 1023)
    m = as_float((bits & _MANTISSA) | _ONE)
    large = m > 2.0 * _SQRT_HALF
    k = k + 1.0 if large else k
    m = 0.5 * m if large else m
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    p = p * q + 1.0
    return 2.0 * s * p + k * _LN2


# ---- one row
@njit(nogil=True, error_model="numpy")
def _logistic_step(c: float, q: float, start: float) -> float:
    """Sigma(-m) at the m that solves m - q sigma(-m) = c: Newton's method, kept within brackets by
    bisection.

    The last Newton step is applied to sigma by its derivative: no further exponential, and it stays
    within (0, 1).
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


@njit(nogil=True, error_model="numpy")
def step(code, y, z, a, q):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row, all others fixed.

    `z` is its margin, `a` its dual variable now and `q` how much the margin falls when a falls by
    one. The new value is -slope at the margin u that solves u + q slope(u) = z - q a.
    """
    if code == SQUARED:
        return (y - z + q * a) / (1.0 + q)
    c = y * z - q * (y * a)
    if code == LOGISTIC:
        p = _logistic_step(c, q, y * z)
    elif code == SQUARED_HINGE:
        p = max(2.0 * (1.0 - c) / (1.0 + 2.0 * q), 0.0)
    elif code == SMOOTHED_HINGE:
        p = min(max((1.0 - c) / (1.0 + q), 0.0), 1.0)
    else:
        p = min(max((1.0 - c) / max(q, TINY), 0.0), 1.0)
    return y * p


@njit(nogil=True)
def into_domain(code, y, a):  # type: ignore[no-untyped-def]
    """The nearest dual variable at which the conjugate is finite."""
    if code == SQUARED:
        return a
    p = max(y * a, 0.0)
    return y * (p if code == SQUARED_HINGE else min(p, 1.0))


# ---- runs of rows
@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def conjugates(code, y, a, weight):  # type: ignore[no-untyped-def]
    """Weighted sum of loss*(-a) over a run of rows within the domain; an empty `weight` means
    ones.
    """
    total = 0.0
    weighted = len(weight) > 0
    if code == LOGISTIC:
        for t in range(len(a)):
            s = weight[t] if weighted else 1.0
            p = y[t] * a[t]
            total += s * (p * _log(max(p, TINY)) + (1.0 - p) * _log(max(1.0 - p, TINY)))
    else:
        square = 0.25 if code == SQUARED_HINGE else (0.0 if code == HINGE else 0.5)
        for t in range(len(a)):
            s = weight[t] if weighted else 1.0
            total += s * (square * a[t] * a[t] - y[t] * a[t])
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def losses(code, y, z, weight):  # type: ignore[no-untyped-def]
    """Weighted sum of the losses over a run of rows."""
    total = 0.0
    weighted = len(weight) > 0
    if code == LOGISTIC:
        for t in range(len(z)):
            m = y[t] * z[t]
            total += (weight[t] if weighted else 1.0) * (max(-m, 0.0) + log1p(exp(-abs(m))))
    elif code == SQUARED:
        for t in range(len(z)):
            total += (weight[t] if weighted else 1.0) * 0.5 * (z[t] - y[t]) * (z[t] - y[t])
    else:
        for t in range(len(z)):
            short = max(1.0 - y[t] * z[t], 0.0)
            if code == SQUARED_HINGE:
                short *= short
            elif code == SMOOTHED_HINGE:
                short = 0.5 * short * short if short < 1.0 else short - 0.5
            total += (weight[t] if weighted else 1.0) * short
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def products(z, a, weight):  # type: ignore[no-untyped-def]
    """Weighted sum of a z over a run of rows; with `losses` and `conjugates` the Fenchel-Young
    gap.
    """
    total = 0.0
    weighted = len(weight) > 0
    for t in range(len(z)):
        total += (weight[t] if weighted else 1.0) * a[t] * z[t]
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def along(code, y, weight, a, pending, previous, c1, c2, slope, hessian):  # type: ignore[no-untyped-def]
    """Sum of loss*(-(a + c1 pending + c2 previous)); adds its derivatives in c1 and c2. Infinite
    outside the domain.
    """
    total = 0.0
    g1, g2, h11, h12, h22 = 0.0, 0.0, 0.0, 0.0, 0.0
    outside = 0
    weighted = len(weight) > 0
    square = 0.25 if code == SQUARED_HINGE else (0.0 if code == HINGE else 0.5)
    for t in range(len(a)):
        s = weight[t] if weighted else 1.0
        d1, d2 = pending[t], previous[t]
        at = a[t] + c1 * d1 + c2 * d2
        p = y[t] * at
        if code == LOGISTIC:
            outside += 1 if (p < 0.0 or p > 1.0) and (d1 != 0.0 or d2 != 0.0) else 0
            p = min(max(p, TINY), 1.0)
            other = max(1.0 - p, 1e-17)
            log_p, log_other = _log(p), _log(other)
            value = p * log_p + other * log_other
            first = y[t] * (log_p - log_other)
            second = 1.0 / (p * other)
        else:
            if code != SQUARED:
                moved = d1 != 0.0 or d2 != 0.0
                outside += (
                    1
                    if moved and (p < -1e-15 or (code != SQUARED_HINGE and p > 1.0 + 1e-15))
                    else 0
                )
            value = square * at * at - y[t] * at
            first = 2.0 * square * at - y[t]
            second = 2.0 * square
        total += s * value
        g1 += s * first * d1
        g2 += s * first * d2
        h11 += s * second * d1 * d1
        h12 += s * second * d1 * d2
        h22 += s * second * d2 * d2
    slope[0] += g1
    slope[1] += g2
    hessian[0, 0] += h11
    hessian[0, 1] += h12
    hessian[1, 0] += h12
    hessian[1, 1] += h22
    return math.inf if outside else total
