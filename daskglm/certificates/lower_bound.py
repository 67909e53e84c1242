"""Bound the optimum of an objective with kinks by a point's value and gradient alone.

Losses are convex and not negative, so L(w') >= c (L(w) + g.(w' - w)) for every c in [0, 1]. Adding
the penalty and taking the least over w' gives a lower bound on the optimum for every c: the dual
value at c times the slopes. `docs/certificates.md` has the proof.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.optimize

from daskglm.penalties.kinks import Kinks


class Tangent(NamedTuple):
    """The smooth part at a point, and how well it is known.

    Parameters
    ----------
    value : float
        Of the losses, and of what quadratic penalties are counted with them.
    gradient : (d,) array
        By the features.
    at : (d,) array
        Coefficients.
    curvature : (d,) array
        Of quadratic penalties that are not in the value.
    is_quadratic : bool
        Whether the smooth part is quadratic.
    loose : float
        By how much the tangent may lie lower, because of the intercept's gradient and of rounding.
    error : (d,) array
        Bounds on the errors of the gradient's entries.
    """

    value: float
    gradient: np.ndarray
    at: np.ndarray
    curvature: np.ndarray
    is_quadratic: bool
    loose: float
    error: np.ndarray


def lower_bound(tangent: Tangent, kinks: Kinks) -> float:
    """Return a number below the optimum: the largest over c of what one tangent proves.

    Parameters
    ----------
    tangent : Tangent
    kinks : Kinks
        For vectors of features, without the intercept.
    """
    g, error = tangent.gradient, tangent.error
    columns = kinks.over(g, error)
    most = kinks.most_share(g, tangent.curvature, error, columns)
    # where losses vanish: value less gradient times coefficients
    live = np.flatnonzero(tangent.at != 0.0)
    at = tangent.at[live]
    constant = tangent.value - float(g[live] @ at) - tangent.loose
    constant -= float(error[live] @ np.abs(at))

    # others have a conjugate of zero for every c up to that
    columns = columns[tangent.curvature[columns] > 0.0]
    if kinks.is_bounded:
        bounded = np.flatnonzero(np.isfinite(kinks.lower) | np.isfinite(kinks.upper))
        columns = np.union1d(columns, bounded)
    columns = columns[~kinks.is_grouped[columns]]
    some = kinks.restricted(columns, len(columns))
    slopes, curvature, off = -g[columns], tangent.curvature[columns], error[columns]
    square = max(tangent.value - tangent.loose, 0.0) if tangent.is_quadratic else 0.0

    def bound(c: float) -> tuple[float, float]:
        """Return what c proves, and its slope in c."""
        held, slope = some.conjugate(slopes, curvature, off, c) if len(columns) else (0.0, 0.0)
        return (
            c * constant + c * (1.0 - c) * square - held,
            constant + (1.0 - 2.0 * c) * square - slope,
        )

    # it is concave: the largest is at an end, or where the slope is zero
    best, slope = bound(most)
    if math.isfinite(slope) and slope < 0.0 < bound(0.0)[1]:
        c = scipy.optimize.brentq(lambda c: bound(c)[1], 0.0, most, xtol=1e-15, disp=False)
        best = max(best, bound(float(c))[0])
    return best if 0.0 < best < math.inf else 0.0


def largest_norm(kinks: Kinks, curvature: np.ndarray, value: float) -> float:
    """Bound the norm of the features' coefficients of the optimum; infinite where nothing does.

    Parameters
    ----------
    kinks : Kinks
        For vectors of features, without the intercept.
    curvature : (d,) array
        Of the quadratic penalty of each feature.
    value : float
        Of the objective at some point.
    """
    value = value if value >= 0.0 else math.inf  # foretold by sums that cancel: nothing is known
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        boxed = np.maximum(np.abs(kinks.lower), np.abs(kinks.upper))
        held = np.isfinite(boxed)
        square = float((boxed[held] ** 2).sum())
        curved = ~held & (curvature > 0.0)
        if curved.any():
            square += 2.0 * value / float(curvature[curved].min())
        kinked = ~held & ~curved
        strengths = np.append(kinks.strengths[kinked & ~kinks.is_grouped], kinks.group_strengths)
        if len(strengths):
            square += float(np.square(np.divide(value, strengths.min())))
    return math.sqrt(square)
