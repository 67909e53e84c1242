"""Bounds by the Hessian for losses whose curvature changes at no bounded rate.

What curvatures do near a point follows from their margins there: see `Loss.local_rate`, and
`docs/certificates.md` for proofs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from daskglm.certificates.hessian_factor import UNIT, GradientError, HessianFactor, excess
from daskglm.certificates.rounding import Rounding, Vector
from daskglm.core.requests import Totals
from daskglm.core.summation import MOMENT
from daskglm.losses.base import LARGEST_FALL

# Least bound by a root of powers, which underflow below it; also covers the roundings of sums.
LEAST = 1e-9
# Largest change of a logarithm of a curvature by roundings that leaves the other bounds true.
MOST_CHANGED = 0.25
# Decrement times rate up to which the least value is where rates hold: 0.501.
LARGEST_STEP = 1.0 + math.expm1(-LARGEST_FALL) / LARGEST_FALL


class LocalRates(NamedTuple):
    """What the curvatures of all rows say of the Hessian at a point.

    Parameters
    ----------
    slopes, curvature : float
        Sums of the sizes of slopes and of curvatures, times C and weights.
    moved : float
        That of the curvatures times squared errors of margins.
    changed : float
        Bound on the errors of margins times rates, the change of the logarithm of any curvature.
    rate : float
        Bound on the rate of any row times the change of its margin by a step of norm one in that of
        the Hessian.
    """

    slopes: float
    curvature: float
    moved: float
    changed: float
    rate: float

    @classmethod
    def of(cls, totals: Totals, C: float) -> LocalRates:
        """Take the reply to a `RateSums`."""
        sums = (C * float(totals[name]) for name in ("slopes", "curvature", "moved"))
        largest = (
            max(float(totals[name]) ** (1.0 / MOMENT), LEAST) for name in ("changed", "rate")
        )
        return cls(*sums, *largest)

    def excess(
        self, rounding: Rounding, factor: HessianFactor, w: Vector, decrement: float
    ) -> float:
        """Bound the excess at the point; infinite where nothing is proved.

        Parameters
        ----------
        rounding : Rounding
        factor : HessianFactor
            Of the Hessian at the point.
        w : (size,) array, or its norms
        decrement : float
            Of the computed gradient.
        """
        if not (self.changed <= MOST_CHANGED and factor.proves):
            return math.inf
        grown = math.exp(self.changed)
        error = GradientError(
            margins=grown * grown * math.sqrt(self.moved),
            slopes=math.nan,  # the Hessian does not ask
            adding=rounding.terms * UNIT * self.slopes,
            penalty=2.0 * UNIT * rounding.strongest * rounding.norm(w),
        )
        decrement += rounding.by_factors.error(factor, error, rounding.columns)
        decrement *= grown
        rate = grown**3 * self.rate
        return excess(decrement, rate) if rate * decrement <= LARGEST_STEP else math.inf
