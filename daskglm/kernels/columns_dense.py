"""CPU kernels on single columns of dense rows; `columns_csr` has those of sparse rows."""

from __future__ import annotations

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.system.compiled import compiled


@compiled(nogil=True)
def take(X, columns, start, stop, out):  # type: ignore[no-untyped-def]
    """Copy the columns of these numbers (k,), rows [start, stop), to those rows of `out` (n, k)."""
    for i in range(start, stop):
        x, to = X[i], out[i]
        for j in range(len(columns)):
            to[j] = x[np.uint64(columns[j])]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Add [X 1]' s over the rows [start, stop) to `sums` (d + 1,), X.^2' s to `squares` (d + 1,).

    `weight` has s, (n,), or is empty, which means ones.
    """
    d = X.shape[1]
    weighted = len(weight) > 0
    firsts, seconds = np.empty(d), np.empty(d)
    # long sums in runs: their rounding error grows with the length of a run
    for lo in range(start, stop, SUMMED_ROWS):
        hi = min(lo + SUMMED_ROWS, stop)
        firsts[:] = 0.0
        seconds[:] = 0.0
        total = 0.0
        for i in range(lo, hi):
            x = X[i]
            s = weight[i] if weighted else 1.0
            total += s
            for j in range(d):
                value = np.float64(x[j])
                firsts[j] += s * value
                seconds[j] += s * (value * value)
        for j in range(d):
            sums[j] += firsts[j]
            squares[j] += seconds[j]
        sums[d] += total


@compiled(nogil=True)
def count_signs(X, kinds, start, stop, above, below):  # type: ignore[no-untyped-def]
    """Count the rows [start, stop) of each kind with values above zero, and below it.

    `kinds` (n,) has the kind of each row, below zero for those that do not count; `above` and
    `below` are (kinds, d).
    """
    for i in range(start, stop):
        if kinds[i] < 0:
            continue
        x, k = X[i], np.uint64(kinds[i])
        for j in range(X.shape[1]):
            above[k, j] += x[j] > 0
            below[k, j] += x[j] < 0
