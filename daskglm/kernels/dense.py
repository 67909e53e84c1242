"""CPU kernels on dense rows (C order, float32 or float64): every function that touches a dense X is here.

Each takes a run of rows [start, stop) and adds to float64 outputs that belong to the calling thread, so that a
caller may deal rows to threads as it likes. X is read once per call, tile by tile: a tile of rows stays in the
second-level cache between the forward product, the loss and the backward product. Products and sums are float64
whatever X is, but for the Gram's, which are summed in X's precision over the rows of one tile.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from daskglm.kernels.vectors import (
    BLOCK_ROWS,
    LANES,
    LINE_BYTES,
    PANEL_BYTES,
    add_rows,
    dots,
    fetch,
    pack,
    products_1,
    products_2,
)
from daskglm.losses import tile

TILE_BYTES = 64 * 1024
MOST_ROWS = 512  # of a tile, whose vectors of margins and slopes stay in the first-level cache
GRAM_ROWS = 128  # rows of a tile when the Gram is wanted: float32 products are summed over so many, then in float64
NARROW_BYTES = 256  # rows up to which several are taken at once, and the next tile fetched while this one is worked on;
# longer ones are read faster one by one, in order
LONG = 3072  # columns from which w fills the first-level cache, so that several rows have to share a reading of it


def _numbers(X, size):  # type: ignore[no-untyped-def]
    raise NotImplementedError("compiled code only")


@overload(_numbers, inline="always")
def _numbers_of(X, size):  # type: ignore[no-untyped-def]
    """How many numbers of X take `size` bytes; a constant of the type, where X.itemsize is a division at every row."""
    itemsize = X.dtype.bitwidth // 8
    return lambda X, size: size // itemsize


@njit(nogil=True, cache=True)
def _tile_rows(X):  # type: ignore[no-untyped-def]
    rows = min(max(TILE_BYTES // max(X.shape[1] * X.itemsize, 1), LANES), MOST_ROWS)
    return rows // LANES * LANES


@njit(nogil=True, cache=True)
def _vectors(d):  # type: ignore[no-untyped-def]
    return (d + LANES - 1) // LANES


@njit(nogil=True, cache=True)
def _padded(w):  # type: ignore[no-untyped-def]
    """W with zeros up to whole vectors."""
    wide = np.zeros(_vectors(len(w)) * LANES)
    wide[: len(w)] = w
    return wide


@njit(nogil=True, cache=True)
def _whole(X, start, stop, width):  # type: ignore[no-untyped-def]
    """How many rows from `start` can be taken LANES at a time, each read as if it had `width` columns."""
    d = X.shape[1]
    readable = (X.size - width) // d + 1 if X.size >= width else 0
    return max(min(stop, readable) - start, 0) // LANES * LANES


@njit(nogil=True, cache=True)
def _fetch(flat, first, count):  # type: ignore[no-untyped-def]
    """Fetch `count` numbers, in turns of the work on a tile: the processor's own prefetching rests meanwhile."""
    for p in range(first, min(first + count, len(flat)), _numbers(flat, LINE_BYTES)):
        fetch(flat, p)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Margins of the rows [start, stop) with padded w; meanwhile half of as many rows from `ahead` on are fetched."""
    d = X.shape[1]
    flat, vectors = X.reshape(X.size), _vectors(d)
    short = d * X.itemsize <= NARROW_BYTES
    whole = _whole(X, start, stop, len(w)) if short or d > LONG else 0
    for t in range(0, whole, LANES):
        if short and t % (2 * LANES) == 0:
            _fetch(flat, (ahead + t // 2) * d, LANES * d)
        dots(flat, (start + t) * d, d, w, vectors, b, z, t)
    for i in range(start + whole, stop):
        x = X[i]
        total = 0.0
        for j in range(d):
            total += w[j] * x[j]
        z[i - start] = total + b


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Padded out += X[start:start + count]' slope; meanwhile the other half of the rows from `ahead` on is fetched."""
    d = X.shape[1]
    flat, vectors = X.reshape(X.size), _vectors(d)
    short = d * X.itemsize <= NARROW_BYTES
    whole = _whole(X, start, start + count, len(out))
    for t in range(0, whole, LANES):
        if short and t % (2 * LANES) == 0:
            _fetch(flat, (ahead + whole // 2 + t // 2) * d, LANES * d)
        add_rows(flat, (start + t) * d, d, slope, t, out, vectors)
    for t in range(whole, count):
        x, s = X[start + t], slope[t]
        for j in range(d):
            out[j] += s * x[j]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    for t in range(count):
        x, c = X[start + t], curvature[t]
        for j in range(len(x)):
            out[j] += c * (np.float64(x[j]) * np.float64(x[j]))


# ---------------------------------------------------------------------------- the Gram
@njit(nogil=True, cache=True)
def _pack(X, curvature, start, count, plain, scaled):  # type: ignore[no-untyped-def]
    """Plain = [X 1] of one tile cut into panels of columns (panel, row, column), scaled = the same times curvatures.

    Columns past the last hold anything finite.
    """
    d = X.shape[1]
    flat, to, product = X.reshape(X.size), plain.reshape(plain.size), scaled.reshape(scaled.size)
    panels, rows, width = plain.shape
    whole = _whole(X, start, start + count, panels * width)
    for p in range(panels):
        for t in range(whole):
            c = X.dtype.type(curvature[t])
            pack(flat, (start + t) * d + p * width, c, to, product, (p * rows + t) * width)
        for t in range(whole, count):
            for k in range(min(d - p * width, width)):
                plain[p, t, k] = X[start + t, p * width + k]
                scaled[p, t, k] = X.dtype.type(curvature[t]) * plain[p, t, k]
    for t in range(count):
        plain[d // width, t, d % width] = 1
        scaled[d // width, t, d % width] = curvature[t]


@njit(nogil=True, cache=True)
def _rank_update(panels, scaled, count, d, edge, gram):  # type: ignore[no-untyped-def]
    """Upper triangle of gram += [X 1]' D [X 1] of one tile, block by block, on as much of each as lies within d + 1.

    Not left to BLAS, whose own threads fight with ours and which reads rows and scaled rows from memory.
    """
    width = _numbers(panels, PANEL_BYTES)
    gap, side = panels.shape[1] * width, gram.shape[0]
    left, right, out = scaled.reshape(scaled.size), panels.reshape(panels.size), gram.reshape(gram.size)
    for p in range(len(panels)):
        for q in range(p, len(panels), 2):
            both = q + 1 < len(panels)
            columns = 2 * width if both else width
            for j in range(p * width, min((p + 1) * width, d + 1), BLOCK_ROWS):
                fits = j + BLOCK_ROWS <= side and q * width + columns <= side
                to, at, apart = (out, j * side + q * width, side) if fits else (edge, 0, columns)
                if both:
                    products_2(left, p * gap + j - p * width, right, q * gap, count, gap, to, at, apart)
                else:
                    products_1(left, p * gap + j - p * width, right, q * gap, count, gap, to, at, apart)
                if not fits:
                    _add_edge(edge, columns, gram, j, q * width, d)


@njit(nogil=True, cache=True)
def _add_edge(edge, columns, gram, j, k, d):  # type: ignore[no-untyped-def]
    """Add the part within d + 1 of a block that reaches past the end of gram, and clear it."""
    for i in range(min(BLOCK_ROWS, d + 1 - j)):
        for m in range(min(columns, d + 1 - k)):
            gram[j + i, k + m] += edge[i * columns + m]
    edge[:] = 0.0


# ---------------------------------------------------------------------------- what is called
@njit(nogil=True, cache=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    rows = _tile_rows(X)
    wide = _padded(w)
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        _forward(X, wide, b, lo, hi, z[lo:hi], X.shape[0])


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(code, X, y, weight, w, b, start, stop, z, curvature, sums, diagonal, gram):  # type: ignore[no-untyped-def]
    """Value, gradient and, where asked, Hessian diagonal or Gram of the loss over [start, stop), reading X once.

    Margins go to z, curvatures to `curvature` (both (n,)). `sums` (d + 2,) gets X' slope, the sum of slopes and that
    of losses; `diagonal` (d + 1,) X.^2' curvature and its sum; `gram`, square of side `gram_side(d)`, the upper
    triangle of [X 1]' D [X 1] in its leading d + 1 rows. Empty z and `curvature`, `diagonal` or `gram` are not wanted.
    """
    d = X.shape[1]
    wanted = gram.shape[0] > 0
    rows = GRAM_ROWS if wanted else _tile_rows(X)
    kept, curved = len(z) > 0, len(curvature) > 0
    slope, here, there = np.empty(rows), np.empty(rows), np.empty(rows)
    wide, out = _padded(w), np.zeros(_vectors(d) * LANES)
    width = _numbers(X, PANEL_BYTES)
    panels = np.zeros((d // width + 1 if wanted else 0, rows, width), X.dtype)
    scaled = np.empty_like(panels)
    edge = np.zeros(2 * BLOCK_ROWS * width)
    total = 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        n = hi - lo
        s = slope[:n]
        m = z[lo:hi] if kept else here[:n]
        c = curvature[lo:hi] if curved else there[:n]
        _forward(X, wide, b, lo, hi, m, hi)
        total += tile(code, y[lo:hi], m, weight[lo:hi], s, c)
        _backward(X, s, lo, n, out, hi)
        sums[d] += s.sum()
        if len(diagonal) > 0:
            _squares(X, c, lo, n, diagonal)
            diagonal[d] += c.sum()
        if wanted:
            _pack(X, c, lo, n, panels, scaled)
            _rank_update(panels, scaled, n, d, edge, gram)
    sums[:d] += out[:d]
    sums[d + 1] += total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) over [start, stop) to `out` (d + 1,), reading X once; return v' of it."""
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
    out[:d] += product[:d]
    out[d] += constant
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
