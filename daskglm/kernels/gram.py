"""The Gram [X 1]' D [X 1] of dense rows on the CPU, tile by tile, in vector registers.

Not left to BLAS, whose own threads fight with ours and which reads rows and scaled rows from
memory. Two ways: short rows become columns, whose products are summed with a row to each lane of a
vector: nothing is computed twice, and the lanes are added up once a tile. Of long rows a vector is
a piece of one, and has a broadcast number for its partner: lanes need no adding up, and blocks of
the triangle are much larger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.simd import (
    VECTOR_BYTES,
    WIDE_REGISTERS,
    add_doubles,
    emitted,
    everywhere,
    itemsize,
    load,
    loop,
    multiply_add,
    numbers,
    places,
    store,
    whole,
)
from daskglm.kernels.simd_columns import PIECE_BYTES, RIGHT, add_triangle, pack_columns, room_for
from daskglm.system.compiled import compiled

# Bytes of a row up to which rows are transposed into columns.
SHORT_BYTES = 256
# Bytes of a tile of them, which stays in the first-level cache with its columns; its rows at most,
# and its vectors of rows at least, over which the cost of adding up lanes is spread.
SHORT_TILE, MOST_ROWS, LEAST_VECTORS = 16 * 1024, 512, 8
# Rows of a tile of longer ones: float32 products are summed over a tile, then in float64.
ROWS = 128
# Rows of a block of `products`: 16 or 8 sums stay in registers.
BLOCK_ROWS = 8 if WIDE_REGISTERS else 4


# ---- short rows
@compiled(nogil=True)
def _add_short(X, curvature, start, count, columns, roots, gram):  # type: ignore[no-untyped-def]
    """Add the products of every two columns of one tile to `gram`, for short rows.

    The columns are [X 1] times the roots of the curvatures. The next tile is prefetched meanwhile.
    """
    d, gap = X.shape[1], columns.shape[1]
    flat = X.reshape(X.size)
    to = columns.reshape(columns.size)
    lanes = numbers(X, VECTOR_BYTES)
    piece = numbers(X, PIECE_BYTES)
    vectors = (count + lanes - 1) // lanes
    for t in range(count):
        roots[t] = np.sqrt(X.dtype.type(curvature[t]))
    roots[count : vectors * lanes] = 0
    pieces = (d + piece - 1) // piece
    packed = whole(X, start, start + count, pieces * piece) // lanes
    if packed:
        for p in range(0, pieces * piece, piece):
            pack_columns(flat, start * d + p, d, roots, packed, to, p * gap, gap)
    for j in range(d):
        for t in range(packed * lanes, count):
            columns[j, t] = roots[t] * X[start + t, j]
        columns[j, count : vectors * lanes] = 0
    for t in range(vectors * lanes):
        columns[d, t] = roots[t]
    coming = flat[(start + count) * d : (start + 2 * count) * d]
    add_triangle(columns, d, 0, vectors, gram, coming)


# ---- long rows
@emitted
def pack(builder, rows, at, factor, plain, scaled, to):  # type: ignore[no-untyped-def]
    """Copy VECTOR_BYTES of a row, from rows[at] to plain[to], and times `factor` to scaled[to]."""
    size = itemsize(rows)
    part = load(builder, builder.gep(rows, [at]), VECTOR_BYTES // size)
    store(builder, part, builder.gep(plain, [to]), size)
    product = builder.fmul(part, everywhere(builder, factor, VECTOR_BYTES // size))
    store(builder, product, builder.gep(scaled, [to]), size)


def _products(panels: int) -> Any:
    @emitted
    def products(builder, left, j, right, k, count, gap, out, to, side):  # type: ignore[no-untyped-def]
        width = VECTOR_BYTES // itemsize(left)
        a, starts = builder.gep(left, [j]), places(builder, builder.gep(right, [k]), gap, panels)
        zero = ir.Constant(ir.VectorType(left.type.pointee, width), [0.0] * width)

        def turn(t: Any, sums: list[Any]) -> list[Any]:
            row = builder.mul(t, ir.Constant(t.type, width))
            parts = [load(builder, builder.gep(start, [row]), width) for start in starts]
            read = [
                builder.gep(a, [builder.add(row, ir.Constant(t.type, i))])
                for i in range(BLOCK_ROWS)
            ]
            factors = [everywhere(builder, builder.load(place), width) for place in read]
            pairs = [(factor, part) for factor in factors for part in parts]
            return [multiply_add(builder, *pair, s) for pair, s in zip(pairs, sums, strict=True)]

        sums = loop(builder, count, [zero] * (panels * BLOCK_ROWS), turn)
        lines = places(builder, builder.gep(out, [to]), side, BLOCK_ROWS)
        for i, total in enumerate(sums):
            column = ir.Constant(side.type, i % panels * width)
            add_doubles(builder, total, builder.gep(lines[i // panels], [column]))

    return products


# Add A' B to `out` (float64, from out[to] on, rows `side` apart): A the BLOCK_ROWS columns from
# left[j], B one panel from right[k], or that and the one `gap` numbers further. Panels have `count`
# rows of VECTOR_BYTES; sums over these are made in the panels' precision and stay in registers.
products_1, products_2 = _products(1), _products(2)


@compiled(nogil=True)
def _pack(X, curvature, start, chosen, safe, first, plain, scaled):  # type: ignore[no-untyped-def]
    """Cut [X 1] of `chosen` rows into panels (panel, row, column), plain and times curvatures.

    They come from row `first` of the panels on. Of rows from start on `safe` can be read beyond
    their ends; columns past the last hold anything finite.
    """
    d = X.shape[1]
    flat = X.reshape(X.size)
    to = plain.reshape(plain.size)
    product = scaled.reshape(scaled.size)
    panels, rows, width = plain.shape
    packed = np.searchsorted(chosen, safe)
    for p in range(panels):
        for i in range(packed):
            t = chosen[i]
            c = X.dtype.type(curvature[t])
            pack(flat, (start + t) * d + p * width, c, to, product, (p * rows + first + i) * width)
        for i in range(packed, len(chosen)):
            t = chosen[i]
            for k in range(min(d - p * width, width)):
                plain[p, first + i, k] = X[start + t, p * width + k]
                scaled[p, first + i, k] = X.dtype.type(curvature[t]) * plain[p, first + i, k]
    for i in range(len(chosen)):
        plain[d // width, first + i, d % width] = 1
        scaled[d // width, first + i, d % width] = curvature[chosen[i]]


@compiled(nogil=True)
def _add_long(panels, scaled, count, d, edge, gram):  # type: ignore[no-untyped-def]
    """Gram += products of one tile, block by block, on as much of each as lies within d + 1."""
    width = numbers(panels, VECTOR_BYTES)
    gap, side = panels.shape[1] * width, gram.shape[0]
    left = scaled.reshape(scaled.size)
    right = panels.reshape(panels.size)
    out = gram.reshape(gram.size)
    for p in range(len(panels)):
        for q in range(p, len(panels), 2):
            both = q + 1 < len(panels)
            columns = 2 * width if both else width
            for j in range(p * width, min((p + 1) * width, d + 1), BLOCK_ROWS):
                fits = j + BLOCK_ROWS <= side and q * width + columns <= side
                to, at, apart = (out, j * side + q * width, side) if fits else (edge, 0, columns)
                first, beside = p * gap + j - p * width, q * gap
                if both:
                    products_2(left, first, right, beside, count, gap, to, at, apart)
                else:
                    products_1(left, first, right, beside, count, gap, to, at, apart)
                if not fits:
                    _add_edge(edge, columns, gram, j, q * width, d)


@within_callers()
def _add_edge(edge, columns, gram, j, k, d):  # type: ignore[no-untyped-def]
    """Add the part within d + 1 of a block that reaches past the end of gram, and clear it."""
    for i in range(min(BLOCK_ROWS, d + 1 - j)):
        for m in range(min(columns, d + 1 - k)):
            gram[j + i, k + m] += edge[i * columns + m]
    edge[:] = 0.0


# ---- what is called
@within_callers()
def _is_short(X):  # type: ignore[no-untyped-def]
    return X.shape[1] * X.itemsize <= SHORT_BYTES


@within_callers()
def gram_rows(X):  # type: ignore[no-untyped-def]
    """Return how many rows `add_outer` takes at once, which are whole vectors of them."""
    if not _is_short(X):
        return ROWS
    lanes = numbers(X, VECTOR_BYTES)
    rows = max(SHORT_TILE // max(X.shape[1] * X.itemsize, 1), LEAST_VECTORS * lanes)
    return min(rows, MOST_ROWS) // lanes * lanes


@compiled(nogil=True)
def scratch(X, rows):  # type: ignore[no-untyped-def]
    """Make the arrays in which `add_outer` works; empty ones for no rows.

    The last one has the rows of a tile that are taken, and how many wait for `finish_outer`.
    """
    d = X.shape[1]
    chosen = np.zeros(rows + 1, np.int64)
    if rows == 0:
        return np.empty((0, 0, 0), X.dtype), np.empty((0, 0, 0), X.dtype), np.empty(0), chosen
    if _is_short(X):
        columns = room_for(d // RIGHT * RIGHT + RIGHT, rows, np.empty(0, X.dtype))
        roots = np.zeros((1, 1, rows), X.dtype)
        return columns.reshape((1, *columns.shape)), roots, np.empty(0), chosen
    width = numbers(X, VECTOR_BYTES)
    panels = np.zeros((d // width + 1, rows, width), X.dtype)
    return panels, np.empty_like(panels), np.zeros(2 * BLOCK_ROWS * width), chosen


@compiled(nogil=True)
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] of the rows [start, start + count) to the upper triangle of `gram`.

    They are at most `gram_rows`. Products are summed in X's precision, tiles in float64. `gram` is
    square of side `gram_side(d)`; entries past d + 1 are undefined. Long rows are multiplied once
    there is a tile of them, those without curvature left out; `finish_outer` adds the last.
    """
    plain, scaled, edge, chosen = work
    if _is_short(X):
        _add_short(X, curvature, start, count, plain[0], scaled[0, 0], gram)
        return
    most = plain.shape[1]
    safe = whole(X, start, start + count, plain.shape[0] * plain.shape[2])
    t, filled = 0, chosen[most]
    while t < count:
        many = 0
        while t < count and filled + many < most:
            chosen[many] = t
            many += curvature[t] != 0.0
            t += 1
        _pack(X, curvature, start, chosen[:many], safe, filled, plain, scaled)
        filled += many
        if filled == most:
            _add_long(plain, scaled, most, d, edge, gram)
            filled = 0
    chosen[most] = filled


@compiled(nogil=True)
def finish_outer(d, work, gram):  # type: ignore[no-untyped-def]
    """Add the products of rows that wait for a whole tile to `gram`."""
    plain, scaled, edge, chosen = work
    filled = chosen[-1]
    if filled > 0:
        _add_long(plain, scaled, filled, d, edge, gram)
        chosen[-1] = 0
