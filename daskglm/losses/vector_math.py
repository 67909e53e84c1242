"""exp, log and log1p as numba vectorises them.

They are written out because LLVM vectorises arithmetic but not calls into libm: over a tile of
margins a loop over these runs about four times as fast as one over `math.exp` and `math.log1p`. The
polynomials of `exp` and `log1p` interpolate at Chebyshev's nodes, exp(r) and artanh(s) / s to
relative errors of 2e-17 and 3e-18, rounded coefficients included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
# 1.5 * 2**52: adding it rounds to an integer, left in the low bits of the sum
_ROUND = 6755399441055744.0
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52


@intrinsic
def as_bits(typingctx: Any, x: Any) -> Any:
    """Return the bits of a float64 as an int64."""
    return types.int64(types.float64), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(types.int64)
    )


@intrinsic
def as_float(typingctx: Any, x: Any) -> Any:
    """Return the float64 that has the bits of an int64."""
    return types.float64(types.int64), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(types.float64)
    )


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp(x: float) -> float:
    """Return exp(x) for -708 <= x <= 0, and exp(-708) for smaller x.

    By Cody-Waite reduction to |r| <= log(2) / 2 and a polynomial.
    """
    x = max(x, -708.0)
    shifted = x * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 2.5110049204818658e-08
    p = p * r + 2.763265472252779e-07
    p = p * r + 2.755724088722987e-06
    p = p * r + 2.4801485441561313e-05
    p = p * r + 0.00019841269890076403
    p = p * r + 0.0013888888952352863
    p = p * r + 0.008333333333319589
    p = p * r + 0.04166666666648795
    p = p * r + 0.1666666666666668
    p = p * r + 0.5000000000000019
    p = p * r + 1.0
    p = p * r + 1.0
    return p * as_float((as_bits(shifted) + 1023) << 52)


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp_any(x: float) -> float:
    """Return exp(x) for any x: exp(-708) for smaller ones, infinity above 709."""
    inside = min(max(x, -708.0), 709.0)
    shifted = inside * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = (inside - k * _LN2_HIGH) - k * _LN2_LOW
    p = 2.5110049204818658e-08
    p = p * r + 2.763265472252779e-07
    p = p * r + 2.755724088722987e-06
    p = p * r + 2.4801485441561313e-05
    p = p * r + 0.00019841269890076403
    p = p * r + 0.0013888888952352863
    p = p * r + 0.008333333333319589
    p = p * r + 0.04166666666648795
    p = p * r + 0.1666666666666668
    p = p * r + 0.5000000000000019
    p = p * r + 1.0
    p = p * r + 1.0
    value = p * as_float((as_bits(shifted) + 1023) << 52)
    value = np.inf if x > 709.0 else value
    return x if x != x else value  # NaN as it is


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def less(a: float, b: float) -> float:
    """Return a - b as it stands: callers that reassociate sums do not take it apart."""
    return a - b


# Largest |d| of `exp_remainder`.
REMAINDER = 0.5


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp_remainder(d: float) -> float:
    """Return exp(d) - 1 - d for |d| <= `REMAINDER`, by its series: the difference would cancel."""
    p = 1.0 / 1307674368000.0
    p = p * d + 1.0 / 87178291200.0
    p = p * d + 1.0 / 6227020800.0
    p = p * d + 1.0 / 479001600.0
    p = p * d + 1.0 / 39916800.0
    p = p * d + 1.0 / 3628800.0
    p = p * d + 1.0 / 362880.0
    p = p * d + 1.0 / 40320.0
    p = p * d + 1.0 / 5040.0
    p = p * d + 1.0 / 720.0
    p = p * d + 1.0 / 120.0
    p = p * d + 1.0 / 24.0
    p = p * d + 1.0 / 6.0
    p = p * d + 0.5
    return d * d * p


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp_less_linear(d: float, e: float) -> float:
    """Return e - 1 - d for e = exp(d) and any d: at least zero, and exact to rounding near zero."""
    near = exp_remainder(min(max(d, -REMAINDER), REMAINDER))
    return near if abs(d) <= REMAINDER else e - 1.0 - d


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def log1p(t: float) -> float:
    """log(1 + t) for 0 <= t <= 1, as 2 artanh(t / (2 + t))."""
    return twice_artanh(t / (2.0 + t))


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def twice_artanh(s: float) -> float:
    """2 artanh(s) for 0 <= s <= 1/3: s times a polynomial in s^2."""
    q = s * s
    p = 0.08522081781390699
    p = p * q + 0.0416225325593041
    p = p * q + 0.06055084364034609
    p = p * q + 0.06650187016337313
    p = p * q + 0.07693307021152004
    p = p * q + 0.09090870416252403
    p = p * q + 0.11111112040373837
    p = p * q + 0.14285714272727057
    p = p * q + 0.20000000000092874
    p = p * q + 0.33333333333333076
    p = p * q + 1.0
    return 2.0 * s * p


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def log(x: float) -> float:
    """Return log(x) for normal x > 0.

    By the exponent and 2 artanh((m - 1) / (m + 1)) of the mantissa m. It vectorises, unlike that of
    libm.
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


# Largest |u| for which u - log(1 + u) is taken from a series, and least x of a logarithm.
_NEAR_ONE, _LEAST = 0.25, 1e-300


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _near_one(u: float) -> float:
    """Return u - log(1 + u) for |u| <= `_NEAR_ONE`.

    That is u s - (2 artanh(s) - 2 s) with s = u / (2 + u).
    """
    s = u / (2.0 + u)
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
    return u * s - 2.0 * s * q * p


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def linear_less_log(x: float) -> float:
    """Return x - 1 - log(x): at least zero, exact to rounding near one; infinite for x <= 0."""
    u = x - 1.0
    far = u - log(max(x, _LEAST))
    far = np.inf if x < _LEAST else far
    return _near_one(u) if abs(u) <= _NEAR_ONE else far


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def linear_less_log1p(u: float) -> float:
    """Return u - log(1 + u) for u > -1: at least zero, and exact to rounding near zero."""
    return _near_one(u) if abs(u) <= _NEAR_ONE else u - log(max(1.0 + u, _LEAST))


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def divergence(p: float, q: float, d: float) -> float:
    """Return p log(p / r) + q log(q / (1 - r)) for p + q = 1, r the share of log odds d above p's.

    That is log(1 + p (exp(d) - 1)) - p d. By the smaller share it is a difference of two numbers of
    which the smaller is at most half of the larger.
    """
    s, other, t = (q, p, -d) if p > q else (p, q, d)
    e = exp_any(t)
    bent = exp_less_linear(t, e)
    grown = s * (t + bent)
    near = s * bent - linear_less_log1p(min(grown, 1.0))
    far = other * t + log(s + other * exp_any(-t))
    return max(near if grown < 1.0 else far, 0.0) + 0.0 * d
