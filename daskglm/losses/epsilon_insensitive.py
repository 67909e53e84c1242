"""The epsilon-insensitive loss max(0, |y - z| - epsilon), of support vector regression.

Its slope jumps where |y - z| is epsilon. With a width, the parameter p2, those corners are
parabolas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from daskglm.losses.base import EPSILON_INSENSITIVE, TINY, DualFormulas, Loss, Parameter


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, a slope and a generalised curvature, which is zero without a width."""
    r = y - z
    beyond = max(abs(r) - p1, 0.0)
    size = min(beyond / max(p2, TINY), 1.0)
    inner = p2 > 0.0 and p1 <= abs(r) and abs(r) <= p1 + p2
    # 0 * z lets NaN and infinite margins through to the sum, which min() would hide
    value = size * (beyond - 0.5 * p2 * size) + 0.0 * z
    return value, -size if r > 0.0 else size, 1.0 / max(p2, TINY) if inner else 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Width a^2 / 2 - y a + epsilon |a|, for a within [-1, 1]."""
    return 0.5 * p2 * a * a - y * a + p1 * abs(a)


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    tilt = p1 if a > 0.0 else (-p1 if a < 0.0 else 0.0)
    value = 0.5 * p2 * a * a - y * a + p1 * abs(a)
    return value, p2 * a - y + tilt, p2, abs(a) > 1.0 + 1e-15


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Ho & Lin 2012, section 3.2."""
    u = y - z + q * a
    beyond = min(max(abs(u) - p1, 0.0) / max(q + p2, TINY), 1.0)
    return beyond if u > 0.0 else -beyond


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a in [-1, 1]."""
    return min(max(a, -1.0), 1.0)


def moved(y: Any, a: Any, width: float) -> Any:
    """Return targets that put a proximal term around the dual variables a into the loss."""
    return y + width * a


def smoothed(loss: Loss, width: float) -> Loss:
    """Round the corners over a width: as `smoothed_hinge`, with targets y + width a."""
    return replace(loss, p2=width, smoothness=1.0 / width, differentiable=True)


LOSS = Loss(
    "epsilon_insensitive",
    row,
    classifies=False,
    shifts=True,
    smoothness=math.inf,
    differentiable=False,
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    p1=0.1,
    parameter=Parameter("epsilon", 0.0, math.inf, 0.1, closed=True),
    smoothed=smoothed,
    moved=moved,
    code=EPSILON_INSENSITIVE,
)
