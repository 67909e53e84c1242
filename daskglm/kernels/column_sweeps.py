"""Coordinate descent on a quadratic model by the columns of sparse rows (Yuan, Ho & Lin 2012)."""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.kernels.coordinates import best, residual
from daskglm.system.compiled import compiled

# Share of the residual before that a sweep may leave. Where more is left columns are correlated,
# and conjugate gradients get on faster. Chosen.
SLOW = 0.6


@njit(nogil=True)
def _along(columns, rows, j):  # type: ignore[no-untyped-def]
    """Return what margins have changed of the slope by a coefficient, and the rows read for it.

    By four sums in a fixed order: sums in any order are compiled to gathers of eight rows, with
    which sweeps took 1.3 to 1.6 times as long (texts, rows of 12 values, rcv1_binary, 2026-11-28).
    """
    pointers, places, values = columns
    change, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    if j == len(pointers) - 1:
        for i in range(len(rows)):
            change += rows[i, 0] * rows[i, 1]
        return change, len(rows)
    first, end = pointers[j], pointers[j + 1]
    whole = first + (end - first) // 4 * 4
    for p in range(first, whole, 4):
        a, b = np.uint64(places[p]), np.uint64(places[p + 1])
        c, d = np.uint64(places[p + 2]), np.uint64(places[p + 3])
        change += values[p] * (rows[a, 0] * rows[a, 1])
        second += values[p + 1] * (rows[b, 0] * rows[b, 1])
        third += values[p + 2] * (rows[c, 0] * rows[c, 1])
        fourth += values[p + 3] * (rows[d, 0] * rows[d, 1])
    for p in range(whole, end):
        a = np.uint64(places[p])
        change += values[p] * (rows[a, 0] * rows[a, 1])
    return (change + second) + (third + fourth), end - first


@njit(nogil=True)
def _move(columns, rows, j, step):  # type: ignore[no-untyped-def]
    """Change the margins by a step of a coefficient."""
    pointers, places, values = columns
    if j == len(pointers) - 1:
        for i in range(len(rows)):
            rows[i, 1] += step
        return
    for p in range(pointers[j], pointers[j + 1]):
        rows[np.uint64(places[p]), 1] += step * values[p]


@compiled(nogil=True)
def sweep(columns, model, limits, v, rows):  # type: ignore[no-untyped-def]
    """Sweep over those coefficients that are not zero or not optimal, until little is left.

    Or until a sweep takes none to zero or away from it, or leaves much of the residual.

    Parameters
    ----------
    columns : tuple of arrays
        The columns' pointers, row numbers and values. A coefficient after all columns is that of
        a column of ones.
    model : (6, size) array
        The gradient of the quadratic at v; the diagonal of its Hessian, above zero; what of that is
        a penalty's; strengths of the kinks; lower and upper bounds.
    limits : tuple of (float, int)
        Residual, a norm in the inverse of the diagonal, at which to end, and sweeps at most.
    v : (size,) array
        Where to start; gets where the model was led to.
    rows : (n, 2) array
        Curvatures, and zeros, which get by how much the margins have changed.

    Returns
    -------
    tuple of int
        Sweeps, and stored values that were read or whose margins were changed.
    """
    wanted, most = limits
    slopes, diagonal, ridge, strengths, lower, upper = model
    begin, chosen, count = v.copy(), np.empty(len(v), np.int64), 0
    for j in range(len(v)):
        if v[j] != 0.0 or residual(v[j], slopes[j], strengths[j], lower[j], upper[j]) > 0.0:
            chosen[count] = j
            count += 1
    visited, before = 0, np.inf
    for k in range(most):
        square, same = 0.0, True
        for j in chosen[:count]:
            change, read = _along(columns, rows, j)
            visited += read
            slope = slopes[j] + ridge[j] * (v[j] - begin[j]) + change
            left = residual(v[j], slope, strengths[j], lower[j], upper[j])
            square += left * left / diagonal[j]
            to = best(v[j], slope, diagonal[j], strengths[j], lower[j], upper[j])
            if to != v[j]:
                visited += read
                _move(columns, rows, j, to - v[j])
                same = same and (v[j] == 0.0) == (to == 0.0)
                v[j] = to
        norm = np.sqrt(square)
        if norm <= wanted or same or norm > SLOW * before:
            return k + 1, visited
        before = norm
    return most, visited
