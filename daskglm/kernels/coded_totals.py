"""Sums over coded rows that a fit asks for once, under the names of `dense`.

What a level adds to the sums of a row is known before the rows are read, and what it adds to those
of a column once its rows have been counted: a row costs one addition for each of its codes.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.coded_csr import level_of
from daskglm.kernels.coded_gram import longest
from daskglm.kernels.coded_levels import add_products, add_slopes
from daskglm.kernels.dense import add_moments as dense_add_moments
from daskglm.kernels.dense import squared_norm as dense_squared_norm
from daskglm.kernels.distances import CANCELS, squared_size
from daskglm.system.compiled import compiled

# Rows of a tile, whose sums stay in the first-level cache. Chosen.
ROWS = 512


@compiled(nogil=True, error_model="numpy")
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest squared row norm over [start, stop), and the sum of all.

    The sum is not finite if a value or its square is not.
    """
    floats, indptr, values = X[3], X[5], X[7]
    of_levels = np.zeros(len(indptr) - 1)
    for level in range(len(of_levels)):
        for q in range(indptr[level], indptr[level + 1]):
            of_levels[level] += values[q] * values[q]
    norms, largest, total = np.empty(ROWS), 0.0, 0.0
    for lo in range(start, stop, ROWS):
        hi = min(lo + ROWS, stop)
        here = norms[: hi - lo]
        here[:] = 0.0
        if floats.shape[1] > 0:
            for t in range(hi - lo):
                here[t] = dense_squared_norm(floats, lo + t)
        add_products(X, of_levels, lo, hi, here)
        for norm in here:
            total += norm
            largest = max(largest, norm)
    return largest, total


@compiled(nogil=True, error_model="numpy")
def farthest(first, of_levels, counts, square):  # type: ignore[no-untyped-def]
    """Return a square with the most of each code column added that a level with rows adds."""
    for j in range(len(first)):
        stop = first[j + 1] if j + 1 < len(first) else len(of_levels)
        most = -np.inf
        for level in range(first[j], stop):
            if counts[level] > 0.0:
                most = max(most, of_levels[level])
        square += most
    return square


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def spread(X, centre, scale, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add what `requests.Spread` asks for over [start, stop) to `sums` (2 d + 1,).

    The distance of a row is that of the centre from zero and what its levels change of it, which
    cancels: as many terms as a row has levels and values may each have lost a part of the whole.
    Rows without numbers are not read one by one: no row is farther than the farthest levels.
    """
    floats, first, indptr, columns, values, _, width = X[3:]
    d, whole = len(centre), squared_size(centre[:width], scale)
    of_levels = np.zeros(len(indptr) - 1)
    for level in range(len(of_levels)):
        for q in range(indptr[level], indptr[level + 1]):
            c = centre[columns[q]]
            of_levels[level] += ((values[q] - c) / scale) ** 2 - (c / scale) ** 2
    lost = CANCELS * (whole + 1.0) * (len(first) + longest(X) + 2)
    counts, ones, squares = np.zeros(len(of_levels)), np.ones(ROWS), np.empty(ROWS)
    for lo in range(start, stop, ROWS):
        hi = min(lo + ROWS, stop)
        add_slopes(X, ones, lo, hi - lo, counts)
        if floats.shape[1] == 0:
            continue
        here = squares[: hi - lo]
        here[:] = whole
        add_products(X, of_levels, lo, hi, here)
        for t in range(hi - lo):
            square = max(here[t], 0.0) + lost
            x = floats[lo + t]
            for j in range(len(x)):
                sums[width + j] += x[j]
                sums[d + width + j] += ((x[j] / scale) ** 2) ** 16
                square += ((x[j] - centre[width + j]) / scale) ** 2
            sums[2 * d] += square**16
    if floats.shape[1] == 0:
        sums[2 * d] += (max(farthest(first, of_levels, counts, whole), 0.0) + lost) ** 16
    for level in range(len(counts)):
        for q in range(indptr[level], indptr[level + 1]):
            sums[columns[q]] += counts[level] * values[q]
            sums[d + columns[q]] += counts[level] * ((values[q] / scale) ** 2) ** 16


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Do what `dense.add_moments` does."""
    floats, indptr, columns, values, width = X[3], X[5], X[6], X[7], X[9]
    of_levels, ones = np.zeros(len(indptr) - 1), np.ones(ROWS)
    for lo in range(start, stop, ROWS):
        count = min(ROWS, stop - lo)
        add_slopes(X, weight[lo : lo + count] if len(weight) > 0 else ones, lo, count, of_levels)
    for level in range(len(of_levels)):
        for q in range(indptr[level], indptr[level + 1]):
            sums[columns[q]] += of_levels[level] * values[q]
            squares[columns[q]] += of_levels[level] * (values[q] * values[q])
    # which adds up the weights as well
    dense_add_moments(floats, weight, start, stop, sums[width:], squares[width:])


@compiled(nogil=True)
def count_signs(X, kinds, start, stop, above, below):  # type: ignore[no-untyped-def]
    """Do what `dense.count_signs` does."""
    floats, first, indptr, columns, values = X[3:8]
    width = np.uint64(X[9])
    for i in range(start, stop):
        if kinds[i] < 0:
            continue
        kind = np.uint64(kinds[i])
        for j in range(len(first)):
            level = level_of(X, i, j)
            for q in range(indptr[level], indptr[level + np.uint64(1)]):
                column = np.uint64(columns[q])
                above[kind, column] += values[q] > 0
                below[kind, column] += values[q] < 0
        for k in range(floats.shape[1]):
            column = width + np.uint64(k)
            above[kind, column] += floats[i, k] > 0
            below[kind, column] += floats[i, k] < 0
