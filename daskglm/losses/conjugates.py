"""The losses seen from the dual: sums of conjugates over runs of rows, and steps of one row.

The dual variable a of a row stands for -slope at its margin, so w = C sum_i s_i a_i x_i. For losses
of classes p = y a is used, whose domain does not depend on the label. As in `dispatch`, a law tells
which loss it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from daskglm.losses.builtin import BUILTIN
from daskglm.losses.dispatch import dispatch, dispatch_by_targets, formula, tile
from daskglm.system.compiled import compiled

FAST = {"contract", "reassoc", "nsz"}
# Rows whose margins and derivatives stay in the first-level cache.
TILE = 512
_DUALS = {loss.code: loss.dual for loss in BUILTIN if loss.dual is not None}
_OF_CLASSES = {loss.code for loss in BUILTIN if loss.classifies}


@njit(nogil=True, error_model="numpy")
def _no_number(law, *args):  # type: ignore[no-untyped-def]
    """Return nan, for codes of losses without a dual, which no request asks for."""
    return np.nan


def _choose(functions: dict[int, Any], arguments: str) -> Any:
    """Compile a function of a law and `arguments`, of which the first are labels or numbers."""
    labels, numbers = (
        {code: f for code, f in functions.items() if (code in _OF_CLASSES) == classes}
        for classes in (True, False)
    )
    return dispatch_by_targets(
        dispatch(labels, _no_number, arguments), dispatch(numbers, _no_number, arguments)
    )


# ---- one row
def _step_of(function: Any) -> Any:
    function = formula(function)

    @njit(nogil=True, error_model="numpy")
    def step(p1, p2, y, z, a, q):  # type: ignore[no-untyped-def]
        return function(y, z, a, q, p1, p2)

    return step


def _into_domain_of(function: Any) -> Any:
    function = formula(function)

    @njit(nogil=True, error_model="numpy")
    def into_domain(p1, p2, y, a):  # type: ignore[no-untyped-def]
        return function(y, a, p1, p2)

    return into_domain


def _slope_of(derivatives: Any) -> Any:
    derivatives = formula(derivatives)

    @njit(nogil=True, error_model="numpy")
    def slope(p1, p2, y, a):  # type: ignore[no-untyped-def]
        return derivatives(y, a, p1, p2)[1]

    return slope


# step(law, y, z, a, q): the best dual variable of one row, all others fixed
step = _choose({code: _step_of(dual.step) for code, dual in _DUALS.items()}, "y, z, a, q")
# into_domain(law, y, a): the nearest dual variable at which the conjugate is finite
into_domain = _choose(
    {code: _into_domain_of(dual.into_domain) for code, dual in _DUALS.items()}, "y, a"
)

# conjugate_slope(law, y, a): derivative of loss*(-a) in a
conjugate_slope = _choose(
    {code: _slope_of(dual.derivatives) for code, dual in _DUALS.items()}, "y, a"
)


# ---- runs of rows
def _conjugates_of(conjugate: Any) -> Any:
    conjugate = formula(conjugate)

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def conjugates(p1, p2, y, a, weight):  # type: ignore[no-untyped-def]
        total = 0.0
        weighted = len(weight) > 0
        for t in range(len(a)):
            s = weight[t] if weighted else 1.0
            total += s * conjugate(y[t], a[t], p1, p2)
        return total

    return conjugates


def _along_of(derivatives: Any) -> Any:
    derivatives = formula(derivatives)

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def along(p1, p2, y, weight, line, steps, slope, hessian):  # type: ignore[no-untyped-def]
        a, pending, previous = line
        c1, c2 = steps
        total = 0.0
        g1 = 0.0
        g2 = 0.0
        h11 = 0.0
        h12 = 0.0
        h22 = 0.0
        outside = 0
        weighted = len(weight) > 0
        for t in range(len(a)):
            s = weight[t] if weighted else 1.0
            d1, d2 = pending[t], previous[t]
            at = a[t] + c1 * d1 + c2 * d2
            value, first, second, is_outside = derivatives(y[t], at, p1, p2)
            outside += 1 if is_outside and (d1 != 0.0 or d2 != 0.0) else 0
            total += s * value
            g1 += s * first * d1
            g2 += s * first * d2
            h11 += s * second * d1 * d1
            h12 += s * second * d1 * d2
            h22 += s * second * d2 * d2
        slope[0] += g1
        slope[1] += g2
        hessian[0, 0] += h11
        hessian[0, 1] += h12
        hessian[1, 0] += h12
        hessian[1, 1] += h22
        return math.inf if outside else total

    return along


_conjugates = _choose(
    {code: _conjugates_of(dual.conjugate) for code, dual in _DUALS.items()},
    "y, a, weight",
)
_along = _choose(
    {code: _along_of(dual.derivatives) for code, dual in _DUALS.items()},
    "y, weight, line, steps, slope, hessian",
)


@compiled(nogil=True, error_model="numpy")
def conjugates(law, y, a, weight):  # type: ignore[no-untyped-def]
    """Add up weighted loss*(-a) over a run of rows within the domain.

    An empty `weight` means ones.
    """
    return _conjugates(law, y, a, weight)


@compiled(nogil=True, error_model="numpy")
def losses(law, y, z, weight):  # type: ignore[no-untyped-def]
    """Weighted sum of the losses over a run of rows. The law is that of a compiled loss."""
    margins, slope, curvature = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    total = 0.0
    for first in range(0, len(z), TILE):
        stop = min(first + TILE, len(z))
        for t in range(first, stop):
            margins[t - first] = z[t]
        n, weights = stop - first, weight[first:stop]
        total += tile(law, y[first:stop], margins[:n], weights, slope[:n], curvature[:n])
    return total


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def products(z, a, weight):  # type: ignore[no-untyped-def]
    """Add up weighted a z over a run of rows.

    With `losses` and `conjugates` that makes the Fenchel-Young gap.
    """
    total = 0.0
    weighted = len(weight) > 0
    for t in range(len(z)):
        total += (weight[t] if weighted else 1.0) * a[t] * z[t]
    return total


@compiled(nogil=True, error_model="numpy")
def along(law, y, weight, line, steps, slope, hessian):  # type: ignore[no-untyped-def]
    """Add up loss*(-(a + c1 pending + c2 previous)), and its derivatives in c1 and c2.

    It is infinite outside the domain. `line` is (a, pending, previous), `steps` (c1, c2).
    """
    return _along(law, y, weight, line, steps, slope, hessian)
