"""Tweedie of a power p above 1: targets that are zero or, for p > 2, positive.

The links are the logarithm, the identity, and z = mu^q, by default the canonical q = 1 - p. The
variance is phi mu^p. Powers 1, 2 and 3 are those of Poisson, gamma and inverse Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.losses.base import (
    TINY,
    TWEEDIE,
    TWEEDIE_ABOVE_TWO,
    TWEEDIE_IDENTITY,
    TWEEDIE_POWER,
    Loss,
    Parameter,
)
from daskglm.losses.family import Domain, Family
from daskglm.losses.gamma import LOSSES as GAMMA
from daskglm.losses.links import LOG, POSITIVE_IDENTITY, power
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.tweedie_series import log_density
from daskglm.losses.vector_math import REMAINDER, exp_any, exp_less_linear, log


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature for 1 < p1 < 2."""
    a, b = p1 - 1.0, 2.0 - p1
    known = log(max(y, TINY)) if y > 0.0 else 0.0
    least, d = exp_any(b * known), z - known
    down, up = y * exp_any(-a * z), exp_any(b * z)
    down = down if y > 0.0 else 0.0
    parts = exp_less_linear(-a * d, down / least) / a + exp_less_linear(b * d, up / least) / b
    value = (least * parts if y > 0.0 else up / b) + 0.0 * z
    return value, up - down, min(a * down + b * up, LARGEST_CURVATURE)


def fisher(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Return the expected curvature."""
    return exp_any((2.0 - p1) * z)


def row_above_two(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature for p1 > 2, of which the value is not convex."""
    a, b = p1 - 1.0, 2.0 - p1
    known = log(max(y, TINY))
    least, d = exp_any(b * known), z - known
    down, up = y * exp_any(-a * z), exp_any(b * z)
    parts = exp_less_linear(-a * d, down / least) / a + exp_less_linear(b * d, up / least) / b
    # linear parts cancel, and far out nothing else is left of them
    parts = parts if abs(b * d) <= REMAINDER else (down / least - 1.0) / a + (up / least - 1.0) / b
    return least * parts + 0.0 * z, up - down, min(up, LARGEST_CURVATURE)


def row_power(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and expected curvature with the link z = mu^p2; infinite unless z > 0."""
    t = z if z > 0.0 else np.nan
    a, b = p1 - 1.0, 2.0 - p1
    known = log(max(y, TINY)) if y > 0.0 else 0.0
    m = log(max(t, TINY)) / p2
    least, d = exp_any(b * known), m - known
    down, up = y * exp_any(-a * m), exp_any(b * m)
    down = down if y > 0.0 else 0.0
    parts = exp_less_linear(-a * d, down / least) / a
    if b != 0.0:
        parts += exp_less_linear(b * d, up / least) / b
        # linear parts of unlike signs cancel, and far out nothing else is left of them
        far = b < 0.0 and abs(b * d) > REMAINDER
        parts = (down / least - 1.0) / a + (up / least - 1.0) / b if far else parts
    value = (least * parts if y > 0.0 else up / b) + 0.0 * z
    turned = 1.0 / (p2 * t)
    curvature = min(up * turned * turned, LARGEST_CURVATURE)
    return (value if z > 0.0 else np.inf), (up - down) * turned, curvature


def _rest_curvature(weight: float, total: float, p1: float) -> float:
    """Bound the sum of y^(2 - p): by Jensen's inequality at most that of rows with the mean."""
    return float(weight ** (p1 - 1.0) * total ** (2.0 - p1))


def _at(power: float) -> Loss:
    """Return the loss of a power."""
    if power == 2.0:
        return GAMMA[0]
    if power < 2.0:
        return replace(LOSSES[0], p1=power, self_concordance=max(power - 1.0, 2.0 - power))
    return replace(
        LOSSES[0],
        row=row_above_two,
        code=TWEEDIE_ABOVE_TWO,
        p1=power,
        convex=False,
        self_concordance=math.inf,
        family=_family(power),
        fisher=None,
        rest_curvature=None,
    )


def _family(power: float) -> Family:
    """Return the family of a power."""
    if power < 2.0:
        return FAMILY
    # the series of the density is for powers below two
    return replace(FAMILY, domain=Domain(0.0, open=True), log_density=None)


def _identity_at(power: float) -> Loss:
    """Return the loss of a power with the identity link."""
    if power == 2.0:
        return next(loss for loss in GAMMA if loss.link is POSITIVE_IDENTITY)
    return replace(LOSSES[1], p1=power, family=_family(power), has_open_ends=power < 2.0)


def _power_at(power: float) -> Loss:
    """Return the loss of a power with the canonical link."""
    return at_exponent(replace(LOSSES[2], p1=power, family=_family(power)), 1.0 - power)


def at_exponent(loss: Loss, exponent: float) -> Loss:
    """Return the loss with the link mu^exponent; ValueError for an exponent of zero."""
    if exponent == 0.0 or not math.isfinite(exponent):
        raise ValueError(
            f"link='power({exponent:g})': the exponent must be a number other than zero; "
            "link='log' is its limit"
        )
    # zero targets, which powers below two have, pull means to zero: margins to zero or away from it
    has_open_ends = loss.p1 < 2.0 and exponent > 0.0
    return replace(loss, p2=float(exponent), link=power(exponent), has_open_ends=has_open_ends)


FAMILY = Family(
    "tweedie",
    lambda mu, p1: np.asarray(mu) ** p1,
    Domain(0.0),
    log_density,
    variance_by_weight=True,
)

_POWER = Parameter("power", 1.0, math.inf, 1.5)

LOSSES = (
    Loss(
        "tweedie",
        row,
        classifies=False,
        smoothness=np.inf,
        self_concordance=0.5,
        family=FAMILY,
        link=LOG,
        fisher=fisher,
        rest_curvature=_rest_curvature,
        p1=1.5,
        parameter=_POWER,
        at=_at,
        code=TWEEDIE,
    ),
    Loss(
        "tweedie_identity",
        row_power,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=POSITIVE_IDENTITY,
        has_open_ends=True,
        p1=1.5,
        p2=1.0,
        parameter=_POWER,
        at=_identity_at,
        code=TWEEDIE_IDENTITY,
    ),
    Loss(
        "tweedie_power",
        row_power,
        classifies=False,
        smoothness=np.inf,
        convex=False,
        family=FAMILY,
        link=power(-0.5),
        p1=1.5,
        p2=-0.5,
        parameter=_POWER,
        at=_power_at,
        at_exponent=at_exponent,
        code=TWEEDIE_POWER,
    ),
)
