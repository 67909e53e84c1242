"""CPU kernels on sparse rows: every function that touches a SciPy CSR matrix is here, under the names of `dense`.

X is the triple (data, indices, indptr); see `dense` for what the functions do and return. Where `data` has one element
all stored values are equal to it, and only the pattern is read. A tile of rows is still in the cache when the backward
product scatters it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.losses import tile

TILE_ROWS = 128


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _forward(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    for i in range(start, stop):
        total = 0.0
        if len(data) == 1:
            for p in range(indptr[i], indptr[i + 1]):
                total += w[np.uint64(indices[p])]
            total *= data[0]
        else:
            for p in range(indptr[i], indptr[i + 1]):
                total += data[p] * w[np.uint64(indices[p])]
        z[i - start] = total + b


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _backward(X, slope, start, count, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    for t in range(count):
        s = slope[t]
        if s != 0.0 and len(data) == 1:
            s *= data[0]
            for p in range(indptr[start + t], indptr[start + t + 1]):
                out[np.uint64(indices[p])] += s
        elif s != 0.0:
            for p in range(indptr[start + t], indptr[start + t + 1]):
                out[np.uint64(indices[p])] += s * data[p]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1  # a pattern has one value, for all places
    for t in range(count):
        c = curvature[t]
        for p in range(indptr[start + t], indptr[start + t + 1]):
            value = np.float64(data[min(p, last)])
            out[np.uint64(indices[p])] += c * (value * value)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _rank_update(X, curvature, start, count, d, gram):  # type: ignore[no-untyped-def]
    """Upper triangle of gram += [X 1]' D [X 1] over one tile; column indices ascend within a row."""
    data, indices, indptr = X
    end = len(data) - 1
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        first, last = indptr[start + t], indptr[start + t + 1]
        for p in range(first, last):
            row = gram[np.uint64(indices[p])]
            a = c * data[min(p, end)]
            for q in range(p, last):
                row[np.uint64(indices[q])] += a * data[min(q, end)]
            row[d] += a
        gram[d, d] += c


@njit(nogil=True, cache=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    _forward(X, w, b, start, stop, z[start:stop])


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(code, X, y, weight, w, b, start, stop, z, curvature, sums, diagonal, gram):  # type: ignore[no-untyped-def]
    """Value, gradient and, where asked, Hessian diagonal or Gram of the loss over [start, stop); see `dense`."""
    d = len(sums) - 2
    slope = np.empty(TILE_ROWS)
    total = 0.0
    for lo in range(start, stop, TILE_ROWS):
        hi = min(lo + TILE_ROWS, stop)
        n = hi - lo
        _forward(X, w, b, lo, hi, z[lo:hi])
        c = curvature[lo:hi]
        total += tile(code, y[lo:hi], z[lo:hi], weight[lo:hi], slope[:n], c)
        _backward(X, slope, lo, n, sums)
        sums[d] += slope[:n].sum()
        if len(diagonal) > 0:
            _squares(X, c, lo, n, diagonal)
            diagonal[d] += c.sum()
        if gram.shape[0] > 0:
            _rank_update(X, c, lo, n, d, gram)
    sums[d + 1] += total


@njit(nogil=True, cache=True, error_model="numpy")
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) over [start, stop) to `out` (d + 1,), reading X once; return v' of it."""
    u = np.empty(TILE_ROWS)
    total = 0.0
    for lo in range(start, stop, TILE_ROWS):
        hi = min(lo + TILE_ROWS, stop)
        n = hi - lo
        _forward(X, v, vb, lo, hi, u)
        for t in range(n):
            cu = curvature[lo + t] * u[t]
            total += cu * u[t]
            u[t] = cu
        _backward(X, u, lo, n, out)
        out[-1] += u[:n].sum()
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Largest squared row norm over [start, stop), and their sum, which is not finite if a value or a square is not."""
    data, _, indptr = X
    last = len(data) - 1
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[min(p, last)])
            norm += value * value
        total += norm
        largest = max(largest, norm)
    return largest, total
