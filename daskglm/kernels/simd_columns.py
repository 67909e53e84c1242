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
from numba import types
from numba.extending import intrinsic

from daskglm.kernels.simd import (
    LANES,
    VECTOR_BYTES,
    WIDE_REGISTERS,
    address,
    everywhere,
    fetch,
    itemsize_of,
    load,
    loop,
    multiply_add,
    numbers,
    shuffle,
    sums_of_lanes,
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


def _columns(builder: Any, rows: Sequence[Any], itemsize: int) -> list[Any]:
    """Emit vectors of the columns in PIECE_BYTES, from the addresses of a vector's rows."""
    columns = PIECE_BYTES // itemsize
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


def _places(builder: Any, first: Any, gap: Any, count: int) -> list[Any]:
    """Addresses `gap` numbers apart."""
    return [builder.gep(first, [builder.mul(gap, ir.Constant(gap.type, c))]) for c in range(count)]


def _store(builder: Any, value: Any, place: Any, itemsize: int) -> None:
    builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=itemsize)


@intrinsic
def pack_columns(
    typingctx: Any,
    rows: Any,
    at: Any,
    d: Any,
    factors: Any,
    count: Any,
    out: Any,
    to: Any,
    gap: Any,
) -> Any:
    """Write PIECE_BYTES of each row, the first from rows[at] on, as columns from out[to] on.

    There are `count` vectors of rows of d numbers; each row is multiplied by its one of `factors`.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows, at, d, factors, count, out, to, gap = args
        itemsize = itemsize_of(sig.args[0])
        lanes = VECTOR_BYTES // itemsize
        first = address(context, builder, sig.args[0], rows, at)
        factors = address(context, builder, sig.args[3], factors, ir.Constant(at.type, 0))
        starts = _places(
            builder, address(context, builder, sig.args[5], out, to), gap, PIECE_BYTES // itemsize
        )

        def turn(t: Any, _: list[Any]) -> list[Any]:
            row = builder.mul(t, ir.Constant(t.type, lanes))
            places = _places(builder, builder.gep(first, [builder.mul(row, d)]), d, lanes)
            factor = load(builder, builder.gep(factors, [row]), lanes)
            for start, column in zip(starts, _columns(builder, places, itemsize), strict=True):
                _store(builder, builder.fmul(column, factor), builder.gep(start, [row]), itemsize)
            return []

        loop(builder, count, [], turn)
        return context.get_dummy_value()

    places = types.intp, types.intp
    return types.void(rows, *places, factors, types.intp, out, *places), generate


@intrinsic
def gather_columns(
    typingctx: Any, rows: Any, at: Any, d: Any, order: Any, count: Any, out: Any, to: Any, gap: Any
) -> Any:
    """Write PIECE_BYTES of some rows as float64 columns, from out[to] on.

    The rows begin at rows[at + i d] for each i of `order`; there are `count` vectors of LANES rows.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows, at, d, order, count, out, to, gap = args
        itemsize = itemsize_of(sig.args[0])
        first = address(context, builder, sig.args[0], rows, at)
        numbers = address(context, builder, sig.args[3], order, ir.Constant(at.type, 0))
        starts = _places(
            builder, address(context, builder, sig.args[5], out, to), gap, PIECE_BYTES // itemsize
        )
        doubles = ir.VectorType(ir.DoubleType(), LANES)

        def turn(t: Any, _: list[Any]) -> list[Any]:
            row = builder.mul(t, ir.Constant(t.type, LANES))
            places = []
            for r in range(LANES):
                number = builder.load(
                    builder.gep(numbers, [builder.add(row, ir.Constant(t.type, r))])
                )
                number = number if number.type == d.type else builder.sext(number, d.type)
                places.append(builder.gep(first, [builder.mul(number, d)]))
            for start, column in zip(starts, _columns(builder, places, itemsize), strict=True):
                wide = column if column.type == doubles else builder.fpext(column, doubles)
                _store(builder, wide, builder.gep(start, [row]), 8)
            return []

        loop(builder, count, [], turn)
        return context.get_dummy_value()

    places = types.intp, types.intp
    return types.void(rows, *places, order, types.intp, out, *places), generate


@intrinsic
def combine(
    typingctx: Any,
    columns: Any,
    at: Any,
    count: Any,
    gap: Any,
    w: Any,
    first: Any,
    width: Any,
    z: Any,
    to: Any,
) -> Any:
    """Add up `count` columns, from columns[at] on, times LEFT rows of W.

    These are `width` apart, from w[first] on. VECTORS vectors of each sum go to z, from z[to] on,
    `gap` numbers apart. All are float64.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        columns, at, count, gap, w, first, width, z, to = args
        start = address(context, builder, sig.args[0], columns, at)
        lines = _places(builder, address(context, builder, sig.args[4], w, first), width, LEFT)
        outs = _places(builder, address(context, builder, sig.args[7], z, to), gap, LEFT)
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
            _store(builder, total, builder.gep(outs[k // VECTORS], [shifts[k % VECTORS]]), 8)
        return context.get_dummy_value()

    i = types.intp
    return types.void(columns, i, i, i, w, i, i, z, i), generate


def _column_products(right: int) -> Any:
    @intrinsic
    def products(
        typingctx: Any,
        columns: Any,
        at: Any,
        with_: Any,
        count: Any,
        gap: Any,
        out: Any,
        to: Any,
        side: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            columns, at, with_, count, gap, out, to, side = args
            lanes = VECTOR_BYTES // itemsize_of(sig.args[0])
            lefts, rights = (
                _places(builder, address(context, builder, sig.args[0], columns, first), gap, many)
                for first, many in ((at, LEFT), (with_, right))
            )
            zero = ir.Constant(ir.VectorType(lefts[0].type.pointee, lanes), [0.0] * lanes)

            def turn(t: Any, sums: list[Any]) -> list[Any]:
                row = [builder.mul(t, ir.Constant(t.type, lanes))]
                a = [load(builder, builder.gep(start, row), lanes) for start in lefts]
                b = [load(builder, builder.gep(start, row), lanes) for start in rights]
                pairs = [(x, y) for x in a for y in b]
                return [
                    multiply_add(builder, *pair, s) for pair, s in zip(pairs, sums, strict=True)
                ]

            sums = loop(builder, count, [zero] * (LEFT * right), turn)
            sums += [zero] * (-len(sums) % lanes)
            doubles = ir.VectorType(ir.DoubleType(), right)
            for i, start in enumerate(
                _places(builder, address(context, builder, sig.args[5], out, to), side, LEFT)
            ):
                n = i * right
                if n % lanes == 0:
                    totals = sums_of_lanes(builder, sums[n : n + lanes])
                part = shuffle(builder, totals, totals, range(n % lanes, n % lanes + right))
                wide = part if part.type == doubles else builder.fpext(part, doubles)
                place = builder.bitcast(start, doubles.as_pointer())
                builder.store(builder.fadd(builder.load(place, align=8), wide), place, align=8)
            return context.get_dummy_value()

        i = types.intp
        return types.void(columns, i, i, i, i, out, i, i), generate

    return products


# Add A' B to `out` (float64, from out[to] on, rows `side` apart): A the LEFT columns from
# columns[at] on, B the RIGHT ones (or one) from columns[with_] on. Columns are `count` vectors
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
            if k == d:
                products_by_one(
                    of, j * gap + first, k * gap + first, vectors, gap, to, j * side + k, side
                )
            else:
                column_products(
                    of, j * gap + first, k * gap + first, vectors, gap, to, j * side + k, side
                )
