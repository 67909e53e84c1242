"""The quantile loss, or pinball: q (y - z) above the prediction z, (1 - q) (z - y) below it.

Its slope jumps at y = z. With a width, the parameter p2, that corner is a parabola.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from daskglm.losses.base import QUANTILE, TINY, DualFormulas, Loss, Parameter


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, a slope and a generalised curvature, which is zero without a width."""
    r = y - z
    a = min(max(r / max(p2, TINY), p1 - 1.0), p1)
    inner = p2 > 0.0 and (p1 - 1.0) * p2 <= r and r <= p1 * p2
    # 0 * z lets NaN and infinite margins through to the sum, which min() would hide
    value = a * (r - 0.5 * p2 * a) + 0.0 * z
    return value, -a, 1.0 / max(p2, TINY) if inner else 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Width a^2 / 2 - y a, for a within [q - 1, q]."""
    return 0.5 * p2 * a * a - y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    outside = a > p1 + 1e-15 or a < p1 - 1.0 - 1e-15
    return 0.5 * p2 * a * a - y * a, p2 * a - y, p2, outside


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row."""
    return min(max((y - z + q * a) / max(q + p2, TINY), p1 - 1.0), p1)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a in [q - 1, q]."""
    return min(max(a, p1 - 1.0), p1)


def moved(y: Any, a: Any, width: float) -> Any:
    """Return targets that put a proximal term around the dual variables a into the loss."""
    return y + width * a


def smoothed(loss: Loss, width: float) -> Loss:
    """Round the corner over a width: as `smoothed_hinge`, with targets y + width a."""
    return replace(loss, p2=width, smoothness=1.0 / width, differentiable=True)


LOSS = Loss(
    "quantile",
    row,
    classifies=False,
    shifts=True,
    smoothness=math.inf,
    differentiable=False,
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    p1=0.5,
    parameter=Parameter("q", 0.0, 1.0, 0.5),
    smoothed=smoothed,
    moved=moved,
    code=QUANTILE,
)
