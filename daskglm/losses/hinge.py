"""The hinge max(0, 1 - y z), whose slope jumps: only the dual ascent minimises it."""

from __future__ import annotations

import math

from daskglm.losses.base import HINGE, TINY, DualFormulas, Loss
from daskglm.losses.smoothed_hinge import smoothed_hinge


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, a slope and no curvature."""
    m = y * z
    short = max(1.0 - m, 0.0)
    # 0 * m lets NaN and infinite margins through to the sum, which max() would hide
    return short + 0.0 * m, -y if short > 0.0 else 0.0, 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """-y a, for y a within [0, 1]."""
    return -y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    p = y * a
    return -p, -1.0 * y, 0.0, p < -1e-15 or p > 1.0 + 1e-15


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Shalev-Shwartz & Zhang 2013, section 6."""
    c = y * z - q * (y * a)
    return y * min(max((1.0 - c) / max(q, TINY), 0.0), 1.0)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a with y a in [0, 1]."""
    return y * min(max(y * a, 0.0), 1.0)


def best_constant(positive: float, negative: float, p1: float, p2: float) -> float:
    """Return the best constant margin: the sign of the class with more weight."""
    return float(positive > negative) - float(positive < negative)


LOSS = Loss(
    "hinge",
    row,
    classifies=True,
    smoothness=math.inf,
    differentiable=False,
    dual=DualFormulas(conjugate, derivatives, step, into_domain, best_constant),
    smoothed=lambda loss, width: smoothed_hinge(width),
    code=HINGE,
)
