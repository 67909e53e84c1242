"""CPU kernels on dense rows (C order, float32 or float64): every function that touches a dense X is here.

Each takes a run of rows [start, stop) and adds to float64 outputs that belong to the calling thread, so that a
caller may deal rows to threads as it likes. X is read once per call, tile by tile: a tile of rows stays in the
second-level cache between the forward product, the loss and the backward product.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.losses import tile

TILE_BYTES = 128 * 1024
GRAM_ROWS = 128  # rows of a tile when the Gram is wanted: float32 products are summed over so many, then in float64


@njit(nogil=True, cache=True)
def _tile_rows(X):  # type: ignore[no-untyped-def]
    return min(max(TILE_BYTES // max(X.shape[1] * X.itemsize, 1), 8), 256)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _forward(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        x = X[i]
        total = 0.0
        for j in range(len(x)):
            total += w[j] * x[j]
        z[i - start] = total + b


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _backward(X, slope, start, count, out):  # type: ignore[no-untyped-def]
    """Out += X[start:start + count]' slope, four rows at a time so that `out` is loaded and stored once for four."""
    d = X.shape[1]
    t = 0
    while t + 4 <= count:
        x0, x1, x2, x3 = X[start + t], X[start + t + 1], X[start + t + 2], X[start + t + 3]
        s0, s1, s2, s3 = slope[t], slope[t + 1], slope[t + 2], slope[t + 3]
        for j in range(d):
            out[j] += (s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j])
        t += 4
    while t < count:
        x0, s0 = X[start + t], slope[t]
        for j in range(d):
            out[j] += s0 * x0[j]
        t += 1


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    for t in range(count):
        x, c = X[start + t], curvature[t]
        for j in range(len(x)):
            out[j] += c * (np.float64(x[j]) * np.float64(x[j]))


@njit(nogil=True, cache=True)
def _transpose(X, curvature, start, count, columns, scaled):  # type: ignore[no-untyped-def]
    """Columns = [X 1 0..0]' of one tile, scaled = the same times the curvatures, both (padded d + 1, rows)."""
    d = X.shape[1]
    for t in range(count):
        x = X[start + t]
        for j in range(d):
            columns[j, t] = x[j]
        columns[d, t] = 1
    for j in range(d + 1):
        for t in range(count):
            scaled[j, t] = curvature[t] * columns[j, t]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _block(scaled, columns, j, k, count, gram):  # type: ignore[no-untyped-def]
    """Two by four entries of gram += scaled columns': eight sums that stay in vector registers."""
    a0, a1 = scaled[j], scaled[j + 1]
    b0, b1, b2, b3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
    zero = scaled.dtype.type(0)
    s00, s01, s02, s03, s10, s11, s12, s13 = zero, zero, zero, zero, zero, zero, zero, zero
    for t in range(count):
        s00 += a0[t] * b0[t]
        s01 += a0[t] * b1[t]
        s02 += a0[t] * b2[t]
        s03 += a0[t] * b3[t]
        s10 += a1[t] * b0[t]
        s11 += a1[t] * b1[t]
        s12 += a1[t] * b2[t]
        s13 += a1[t] * b3[t]
    gram[j, k] += s00
    gram[j, k + 1] += s01
    gram[j, k + 2] += s02
    gram[j, k + 3] += s03
    gram[j + 1, k] += s10
    gram[j + 1, k + 1] += s11
    gram[j + 1, k + 2] += s12
    gram[j + 1, k + 3] += s13


@njit(nogil=True, cache=True)
def _rank_update(scaled, columns, count, gram):  # type: ignore[no-untyped-def]
    """Upper triangle of gram += scaled columns'. Products and the sum over one tile in X's precision, then float64.

    Within a few per cent to 30 % of BLAS for d from 100 to 784 and ahead of it below (2 cores, 2026-11), without
    BLAS's own threads, which fight with ours.
    """
    for j in range(0, gram.shape[0], 2):
        for k in range(j // 4 * 4, gram.shape[0], 4):
            _block(scaled, columns, j, k, count, gram)


@njit(nogil=True, cache=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    _forward(X, w, b, start, stop, z[start:stop])


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(code, X, y, weight, w, b, start, stop, z, curvature, sums, diagonal, gram):  # type: ignore[no-untyped-def]
    """Value, gradient and, where asked, Hessian diagonal or Gram of the loss over [start, stop), reading X once.

    Margins go to z, curvatures to `curvature` (both (n,)). `sums` (d + 2,) gets X' slope, the sum of slopes and that
    of losses; `diagonal` (d + 1,) X.^2' curvature and its sum; `gram`, square of side `gram_side(d)`, the upper
    triangle of [X 1]' D [X 1] in its leading d + 1 rows. An empty `diagonal` or `gram` is not wanted.
    """
    d = X.shape[1]
    side = gram.shape[0]
    rows = GRAM_ROWS if side > 0 else _tile_rows(X)
    slope = np.empty(rows)
    # eight spare entries a row keep the columns of a tile out of the same cache sets
    columns = np.zeros((side, rows + 8), X.dtype)
    scaled = np.zeros((side, rows + 8), X.dtype)
    total = 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        n = hi - lo
        _forward(X, w, b, lo, hi, z[lo:hi])
        c = curvature[lo:hi]
        total += tile(code, y[lo:hi], z[lo:hi], weight[lo:hi], slope[:n], c)
        _backward(X, slope, lo, n, sums)
        sums[d] += slope[:n].sum()
        if len(diagonal) > 0:
            _squares(X, c, lo, n, diagonal)
            diagonal[d] += c.sum()
        if side > 0:
            _transpose(X, c, lo, n, columns, scaled)
            _rank_update(scaled, columns, n, gram)
    sums[d + 1] += total


@njit(nogil=True, cache=True, error_model="numpy")
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) over [start, stop) to `out` (d + 1,), reading X once; return v' of it."""
    d = X.shape[1]
    rows = _tile_rows(X)
    u = np.empty(rows)
    total = 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        n = hi - lo
        _forward(X, v, vb, lo, hi, u)
        for t in range(n):
            cu = curvature[lo + t] * u[t]
            total += cu * u[t]
            u[t] = cu
        _backward(X, u, lo, n, out)
        out[d] += u[:n].sum()
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Largest squared row norm over [start, stop), and their sum, which is not finite if a value or a square is not."""
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = 0.0
        x = X[i]
        for j in range(len(x)):
            norm += np.float64(x[j]) * np.float64(x[j])
        total += norm
        largest = max(largest, norm)
    return largest, total
