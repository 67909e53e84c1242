"""Rows as columns, on the CPU: with a row to each lane of a vector, few features are worked on
without waste.

Columns lie in one array, `gap` numbers apart, each whole vectors of the rows of a tile. Intrinsics
in LLVM's vector types turn rows into columns, combine columns, and multiply them with each other;
sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from daskglm.kernels.simd import (
    LANES,
    VECTOR_BYTES,
    WIDE_REGISTERS,
    add_doubles,
    emitted,
    everywhere,
    fetch,
    itemsize,
    load,
    loop,
    multiply_add,
    numbers,
    places,
    shuffle,
    store,
    sums_of_lanes,
    widened,
)
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Columns of `column_products`, which makes as many sums.
LEFT, RIGHT = 4 if WIDE_REGISTERS else 2, 4
# Vectors of rows of `combine`, which makes as many sums for each of LEFT combinations.
VECTORS = 4
# Bytes of a row that become part of as many columns as they hold values.
PIECE_BYTES = 16


def _crossed(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Transpose the squares of numbers that are side by side in 2 or 4 vectors."""
    width, vectors = 1, list(rows)
    while width < len(vectors):
        for a in range(len(vectors)):
            if a // width % 2 == 0:
                pair = vectors[a], vectors[a + width]
                lanes = pair[0].type.count
                low = [n if n // width % 2 == 0 else n - width + lanes for n in range(lanes)]
                vectors[a] = shuffle(builder, *pair, low)
                vectors[a + width] = shuffle(builder, *pair, [n + width for n in low])
        width *= 2
    return vectors


def _columns(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Emit vectors of the columns in PIECE_BYTES, from the addresses of a vector's rows."""
    columns = PIECE_BYTES // itemsize(rows[0])
    pieces = [load(builder, row, columns) for row in rows]
    squares = []
    for r in range(columns):
        parts = pieces[r::columns]
        while len(parts) > 1:
            lanes = range(2 * parts[0].type.count)
            parts = [
                shuffle(builder, a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        squares.append(parts[0])
    return _crossed(builder, squares)


@emitted
def pack_columns(builder, rows, at, d, factors, count, out, to, gap):  # type: ignore[no-untyped-def]
    """Write PIECE_BYTES of each row, the first from rows[at] on, as columns from out[to] on.

    There are `count` vectors of rows of d numbers; each row is multiplied by its one of `factors`.
    """
    size = itemsize(rows)
    lanes, first = VECTOR_BYTES // size, builder.gep(rows, [at])
    starts = places(builder, builder.gep(out, [to]), gap, PIECE_BYTES // size)

    def turn(t: Any, _: list[Any]) -> list[Any]:
        row = builder.mul(t, ir.Constant(t.type, lanes))
        read = places(builder, builder.gep(first, [builder.mul(row, d)]), d, lanes)
        factor = load(builder, builder.gep(factors, [row]), lanes)
        for start, column in zip(starts, _columns(builder, read), strict=True):
            store(builder, builder.fmul(column, factor), builder.gep(start, [row]), size)
        return []

    loop(builder, count, [], turn)


@emitted
def gather_columns(builder, rows, at, d, order, count, out, to, gap):  # type: ignore[no-untyped-def]
    """Write PIECE_BYTES of some rows as float64 columns, from out[to] on.

    The rows begin at rows[at + i d] for each i of `order`; there are `count` vectors of LANES rows.
    """
    first = builder.gep(rows, [at])
    starts = places(builder, builder.gep(out, [to]), gap, PIECE_BYTES // itemsize(rows))

    def turn(t: Any, _: list[Any]) -> list[Any]:
        row = builder.mul(t, ir.Constant(t.type, LANES))
        read = []
        for r in range(LANES):
            number = builder.load(builder.gep(order, [builder.add(row, ir.Constant(t.type, r))]))
            number = number if number.type == d.type else builder.sext(number, d.type)
            read.append(builder.gep(first, [builder.mul(number, d)]))
        for start, column in zip(starts, _columns(builder, read), strict=True):
            store(builder, widened(builder, column), builder.gep(start, [row]), 8)
        return []

    loop(builder, count, [], turn)


@emitted
def combine(builder, columns, at, count, gap, w, first, width, z, to):  # type: ignore[no-untyped-def]
    """Add up `count` columns, from columns[at] on, times LEFT rows of W.

    These are `width` apart, from w[first] on. VECTORS vectors of each sum go to z, from z[to] on,
    `gap` numbers apart. All are float64.
    """
    start = builder.gep(columns, [at])
    lines = places(builder, builder.gep(w, [first]), width, LEFT)
    outs = places(builder, builder.gep(z, [to]), gap, LEFT)
    shifts = [ir.Constant(gap.type, v * LANES) for v in range(VECTORS)]
    zero = ir.Constant(ir.VectorType(ir.DoubleType(), LANES), [0.0] * LANES)

    def turn(j: Any, sums: list[Any]) -> list[Any]:
        column = builder.mul(j, gap)
        x = [
            load(builder, builder.gep(start, [builder.add(column, shift)]), LANES)
            for shift in shifts
        ]
        factors = [
            everywhere(builder, builder.load(builder.gep(line, [j])), LANES) for line in lines
        ]
        pairs = [(factor, part) for factor in factors for part in x]
        return [multiply_add(builder, *pair, s) for pair, s in zip(pairs, sums, strict=True)]

    sums = loop(builder, count, [zero] * (LEFT * VECTORS), turn)
    for k, total in enumerate(sums):
        store(builder, total, builder.gep(outs[k // VECTORS], [shifts[k % VECTORS]]), 8)


def _column_products(right: int) -> Any:
    @emitted
    def products(builder, columns, at, beside, count, gap, out, to, side):  # type: ignore[no-untyped-def]
        lanes = VECTOR_BYTES // itemsize(columns)
        lefts = places(builder, builder.gep(columns, [at]), gap, LEFT)
        rights = places(builder, builder.gep(columns, [beside]), gap, right)
        zero = ir.Constant(ir.VectorType(columns.type.pointee, lanes), [0.0] * lanes)

        def turn(t: Any, sums: list[Any]) -> list[Any]:
            row = [builder.mul(t, ir.Constant(t.type, lanes))]
            a = [load(builder, builder.gep(start, row), lanes) for start in lefts]
            b = [load(builder, builder.gep(start, row), lanes) for start in rights]
            pairs = [(x, y) for x in a for y in b]
            return [multiply_add(builder, *pair, s) for pair, s in zip(pairs, sums, strict=True)]

        sums = loop(builder, count, [zero] * (LEFT * right), turn)
        sums += [zero] * (-len(sums) % lanes)
        for i, start in enumerate(places(builder, builder.gep(out, [to]), side, LEFT)):
            n = i * right
            if n % lanes == 0:
                totals = sums_of_lanes(builder, sums[n : n + lanes])
            part = shuffle(builder, totals, totals, range(n % lanes, n % lanes + right))
            add_doubles(builder, part, start)

    return products


# Add A' B to `out` (float64, from out[to] on, rows `side` apart): A the LEFT columns from
# columns[at] on, B the RIGHT ones (or one) from columns[beside] on. Columns are `count` vectors
# long; their products are summed in their precision.
column_products, products_by_one = _column_products(RIGHT), _column_products(1)


@compiled(nogil=True)
def room_for(count, rows, like):  # type: ignore[no-untyped-def]
    """Make an array of zeros for `count` columns of so many rows: (count, rows and more).

    It has the dtype of `like`.
    """
    line = numbers(like, LINE_BYTES)
    gap = rows + line  # so much more keeps columns out of the same cache sets
    room = np.zeros(count * gap + line, like.dtype)
    lead = -room.ctypes.data % LINE_BYTES // room.itemsize  # no vector is to lie across two lines
    return room[lead : lead + count * gap].reshape(count, gap)


@compiled(nogil=True)
def add_triangle(columns, d, first, vectors, gram, coming):  # type: ignore[no-untyped-def]
    """Add columns columns' of d + 1 columns to the upper triangle of `gram`.

    The sum is over so many vectors of rows, from `first` on. `gram` is square; its side, and the
    number of columns, is d + 1 rounded up to whole blocks of RIGHT. Meanwhile the numbers `coming`,
    which may be none, are prefetched, some with each block: all at once they would have to wait.
    """
    gap, side = columns.shape[1], gram.shape[0]
    of = columns.reshape(columns.size)
    to = gram.reshape(gram.size)
    line = numbers(coming, LINE_BYTES)
    wide = d // RIGHT + 1
    blocks = wide * (wide + 1) // 2 * (RIGHT // LEFT)
    share = (len(coming) // blocks // line + 1) * line
    fetched = 0
    for k in range(0, d + 1, RIGHT):
        for j in range(0, min(k + RIGHT, d + 1), LEFT):
            for p in range(fetched, min(fetched + share, len(coming)), line):
                fetch(coming, p)
            fetched += share
            left, beside, out = j * gap + first, k * gap + first, j * side + k
            if k == d:
                products_by_one(of, left, beside, vectors, gap, to, out, side)
            else:
                column_products(of, left, beside, vectors, gap, to, out, side)
