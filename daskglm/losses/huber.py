"""The Huber loss: squared for residuals up to the parameter delta, linear beyond."""

from __future__ import annotations

import math

from daskglm.losses.base import HUBER, DualFormulas, Loss, Parameter

# Share of delta / |z - y|, the curvature of iteratively reweighted least squares, that the linear
# parts are given. Their own is zero: far from all targets a Hessian would say nothing. More would
# slow the last steps. Chosen.
SHARE = 0.1


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and a generalised curvature: 1 up to delta, less of it beyond (`SHARE`)."""
    r = z - y
    slope = min(max(r, -p1), p1)
    # 0 * z lets NaN and infinite margins through to the sum, which min() would hide
    value = slope * (r - 0.5 * slope) + 0.0 * z
    return value, slope, 1.0 if abs(r) <= p1 else SHARE * p1 / abs(r)


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """a^2 / 2 - y a, for a within [-delta, delta]."""
    return 0.5 * a * a - y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    return 0.5 * a * a - y * a, a - y, 1.0, abs(a) > p1 * (1.0 + 1e-15)


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row."""
    return min(max((y - z + q * a) / (1.0 + q), -p1), p1)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a with |a| <= delta."""
    return min(max(a, -p1), p1)


LOSS = Loss(
    "huber",
    row,
    classifies=False,
    shifts=True,
    smoothness=1.0,
    has_two_curvatures=True,
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    p1=1.35,
    parameter=Parameter("delta", 0.0, math.inf, 1.35),
    code=HUBER,
)
