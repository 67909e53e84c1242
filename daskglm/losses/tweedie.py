"""Tweedie of a power p above 1, with the log link: targets that are zero or, for p > 2, positive.

The variance is phi mu^p. Powers 1, 2 and 3 are those of Poisson, gamma and inverse Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.losses.base import TINY, TWEEDIE, TWEEDIE_ABOVE_TWO, Loss, Parameter
from daskglm.losses.family import Domain, Family
from daskglm.losses.gamma import LOSSES as GAMMA
from daskglm.losses.links import LOG
from daskglm.losses.poisson import LARGEST_CURVATURE
from daskglm.losses.tweedie_series import log_density
from daskglm.losses.vector_math import exp_any, exp_less_linear, log


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
    return least * parts + 0.0 * z, up - down, min(up, LARGEST_CURVATURE)


def _rest_curvature(weight: float, total: float, p1: float) -> float:
    """Bound the sum of y^(2 - p): by Jensen's inequality at most that of rows with the mean."""
    return float(weight ** (p1 - 1.0) * total ** (2.0 - p1))


def _at(power: float) -> Loss:
    """Return the loss of a power."""
    if power == 2.0:
        return GAMMA[0]
    if power < 2.0:
        return replace(LOSS, p1=power, self_concordance=max(power - 1.0, 2.0 - power))
    return replace(
        LOSS,
        row=row_above_two,
        code=TWEEDIE_ABOVE_TWO,
        p1=power,
        convex=False,
        self_concordance=math.inf,
        # the series of the density is for powers below two
        family=replace(FAMILY, domain=Domain(0.0, open=True), log_density=None),
        fisher=None,
        rest_curvature=None,
    )


FAMILY = Family(
    "tweedie",
    lambda mu, p1: np.asarray(mu) ** p1,
    Domain(0.0),
    log_density,
    variance_by_weight=True,
)

LOSS = Loss(
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
    parameter=Parameter("power", 1.0, math.inf, 1.5),
    at=_at,
    code=TWEEDIE,
)
