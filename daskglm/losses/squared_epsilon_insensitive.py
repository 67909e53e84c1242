"""The loss max(0, |y - z| - epsilon)^2, of support vector regression."""

from __future__ import annotations

import math

from daskglm.losses.base import SQUARED_EPSILON_INSENSITIVE, DualFormulas, Loss, Parameter


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and a generalised curvature, which jumps where |z - y| is epsilon."""
    r = z - y
    beyond = max(abs(r) - p1, 0.0)
    slope = 2.0 * beyond if r > 0.0 else -2.0 * beyond
    # 0 * z lets NaN and infinite margins through to the sum, which max() would hide
    return beyond * beyond + 0.0 * z, slope, 2.0 if abs(r) >= p1 else 0.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """a^2 / 4 - y a + epsilon |a|, for any a."""
    return 0.25 * a * a - y * a + p1 * abs(a)


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate, which is finite everywhere."""
    tilt = p1 if a > 0.0 else (-p1 if a < 0.0 else 0.0)
    return 0.25 * a * a - y * a + p1 * abs(a), 0.5 * a - y + tilt, 0.5, False


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row: Ho & Lin 2012, section 3.2."""
    u = y - z + q * a
    beyond = max(abs(u) - p1, 0.0) / (0.5 + q)
    return beyond if u > 0.0 else -beyond


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Any a will do."""
    return a


LOSS = Loss(
    "squared_epsilon_insensitive",
    row,
    classifies=False,
    shifts=True,
    smoothness=2.0,
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    p1=0.1,
    parameter=Parameter("epsilon", 0.0, math.inf, 0.1, closed=True),
    code=SQUARED_EPSILON_INSENSITIVE,
)
