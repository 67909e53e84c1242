"""CPU kernels for the softmax on wide sparse rows: a stored value meets the coefficients of all
classes.

Beside `outputs_dense`, which makes tiles of rows dense and so wants few features. W (d + 1, K) has
a row for each feature, so that what one stored value needs is contiguous, and the intercepts last.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.outputs import (
    direction_curvature,
    probabilities,
    softmax,
    targets_of,
    times_hessian,
)
from daskglm.kernels.simd import fetch
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Float64 numbers of a cache line.
LINE_VALUES = LINE_BYTES // 8
FAST = {"contract", "reassoc", "nsz"}
# Rows between a gather and a scatter, which stay in the first-level cache.
TILE_ROWS = 128


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _row_forward(X, i, W, d, z):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    z[:] = W[d]
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


@compiled(nogil=True, error_model="numpy")
def _ask(X, i, W):  # type: ignore[no-untyped-def]
    """Prefetch the rows of W that row i reads, before its turn."""
    _, indices, indptr = X
    K, flat = W.shape[1], W.reshape(W.size)
    for q in range(indptr[i], indptr[i + 1]):
        start = np.int64(indices[q]) * K
        for at in range(0, K, LINE_VALUES):
            fetch(flat, start + at)


@compiled(nogil=True, error_model="numpy")
def _forward(X, d, W, lo, n, row, z):  # type: ignore[no-untyped-def]
    for t in range(n):
        _ask(X, lo + min(t + 1, n - 1), W)
        _row_forward(X, lo + t, W, d, row)
        for k in range(len(row)):
            z[k, t] = row[k]


@compiled(nogil=True, error_model="numpy")
def _backward(X, d, slopes, lo, n, row, out):  # type: ignore[no-untyped-def]
    for t in range(n):
        _ask(X, lo + min(t + 1, n - 1), out)
        for k in range(len(row)):
            row[k] = slopes[k, t]
        _row_backward(X, lo + t, row, d, out)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _squares(X, d, c, lo, n, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    for t in range(n):
        i = lo + t
        for q in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[min(q, last)])
            out[np.uint64(indices[q])] += c[t] * (value * value)
        out[d] += c[t]


# ---- what is called
@compiled(nogil=True, error_model="numpy")
def margins(X, d, W, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the margins of the rows [start, stop) to `out` (K, n)."""
    row = np.empty(W.shape[1])
    _forward(X, d, W, start, stop - start, row, out[:, start:stop])


@compiled(nogil=True, error_model="numpy")
def evaluate(rows, W, basis, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the softmax loss over [start, stop), with its gradient; see `outputs_dense`.

    `out` is (margins, sums, value, diagonal), with sums like W and diagonal (r, d + 1).
    """
    X, d, codes, weight = rows
    kept, sums, value, diagonal = out
    K = W.shape[1]
    z, slopes, row = np.empty((K, TILE_ROWS)), np.empty((K, TILE_ROWS)), np.empty(K)
    of, s = np.empty(TILE_ROWS, np.int64), np.empty(TILE_ROWS)
    c, work = np.empty(TILE_ROWS), np.empty((5, TILE_ROWS))
    for lo in range(start, stop, TILE_ROWS):
        n = min(lo + TILE_ROWS, stop) - lo
        _forward(X, d, W, lo, n, row, z)
        if len(kept) > 0:
            kept[:, lo : lo + n] = z[:, :n]
        targets_of(codes, weight, lo, n, n, of, s)
        value[0] += softmax(z, K, n, of, s, work, slopes)
        _backward(X, d, slopes, lo, n, row, sums)
        for a in range(len(diagonal)):
            direction_curvature(z, K, basis[:, a], s, n, work, c)
            _squares(X, d, c, lo, n, diagonal[a])


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, margin, V, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add the Hessian of the loss at `margin` (K, n) times V to `sums`; both are as W is."""
    X, d, codes, weight = rows
    K = V.shape[1]
    p, u, row = np.empty((K, TILE_ROWS)), np.empty((K, TILE_ROWS)), np.empty(K)
    of, s = np.empty(TILE_ROWS, np.int64), np.empty(TILE_ROWS)
    work = np.empty((5, TILE_ROWS))
    for lo in range(start, stop, TILE_ROWS):
        n = min(lo + TILE_ROWS, stop) - lo
        _forward(X, d, V, lo, n, row, u)
        p[:, :n] = margin[:, lo : lo + n]
        targets_of(codes, weight, lo, n, n, of, s)
        probabilities(p, K, n, work)
        times_hessian(p, K, n, s, work, u)
        _backward(X, d, u, lo, n, row, sums)
