"""The losses: value, slope and curvature of one row as functions of its label and margin.

Formulas only: nothing here knows of rows, sums, storage or penalties. Solvers read the constants of
`Loss`; the kernels call `tile`, which applies one loss to a run of rows small enough to stay in the
first-level cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

LOGISTIC, SQUARED_HINGE, SQUARED, HINGE, SMOOTHED_HINGE = range(5)


@dataclass(frozen=True)
class Loss:
    """One loss: its name, the integer that selects its branch in the kernels, and what solvers may
    rely on.

    Parameters
    ----------
    name : str
        The name users write.
    code : int
        Branch of `tile`. An integer, because kernels that take a jitted function never reach
        numba's disk cache.
    classifies : bool
        True if labels are -1/+1, False if they are real numbers.
    smoothness : float
        Supremum of the curvature; infinite where the slope jumps.
    concordance : float
        Supremum of |third derivative| over curvature; infinite where the curvature jumps.
    """

    name: str
    code: int
    classifies: bool
    smoothness: float
    concordance: float = math.inf

    def intercept_span(self, positive: float, negative: float, largest: float) -> float:
        """How far the best intercept can lie outside the range of -x.w; bounds the cost of a wrong
        intercept.

        At the optimum the slopes sum to zero. Margins all above log(S+/S-) (logistic) or 1
        (hinges), or residuals all of one sign (squared), make that impossible; this bounds the
        intercept from both sides.

        Parameters
        ----------
        positive, negative : float
            Total weight of the two classes.
        largest : float
            Largest absolute label of a regression.
        """
        if self.code == LOGISTIC:
            return abs(math.log(positive / negative)) if positive > 0 and negative > 0 else math.inf
        return 1.0 if self.classifies else largest

    def best_constant(self, positive: float, negative: float) -> float:
        """The margin z at which positive * loss(z) + negative * loss(-z) is least: the intercept of
        a fit with w = 0.

        Parameters
        ----------
        positive, negative : float
            Total weights of the two classes, both above zero.
        """
        if self.code == LOGISTIC:
            return math.log(positive / negative)
        if self.code == SQUARED_HINGE:
            return (positive - negative) / (positive + negative)
        side = float(positive > negative) - float(positive < negative)
        width = 10.0 ** (SMOOTHED_HINGE - self.code) if self.code >= SMOOTHED_HINGE else 0.0
        return side * (1.0 - width * min(positive, negative) / max(positive, negative))


def smoothed_hinge(level: int) -> Loss:
    """The hinge with its corner rounded over a width of 10 ** -level; labels may be any numbers but
    zero.

    With a label y (1 + width p) it is, but for a constant, the hinge plus a proximal term in the
    dual variable of its row: max over 0 <= q <= 1 of q (1 - y z) - width / 2 (q - p)^2.
    """
    return Loss("smoothed_hinge", SMOOTHED_HINGE + level, True, 10.0**level)


LOSSES = {
    "logistic": Loss("logistic", LOGISTIC, True, 0.25, 1.0),
    "squared_hinge": Loss("squared_hinge", SQUARED_HINGE, True, 2.0),
    "hinge": Loss("hinge", HINGE, True, math.inf),
    "smoothed_hinge": smoothed_hinge(0),
    "squared": Loss("squared", SQUARED, False, 1.0, 0.0),
}


# ---- scalars for numba exp and log1p are written out because LLVM vectorises arithmetic but not
# calls into libm: over a tile of margins the loop below runs about four times as fast as one over
# math.exp and math.log1p. Both polynomials interpolate at Chebyshev's nodes, exp(r) and artanh(s) /
# s to relative errors of 2e-17 and 3e-18, rounded coefficients included.
_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
# 1.5 * 2**52: adding it rounds to an integer, left in the low bits of the sum
_ROUND = 6755399441055744.0


@intrinsic
def as_bits(typingctx: Any, x: Any) -> Any:
    """The bits of a float64 as an int64."""
    return types.int64(types.float64), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(types.int64)
    )


@intrinsic
def as_float(typingctx: Any, x: Any) -> Any:
    """The float64 that has the bits of an int64."""
    return types.float64(types.int64), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(types.float64)
    )


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def exp(x: float) -> float:
    """exp(x) for -708 <= x <= 0 (smaller x as -708): Cody-Waite reduction to |r| <= log(2) / 2,
    then a polynomial.
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
def log1p(t: float) -> float:
    """log(1 + t) for 0 <= t <= 1, as 2 artanh(t / (2 + t))."""
    return _twice_artanh(t / (2.0 + t))


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _twice_artanh(s: float) -> float:
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


@njit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def tile(code, y, z, weight, slope, curvature):  # type: ignore[no-untyped-def]
    """Apply one loss to a run of rows; return the weighted sum of its values.

    `slope` and `curvature` receive the weighted derivatives with respect to the margins `z`. All
    arrays are float64 of one length; an empty `weight` means weights of one. Formulas: equations
    (4)-(7) of Halloran & Rocke 2020, supplement; the hinges use generalised Hessians (zero for the
    plain one). The terms `0.0 * m` let NaN and infinite margins through to the sum, which max()
    would hide.
    """
    total = 0.0
    weighted = len(weight) > 0
    if code == LOGISTIC:
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            m = y[t] * z[t]
            e = exp(-abs(m))
            both = 1.0 / ((1.0 + e) * (2.0 + e))  # one division for the slope's and the logarithm's
            other = (2.0 + e) * both
            p = e * other if m > 0.0 else other
            slope[t] = -s * y[t] * p
            curvature[t] = s * e * other * other
            total += s * (max(-m, 0.0) + _twice_artanh(e * (1.0 + e) * both) + 0.0 * m)
    elif code == SQUARED_HINGE:
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            m = y[t] * z[t]
            short = max(1.0 - m, 0.0)
            slope[t] = -2.0 * s * y[t] * short
            curvature[t] = 2.0 * s if short > 0.0 else 0.0
            total += s * (short * short + 0.0 * m)
    elif code == HINGE:
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            m = y[t] * z[t]
            short = max(1.0 - m, 0.0)
            slope[t] = -s * y[t] if short > 0.0 else 0.0
            curvature[t] = 0.0
            total += s * (short + 0.0 * m)
    elif code >= SMOOTHED_HINGE:
        width = 10.0 ** (SMOOTHED_HINGE - code)
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            label = 1.0 if y[t] > 0.0 else -1.0
            short = max(abs(y[t]) - label * z[t], 0.0)
            # with the corner at w = 0, where first steps are scaled by curvature
            inner = short <= width
            slope[t] = -s * label * min(short / width, 1.0)
            curvature[t] = s / width if inner and short > 0.0 else 0.0
            total += s * (
                (0.5 * short * short / width if inner else short - 0.5 * width) + 0.0 * z[t]
            )
    else:
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            r = z[t] - y[t]
            slope[t] = s * r
            curvature[t] = s
            total += 0.5 * s * r * r
    return total
