"""Sums of single columns of coded rows, by level: what their values add up to, and their signs."""

from __future__ import annotations

import numpy as np

from daskglm.kernels.coded_csr import level_of
from daskglm.system.compiled import compiled


@compiled(nogil=True)
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Do what `dense.add_moments` does."""
    floats, first, indptr, columns, values = X[3:8]
    weighted, width, total = len(weight) > 0, np.uint64(X[9]), 0.0
    for i in range(start, stop):
        s = weight[i] if weighted else 1.0
        total += s
        for j in range(len(first)):
            level = level_of(X, i, j)
            for q in range(indptr[level], indptr[level + np.uint64(1)]):
                value, column = values[q], np.uint64(columns[q])
                sums[column] += s * value
                squares[column] += s * (value * value)
        for k in range(floats.shape[1]):
            value, column = np.float64(floats[i, k]), width + np.uint64(k)
            sums[column] += s * value
            squares[column] += s * (value * value)
    sums[-1] += total


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
