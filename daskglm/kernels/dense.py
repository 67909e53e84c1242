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
from daskglm.kernels.margins import is_zero
from daskglm.kernels.records import read_only
from daskglm.kernels.simd import LANES, add_rows, dots, fetch, numbers, whole
from daskglm.losses.dispatch import tile_at
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

TILE_BYTES = 64 * 1024
# Most rows of a tile, whose margins and slopes stay in the first-level cache.
MOST_ROWS = 512
# Bytes of a row up to which several rows are taken at once, and the next tile is prefetched
# meanwhile; longer ones are read faster one by one, in order.
NARROW_BYTES = 256
# Bytes of rows that are converted to float64 at a time for an exact Gram, to stay in the
# second-level cache.
EXACT_BYTES = 1 << 20
# Columns from which w fills the first-level cache, so that several rows share a read of it.
LONG = 3072


@compiled(nogil=True)
def _tile_rows(X):  # type: ignore[no-untyped-def]
    rows = min(max(TILE_BYTES // max(X.shape[1] * X.itemsize, 1), LANES), MOST_ROWS)
    return rows // LANES * LANES


@compiled(nogil=True)
def _vectors(d):  # type: ignore[no-untyped-def]
    return (d + LANES - 1) // LANES


@compiled(nogil=True)
def _padded(w):  # type: ignore[no-untyped-def]
    """W with zeros up to whole vectors."""
    wide = np.zeros(_vectors(len(w)) * LANES)
    _add(w, len(w), wide)
    return wide


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
def _forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
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
def _backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
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
def _squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    for t in range(count):
        x, c = X[start + t], curvature[t]
        for j in range(len(x)):
            out[j] += c * (np.float64(x[j]) * np.float64(x[j]))


# ---- what is called
@compiled(nogil=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    rows = _tile_rows(X)
    wide = _padded(w)
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        _forward(X, wide, b, lo, hi, z[lo:hi], X.shape[0])


@compiled(nogil=True, error_model="numpy")
def evaluate(law, rows, w, b, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the loss over [start, stop), with its gradient and, if asked, Hessian or its diagonal.

    X is read once. `rows` is (X, y, weight, offset), `out` (z, curvature, sums, diagonal, gram);
    see `records`.
    """
    X, y, weight, offset = rows
    z, curvature, sums, diagonal, gram = out
    d = X.shape[1]
    wanted = gram.shape[0] > 0
    many = gram_rows(X) if wanted else _tile_rows(X)
    # most fits begin at zero, where rows have no product
    at_zero = is_zero(w)
    kept, curved = len(z) > 0, len(curvature) > 0
    slope = np.empty(many)
    here = np.empty(many)
    there = np.empty(many)
    wide, gradient = _padded(w), np.zeros(_vectors(d) * LANES)
    work = scratch(X, many if wanted else 0)
    total, slopes, added = 0.0, 0.0, 0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        # long sums in runs: their rounding error grows with the length of a run
        if added >= SUMMED_ROWS:
            _add(gradient, d, sums)
            sums[d] += slopes
            gradient[:] = 0.0
            slopes, added = 0.0, 0
        added += n
        s = slope[:n]
        m = z[lo:hi] if kept else here[:n]
        c = curvature[lo:hi] if curved else there[:n]
        if at_zero:
            m[:] = b
        else:
            _forward(X, wide, b, lo, hi, m, hi)
        total += tile_at(law, y[lo:hi], m, weight[lo:hi], offset[lo:hi], s, c)
        _backward(X, s, lo, n, gradient, hi)
        slopes += s.sum()
        if len(diagonal) > 0:
            _squares(X, c, lo, n, diagonal)
            diagonal[d] += c.sum()
        if wanted:
            add_gram(X, c, lo, n, work, gram)
    _add(gradient, d, sums)
    sums[d] += slopes
    sums[d + 1] += total


def evaluate_exactly(law, rows, w, b, start, stop, out):  # type: ignore[no-untyped-def]
    """Do the same with a Gram summed in float64: float32 rows are converted, some at a time."""
    X = rows[0]
    if X.dtype == np.float64:
        evaluate(law, rows, w, b, start, stop, out)
        return
    many = max(EXACT_BYTES // (8 * max(X.shape[1], 1)), 1)
    for lo in range(start, stop, many):
        run = slice(lo, min(lo + many, stop))
        part = X[run].astype(np.float64)
        y, weight, offset, z, curvature = (
            values[run] if len(values) else values for values in (*rows[1:], *out[:2])
        )
        beside = y, weight, offset
        evaluate(law, (read_only(part), *beside), w, b, 0, len(part), (z, curvature, *out[2:]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) of [start, stop) to `out` (d + 1,) in one pass; return v' of it."""
    d = X.shape[1]
    rows = _tile_rows(X)
    u = np.empty(rows)
    wide, product = _padded(v), np.zeros(_vectors(d) * LANES)
    total, constant = 0.0, 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        c = curvature[lo:hi]
        _forward(X, wide, vb, lo, hi, u, hi)
        for t in range(hi - lo):
            cu = c[t] * u[t]
            total += cu * u[t]
            constant += cu
            u[t] = cu
        _backward(X, u, lo, hi - lo, product, hi)
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
