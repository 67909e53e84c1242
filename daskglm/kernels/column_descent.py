"""Coordinate descent on a quadratic model by the columns of dense rows, to its end.

As glmnet's (Friedman, Hastie & Tibshirani 2010): sweeps over the coefficients that are not zero
until little is left of them, then one over all, until that finds little, too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.kernels.coordinates import best, residual
from daskglm.system.compiled import compiled

# Share of what the last sweep over all coefficients found that sweeps over some leave. Chosen.
LEFT = 0.1
# Sweeps between two looks at how fast the residual falls. Chosen.
LOOK = 8
FAST = {"contract", "reassoc", "nsz"}


@njit(nogil=True, fastmath=FAST)
def _dot(x, q):  # type: ignore[no-untyped-def]
    found = 0.0
    for i in range(len(x)):
        found += x[i] * q[i]
    return found


@njit(nogil=True, fastmath=FAST)
def _measure(x, curvature, total):  # type: ignore[no-untyped-def]
    """Return a column's mean, 0 without an intercept, and the curvature along it less the mean."""
    mean, square = 0.0, 0.0
    if total > 0.0:
        for i in range(len(x)):
            mean += x[i] * curvature[i]
        mean /= total
    for i in range(len(x)):
        apart = x[i] - mean
        square += apart * apart * curvature[i]
    return mean, square


@njit(nogil=True, fastmath=FAST)
def _move(x, mean, step, curvature, q):  # type: ignore[no-untyped-def]
    """Change the slopes of the rows by a step along a column less its mean."""
    for i in range(len(x)):
        q[i] += step * (x[i] - mean) * curvature[i]


@njit(nogil=True)
def _sweep(columns, curvature, model, begin, known, chosen, v, q):  # type: ignore[no-untyped-def]
    """Take each of these coefficients to its best value.

    Returns the largest residual that was met, beside the strength, and the values read or changed.
    """
    slopes, ridge, strengths, lower, upper = model
    means, squares, total = known
    worst, visited, n = 0.0, 0, len(q)
    for j in chosen:
        x = columns[j]
        slope = slopes[j] + ridge[j] * (v[j] - begin[j]) + _dot(x, q)
        visited += n
        left = residual(v[j], slope, strengths[j], lower[j], upper[j])
        if left == 0.0:
            continue
        worst = max(worst, left / strengths[j])
        if squares[j] < 0.0:
            means[j], squares[j] = _measure(x, curvature, total)
            visited += n
        bent = squares[j] + ridge[j]
        if not bent > 0.0:
            continue
        to = best(v[j], slope, bent, strengths[j], lower[j], upper[j])
        if to != v[j]:
            _move(x, means[j], to - v[j], curvature, q)
            visited += n
            v[j] = to
    return worst, visited


@njit(nogil=True)
def _among(columns, curvature, model, begin, known, chosen, limits, v, q):  # type: ignore[no-untyped-def]
    """Sweep over some coefficients until little is left of their residuals.

    `limits` are what is wanted of these, and of all; and how many values may be read. Returns how
    many were, and whether they are enough: not at the rate at which residuals fall.
    """
    least, wanted, most = limits
    worst, before, sweeps, visited = np.inf, np.inf, 0, 0
    while worst > least:
        worst, read = _sweep(columns, curvature, model, begin, known, chosen, v, q)
        visited += read
        sweeps += 1
        if visited > most:
            return visited, False
        if sweeps % LOOK > 0 or worst <= least:
            continue
        if not worst < before:
            return visited, False
        if before < np.inf:
            left = LOOK * np.log(worst / wanted) / np.log(before / worst)
            if left * read > most - visited:
                return visited, False
        before = worst
    return visited, True


@njit(nogil=True)
def _moving(v, model, chosen):  # type: ignore[no-untyped-def]
    """Write the numbers of coefficients that are not zero or not optimal; return how many."""
    slopes, _, strengths, lower, upper = model
    count = 0
    for j in range(len(chosen)):
        if v[j] != 0.0 or residual(v[j], slopes[j], strengths[j], lower[j], upper[j]) > 0.0:
            chosen[count] = j
            count += 1
    return count


@njit(nogil=True)
def _nonzero(v, chosen):  # type: ignore[no-untyped-def]
    """Write the numbers of coefficients that are not zero; return how many."""
    count = 0
    for j in range(len(chosen)):
        if v[j] != 0.0:
            chosen[count] = j
            count += 1
    return count


@compiled(nogil=True)
def descend(columns, curvature, model, limits, v):  # type: ignore[no-untyped-def]
    """Minimise a model along its coefficients, one after the other.

    Parameters
    ----------
    columns : (d, n) float64 array
        The rows by columns.
    curvature : (n,) array
        Of the rows.
    model : (5, size) array
        The gradient of the quadratic at v; what of its Hessian's diagonal is a penalty's; strengths
        of the kinks, above zero; lower and upper bounds. A last entry after all columns is an
        intercept's, which has none of these, and takes its best value with every step.
    limits : tuple of (float, float)
        Residual, as a share of its strength, that no coefficient may have at the end, and the
        values that may be read or changed.
    v : (size,) array
        Where to start; gets where the model was led to.

    Returns
    -------
    tuple of (int, bool)
        Values that were read or changed, and whether the residual is as small as wanted. It is not
        where too many would be read at the rate at which it falls.
    """
    wanted, most = limits
    d, n = columns.shape
    begin, q, total, shift = v.copy(), np.zeros(n), 0.0, 0.0
    if len(v) > d:
        total = curvature.sum()
        shift = -model[0, d] / total if total > 0.0 else 0.0
        for i in range(n):
            q[i] = shift * curvature[i]
    known = np.zeros(d), np.full(d, -1.0), total
    every, chosen, ended = np.arange(d), np.empty(d, np.int64), False
    count = _moving(v, model, chosen)
    worst, visited = _sweep(columns, curvature, model, begin, known, chosen[:count], v, q)
    while visited <= most and not ended:
        count = _nonzero(v, chosen)
        inner = max(LEFT * worst, wanted), wanted, most - visited
        read, enough = _among(columns, curvature, model, begin, known, chosen[:count], inner, v, q)
        visited += read
        if not enough:
            break
        worst, read = _sweep(columns, curvature, model, begin, known, every, v, q)
        visited += read
        ended = worst <= wanted
    if len(v) > d:
        for j in range(d):
            shift -= known[0][j] * (v[j] - begin[j])
        v[d] += shift
    return visited, ended
