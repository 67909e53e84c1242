"""A tile of sparse rows of many features as they are: a stored value meets all its coefficients.

Beside `column_tiles`, which makes rows dense and so wants few features, and has the same functions.
W is (d + 1, outputs): a row for each feature, so that what one stored value needs is contiguous,
and the intercepts last. `work` has room for one number an output.
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


@within_callers()
def places(work, n):  # type: ignore[no-untyped-def]
    """Return the places that a tile of n rows takes."""
    return n


@within_callers()
def run_end(work, stop):  # type: ignore[no-untyped-def]
    """Return where a run of rows ends."""
    return stop


@within_callers()
def room(work, W, most):  # type: ignore[no-untyped-def]
    """Return room for the margins and the slopes (outputs, most) of a tile."""
    many = W.shape[1]
    return np.empty((many, most + LINE_VALUES)), np.zeros((many, most + LINE_VALUES))


@within_callers()
def fill(work, X, d, rows, stop):  # type: ignore[no-untyped-def]
    """Do nothing: rows stay as they are."""


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _row_forward(X, i, W, d, z):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    copy(W[d], z)
    for q in range(indptr[i], indptr[i + 1]):
        value = np.float64(data[min(q, last)])
        w = W[np.uint64(indices[q])]
        for k in range(len(z)):
            z[k] += value * w[k]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _row_backward(X, i, slope, d, out):  # type: ignore[no-untyped-def]
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
def _ask(X, i, W):  # type: ignore[no-untyped-def]
    """Prefetch the rows of W that row i reads, before its turn.

    Without that an epoch over 50 or more problems takes twice as long.
    """
    _, indices, indptr = X
    K, flat = W.shape[1], W.reshape(W.size)
    for q in range(indptr[i], indptr[i + 1]):
        start = np.int64(indices[q]) * K
        for at in range(0, K, LINE_VALUES):
            fetch(flat, start + at)


@compiled(nogil=True, error_model="numpy")
def forward(work, X, d, W, many, rows, run, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins z of all outputs on the places `run` (start, stop) of a tile."""
    start, stop = run
    for t in range(start, stop):
        _ask(X, rows[min(t + 1, stop - 1)], W)
        _row_forward(X, rows[t], W, d, work)
        for k in range(len(work)):
            z[k, t] = work[k]


@compiled(nogil=True, error_model="numpy")
def backward(work, X, d, slopes, many, rows, run, sums):  # type: ignore[no-untyped-def]
    """Add slopes [X 1] over the places `run` of a tile to `sums`, which is as W is."""
    start, stop = run
    work[:] = 0.0
    for t in range(start, stop):
        _ask(X, rows[min(t + 1, stop - 1)], sums)
        for k in range(many):
            work[k] = slopes[k, t]
        _row_backward(X, rows[t], work, d, sums)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def add_squares(work, X, d, c, rows, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times c, to `out` (d + 1,)."""
    data, indices, indptr = X
    last = len(data) - 1
    for t in range(len(rows)):
        i = rows[t]
        for q in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[min(q, last)])
            out[np.uint64(indices[q])] += c[t] * (value * value)
        out[d] += c[t]


@within_callers()
def gram_room(work, W, most, like, formed):  # type: ignore[no-untyped-def]
    """Return nothing: Grams are of columns."""
    return None


@within_callers()
def add_gram(work, d, c, run, space, gram):  # type: ignore[no-untyped-def]
    """Refuse, since only columns have Grams."""
    raise NotImplementedError("Grams are of tiles of columns")
