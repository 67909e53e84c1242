"""The squared loss (z - y)^2 / 2, of regressions."""

from __future__ import annotations

from daskglm.losses.base import SQUARED, DualFormulas, Loss
from daskglm.losses.gaussian import FAMILY
from daskglm.losses.links import IDENTITY


def row(y, z, p1, p2):  # type: ignore[no-untyped-def]
    """Value, slope and curvature."""
    r = z - y
    return 0.5 * r * r, r, 1.0


def conjugate(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """a^2 / 2 - y a, for any a."""
    return 0.5 * a * a - y * a


def derivatives(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Value and derivatives in a of the conjugate, which is finite everywhere."""
    return 0.5 * a * a - y * a, a - y, 1.0, False


def step(y, z, a, q, p1, p2):  # type: ignore[no-untyped-def]
    """Return the best dual variable of one row."""
    return (y - z + q * a) / (1.0 + q)


def into_domain(y, a, p1, p2):  # type: ignore[no-untyped-def]
    """Any a will do."""
    return a


LOSS = Loss(
    "squared",
    row,
    classifies=False,
    smoothness=1.0,
    self_concordance=0.0,
    is_quadratic=True,
    family=FAMILY,
    link=IDENTITY,
    shifts=True,
    dual=DualFormulas(conjugate, derivatives, step, into_domain),
    code=SQUARED,
)
