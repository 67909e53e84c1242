"""What a tile of rows that stay sparse asks of one row, for many outputs: of CSR rows.

W is (d + 1, outputs), as `sparse_tiles` has it; vectors are by output. `outputs_coded` has the same
functions.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.copies import copy
from daskglm.kernels.simd import fetch
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Float64 numbers of a cache line.
LINE_VALUES = LINE_BYTES // 8
FAST = {"contract", "reassoc", "nsz"}


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_forward(X, i, W, d, z):  # type: ignore[no-untyped-def]
    """Compute the margins of row i."""
    data, indices, indptr = X
    last = len(data) - 1
    copy(W[d], z)
    for q in range(indptr[i], indptr[i + 1]):
        value = np.float64(data[min(q, last)])
        w = W[np.uint64(indices[q])]
        for k in range(len(z)):
            z[k] += value * w[k]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_backward(X, i, slope, d, out):  # type: ignore[no-untyped-def]
    """Add row i, and one after it, times each slope to `out`, which is as W is."""
    data, indices, indptr = X
    last = len(data) - 1
    for q in range(indptr[i], indptr[i + 1]):
        value = np.float64(data[min(q, last)])
        g = out[np.uint64(indices[q])]
        for k in range(len(slope)):
            g[k] += value * slope[k]
    for k in range(len(slope)):
        out[d, k] += slope[k]


@within_callers(error_model="numpy")
def row_ask(X, i, W):  # type: ignore[no-untyped-def]
    """Prefetch the rows of W that row i reads, before its turn.

    Without that an epoch over 50 or more problems takes twice as long.
    """
    _, indices, indptr = X
    K, flat = W.shape[1], W.reshape(W.size)
    for q in range(indptr[i], indptr[i + 1]):
        start = np.int64(indices[q]) * K
        for at in range(0, K, LINE_VALUES):
            fetch(flat, start + at)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def row_squares(X, i, c, d, out):  # type: ignore[no-untyped-def]
    """Add the squares of row i and of one, times c, to `out` (d + 1,)."""
    data, indices, indptr = X
    last = len(data) - 1
    for q in range(indptr[i], indptr[i + 1]):
        value = np.float64(data[min(q, last)])
        out[np.uint64(indices[q])] += c * (value * value)
    out[d] += c
