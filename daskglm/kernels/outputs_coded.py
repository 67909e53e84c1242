"""What a tile of rows that stay sparse asks of one row, for many outputs: of coded rows.

See `outputs_csr` for what the functions do.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded_csr import level_of
from daskglm.kernels.copies import copy
from daskglm.kernels.outputs_csr import FAST
from daskglm.system.compiled import compiled


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_forward(X, i, W, d, z):  # type: ignore[no-untyped-def]
    """Compute the margins of row i."""
    floats, first, indptr, columns, values = X[3:8]
    copy(W[d], z)
    for j in range(len(first)):
        level = level_of(X, i, j)
        for q in range(indptr[level], indptr[level + np.uint64(1)]):
            w, value = W[np.uint64(columns[q])], values[q]
            for k in range(len(z)):
                z[k] += value * w[k]
    for j in range(floats.shape[1]):
        w, value = W[X[9] + j], np.float64(floats[i, j])
        for k in range(len(z)):
            z[k] += value * w[k]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_backward(X, i, slope, d, out):  # type: ignore[no-untyped-def]
    """Add row i, and one after it, times each slope to `out`, which is as W is."""
    floats, first, indptr, columns, values = X[3:8]
    for j in range(len(first)):
        level = level_of(X, i, j)
        for q in range(indptr[level], indptr[level + np.uint64(1)]):
            g, value = out[np.uint64(columns[q])], values[q]
            for k in range(len(slope)):
                g[k] += value * slope[k]
    for j in range(floats.shape[1]):
        g, value = out[X[9] + j], np.float64(floats[i, j])
        for k in range(len(slope)):
            g[k] += value * slope[k]
    for k in range(len(slope)):
        out[d, k] += slope[k]


@within_callers()
def row_ask(X, i, W):  # type: ignore[no-untyped-def]
    """Do nothing: only the tables tell which rows of W are read."""


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_squares(X, i, c, d, out):  # type: ignore[no-untyped-def]
    """Add the squares of row i and of one, times c, to `out` (d + 1,)."""
    floats, first, indptr, columns, values = X[3:8]
    for j in range(len(first)):
        level = level_of(X, i, j)
        for q in range(indptr[level], indptr[level + np.uint64(1)]):
            out[np.uint64(columns[q])] += c * (values[q] * values[q])
    for j in range(floats.shape[1]):
        value = np.float64(floats[i, j])
        out[X[9] + j] += c * (value * value)
    out[d] += c
