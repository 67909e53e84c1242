"""CPU kernels on dense rows (C order, float32 or float64): every function that touches a dense X is
here.

Each takes a run of rows [start, stop) and adds to float64 outputs that belong to the calling
thread, so that a caller may divide rows among threads as it likes. X is read once per call, tile by
tile: a tile of rows stays in the second-level cache between the forward product, the loss and the
backward product. Products and sums are float64 whatever X is, but for the Gram's, which are summed
in X's precision over the rows of one tile, unless they are to be exact.
"""

from __future__ import annotations

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels.gram import add_gram, gram_rows, scratch
from daskglm.kernels.simd import LANES, add_rows, dots, fetch, numbers, whole
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

TILE_BYTES = 64 * 1024
# Most rows of a tile, whose margins and slopes stay in the first-level cache.
MOST_ROWS = 512
# Bytes of a row up to which several rows are taken at once, and the next tile is prefetched
# meanwhile; longer ones are read faster one by one, in order.
NARROW_BYTES = 256
# Columns from which w fills the first-level cache, so that several rows share a read of it.
LONG = 3072


@compiled(nogil=True)
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the rows of a tile; `formed` says whether a Gram is."""
    return gram_rows(X) if formed else _rows(X)


@compiled(nogil=True)
def _rows(X):  # type: ignore[no-untyped-def]
    rows = min(max(TILE_BYTES // max(X.shape[1] * X.itemsize, 1), LANES), MOST_ROWS)
    return rows // LANES * LANES


@compiled(nogil=True)
def _vectors(d):  # type: ignore[no-untyped-def]
    return (d + LANES - 1) // LANES


@compiled(nogil=True)
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return w with zeros up to whole vectors, as `forward` takes it."""
    return _padded(w)


@compiled(nogil=True)
def _padded(w):  # type: ignore[no-untyped-def]
    wide = np.zeros(_vectors(len(w)) * LANES)
    _add(w, len(w), wide)
    return wide


@compiled(nogil=True)
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return where `backward` adds up a run of rows."""
    return np.zeros(_vectors(d) * LANES)


@compiled(nogil=True)
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return the rows of a run: the rounding error of a sum grows with its length."""
    return SUMMED_ROWS


@compiled(nogil=True)
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Add what a run gathered to the sums; the next begins at zero."""
    _add(gradient, d, sums)
    gradient[:] = 0.0


@compiled(nogil=True)
def room(X, many, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in."""
    return scratch(X, many if formed else 0)


@compiled(nogil=True)
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] of a tile to the upper triangle of `gram`."""
    add_gram(X, curvature, start, count, work, gram)


@compiled(nogil=True)
def _add(values, count, out):  # type: ignore[no-untyped-def]
    """Add so many values to `out`.

    numba compiles `out[:count] += values[:count]` for seconds: its errors print shapes.
    """
    for j in range(count):
        out[j] += values[j]


@compiled(nogil=True)
def _fetch(flat, first, count):  # type: ignore[no-untyped-def]
    """Prefetch `count` numbers amid the work on a tile, when the processor does not by itself."""
    for p in range(first, min(first + count, len(flat)), numbers(flat, LINE_BYTES)):
        fetch(flat, p)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows [start, stop) with padded w.

    Meanwhile half of as many rows from `ahead` on are prefetched.
    """
    d = X.shape[1]
    flat, vectors = X.reshape(X.size), _vectors(d)
    short = d * X.itemsize <= NARROW_BYTES
    packed = whole(X, start, stop, len(w)) if short or d > LONG else 0
    for t in range(0, packed, LANES):
        if short and t % (2 * LANES) == 0:
            _fetch(flat, (ahead + t // 2) * d, LANES * d)
        dots(flat, (start + t) * d, d, w, vectors, b, z, t)
    for i in range(start + packed, stop):
        x = X[i]
        total = 0.0
        for j in range(d):
            total += w[j] * x[j]
        z[i - start] = total + b


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`, which is padded.

    Meanwhile the other half of the rows from `ahead` on is prefetched.
    """
    d = X.shape[1]
    flat, vectors = X.reshape(X.size), _vectors(d)
    short = d * X.itemsize <= NARROW_BYTES
    packed = whole(X, start, start + count, len(out))
    for t in range(0, packed, LANES):
        if short and t % (2 * LANES) == 0:
            _fetch(flat, (ahead + packed // 2 + t // 2) * d, LANES * d)
        add_rows(flat, (start + t) * d, d, slope, t, out, vectors)
    for t in range(packed, count):
        x, s = X[start + t], slope[t]
        for j in range(d):
            out[j] += s * x[j]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out` (d,) or longer."""
    for t in range(count):
        x, c = X[start + t], curvature[t]
        for j in range(len(x)):
            out[j] += c * (np.float64(x[j]) * np.float64(x[j]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    last = len(cross) - 1
    for i in range(n):
        x, k = X[lo + i], np.int64(codes[lo + i])
        if k + 1 < last:
            row, c = cross[k + 1], of[1, i]
            for j in range(len(x)):
                row[j] -= c * x[j]
        if k > 0:
            row, c = cross[k], of[3, i]
            for j in range(len(x)):
                row[j] -= c * x[j]


# ---- what is called
@compiled(nogil=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    rows = _rows(X)
    wide = _padded(w)
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        forward(X, wide, b, lo, hi, z[lo:hi], X.shape[0])


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) of [start, stop) to `out` (d + 1,) in one pass; return v' of it."""
    d = X.shape[1]
    rows = _rows(X)
    u = np.empty(rows)
    wide, product = _padded(v), np.zeros(_vectors(d) * LANES)
    total, constant = 0.0, 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        c = curvature[lo:hi]
        forward(X, wide, vb, lo, hi, u, hi)
        for t in range(hi - lo):
            cu = c[t] * u[t]
            total += cu * u[t]
            constant += cu
            u[t] = cu
        backward(X, u, lo, hi - lo, product, hi)
    _add(product, d, out)
    out[d] += constant
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_by_code(X, values, codes, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1] times `values` of the rows [start, stop) to the rows of `out` that `codes` name.

    `out` is (codes, d + 1).
    """
    d = X.shape[1]
    for i in range(start, stop):
        x, to, s = X[i], out[codes[i]], values[i]
        for j in range(d):
            to[j] += s * x[j]
        to[d] += s


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest squared row norm over [start, stop), and the sum of all.

    The sum is not finite if a value or its square is not.
    """
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = 0.0
        x = X[i]
        for j in range(len(x)):
            norm += np.float64(x[j]) * np.float64(x[j])
        total += norm
        largest = max(largest, norm)
    return largest, total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def spread(X, centre, scale, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add what `requests.Spread` asks for over [start, stop) to `sums` (2 d + 1,)."""
    d = X.shape[1]
    for i in range(start, stop):
        square = 0.0
        x = X[i]
        for j in range(d):
            sums[j] += x[j]
            sums[d + j] += ((x[j] / scale) ** 2) ** 16
            square += ((x[j] - centre[j]) / scale) ** 2
        sums[2 * d] += square**16
