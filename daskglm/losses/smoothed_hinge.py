"""The hinge with its corner rounded to a parabola over a width, the parameter p1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from daskglm.losses.base import SMOOTHED_HINGE, DualFormulas, Loss


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and a generalised curvature; |y| is where the corner is, 1 but for a centre."""
    width = p1
    label = 1.0 if y > 0.0 else -1.0
    short = max(abs(y) - label * z, 0.0)
    # with the corner at w = 0, where first steps are scaled by curvature
    inner = short <= width
    # 0 * z lets NaN and infinite margins through to the sum, which max() would hide
    value = (0.5 * short * short / width if inner else short - 0.5 * width) + 0.0 * z
    slope = -label * min(short / width, 1.0)
    return value, slope, 1.0 / width if inner and short > 0.0 else 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Width a^2 / 2 - y a, for y a within [0, 1]."""
    return 0.5 * p1 * a * a - y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    p = y * a
    return 0.5 * p1 * a * a - p, p1 * a - y, p1, p < -1e-15 or p > 1.0 + 1e-15


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Shalev-Shwartz & Zhang 2013, section 6."""
    c = y * z - q * (y * a)
    return y * min(max((1.0 - c) / (p1 + q), 0.0), 1.0)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a with y a in [0, 1]."""
    return y * min(max(y * a, 0.0), 1.0)


def moved(y: Any, a: Any, width: float) -> Any:
    """Return labels that put a proximal term around the dual variables a into the loss."""
    return y * (1.0 + width * abs(a))


def best_constant(positive: float, negative: float, p1: float, p2: float) -> float:
    """Return the best constant margin."""
    side = float(positive > negative) - float(positive < negative)
    return side * (1.0 - p1 * min(positive, negative) / max(positive, negative))


LOSS = Loss(
    "smoothed_hinge",
    row,
    classifies=True,
    smoothness=1.0,
    dual=DualFormulas(conjugate, derivatives, step, into_domain, best_constant),
    p1=1.0,
    moved=moved,
    code=SMOOTHED_HINGE,
)


def smoothed_hinge(width: float) -> Loss:
    """Make the hinge with its corner rounded over a width; labels may be any numbers but zero.

    With a label y (1 + width p) it is, but for a constant, the hinge plus a proximal term in the
    dual variable of its row: max over 0 <= q <= 1 of q (1 - y z) - width / 2 (q - p)^2.
    """
    return replace(LOSS, p1=width, smoothness=1.0 / width)
