"""The squared hinge max(0, 1 - y z)^2."""

from __future__ import annotations

from daskglm.losses.base import SQUARED_HINGE, DualFormulas, Loss


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and a generalised curvature, which jumps at y z = 1."""
    m = y * z
    short = max(1.0 - m, 0.0)
    # 0 * m lets NaN and infinite margins through to the sum, which max() would hide
    return short * short + 0.0 * m, -2.0 * y * short, 2.0 if short > 0.0 else 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """a^2 / 4 - y a, for y a >= 0."""
    return 0.25 * a * a - y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate; whether a is outside of its domain."""
    return 0.25 * a * a - y * a, 0.5 * a - y, 0.5, y * a < -1e-15


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Shalev-Shwartz & Zhang 2013, section 6."""
    c = y * z - q * (y * a)
    return y * max(2.0 * (1.0 - c) / (1.0 + 2.0 * q), 0.0)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Return the nearest a with y a >= 0."""
    return y * max(y * a, 0.0)


def best_constant(positive: float, negative: float, p1: float, p2: float) -> float:
    """Return the best constant margin."""
    return (positive - negative) / (positive + negative)


LOSS = Loss(
    "squared_hinge",
    row,
    classifies=True,
    smoothness=2.0,
    has_two_curvatures=True,
    dual=DualFormulas(conjugate, derivatives, step, into_domain, best_constant),
    code=SQUARED_HINGE,
)
