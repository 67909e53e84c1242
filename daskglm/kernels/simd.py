"""Building blocks of the dense kernels in vector registers, written in LLVM's vector types.

LLVM turns loops over columns into vector code that enters, tests and leaves once a row and takes
what is left over one by one: with 8 to 64 columns that costs more than the arithmetic. Here several
rows are taken at once and columns in whole vectors, so a row is read past its end: callers see to
it that there is something to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, overload

from daskglm.kernels.chosen import within_callers

_FEATURES = (
    config.CPU_FEATURES
    if config.CPU_FEATURES is not None
    else llvm.get_host_cpu_features().flatten()
)
# Whether the processor that numba compiles for has AVX-512.
WIDE_REGISTERS = "+avx512f" in _FEATURES.split(",")
# Float64 numbers of a vector, and rows that are taken at once.
LANES = 8 if WIDE_REGISTERS else 4
VECTOR_BYTES = 8 * LANES

INT = ir.IntType(32)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


# ---- pieces of code
def address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Address of array[at]."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def itemsize_of(kind: Any) -> int:
    """Return the bytes of one number of an array of this type."""
    return int(np.dtype(str(kind.dtype)).itemsize)


def load(builder: Any, place: Any, lanes: int) -> Any:
    """Vector of consecutive numbers, which need not be aligned."""
    number = place.type.pointee
    vector = ir.VectorType(number, lanes).as_pointer()
    return builder.load(
        builder.bitcast(place, vector), align=4 if isinstance(number, ir.FloatType) else 8
    )


def load_doubles(builder: Any, place: Any) -> Any:
    """LANES consecutive numbers as float64."""
    vector = load(builder, place, LANES)
    return vector if vector.type == _DOUBLES else builder.fpext(vector, _DOUBLES)


def shuffle(builder: Any, a: Any, b: Any, lanes: Sequence[int]) -> Any:
    """Vector of these lanes of a and, counted on, of b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(lanes)), list(lanes)))


def everywhere(builder: Any, number: Any, lanes: int) -> Any:
    """Vector of one number."""
    undefined = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(INT, 0))
    return shuffle(builder, first, undefined, [0] * lanes)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Emit a b + c, rounded once if the processor can."""
    fused = ("contract",)
    return builder.fadd(builder.fmul(a, b, flags=fused), c, flags=fused)


def sums_of_lanes(builder: Any, vectors: Sequence[Any]) -> Any:
    """Emit one vector of the sums within each of as many vectors as they have lanes.

    Neighbours are added crosswise.
    """
    lanes, width = len(vectors), 1
    while width < lanes:
        own = [lane if lane // width % 2 == 0 else lane + lanes - width for lane in range(lanes)]
        other = [lane + width for lane in own]
        vectors = [
            builder.fadd(shuffle(builder, a, b, own), shuffle(builder, a, b, other))
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        width *= 2
    return vectors[0]


def loop(
    builder: Any, count: Any, start: Sequence[Any], body: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """Emit a loop that runs `count` (at least one) times.

    It passes the values of one turn on to the next.
    """
    before = builder.block
    inside = builder.append_basic_block("turn")
    after = builder.append_basic_block("after")
    builder.branch(inside)
    builder.position_at_end(inside)
    turn = builder.phi(count.type)
    turn.add_incoming(ir.Constant(count.type, 0), before)
    values = [builder.phi(value.type) for value in start]
    for phi, value in zip(values, start, strict=True):
        phi.add_incoming(value, before)
    results = body(turn, values)
    following = builder.add(turn, ir.Constant(count.type, 1))
    turn.add_incoming(following, inside)
    for phi, value in zip(values, results, strict=True):
        phi.add_incoming(value, inside)
    builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
    builder.position_at_end(after)
    return results


def _rows(builder: Any, first: Any, stride: Any) -> list[Any]:
    """Addresses of LANES rows."""
    return [
        builder.gep(first, [builder.mul(stride, ir.Constant(stride.type, r))]) for r in range(LANES)
    ]


# ---- what kernels call
@intrinsic
def fetch(typingctx: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of array[at] without waiting for it."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        place = builder.bitcast(address(context, builder, sig.args[0], *args), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(
            prefetch, [place, ir.Constant(INT, 0), ir.Constant(INT, 3), ir.Constant(INT, 1)]
        )
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def dots(
    typingctx: Any, rows: Any, at: Any, d: Any, w: Any, vectors: Any, b: Any, z: Any, to: Any
) -> Any:
    """Set z[to : to + LANES] to b + dot products of w with LANES rows, from rows[at] on.

    A row has d numbers. `vectors` of LANES columns are read of each row and of w (float64), whose
    entries past d must be zero.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows, at, d, w, vectors, b, z, to = args
        starts = _rows(builder, address(context, builder, sig.args[0], rows, at), d)
        w = address(context, builder, sig.args[3], w, ir.Constant(at.type, 0))

        def turn(i: Any, sums: list[Any]) -> list[Any]:
            column = [builder.mul(i, ir.Constant(i.type, LANES))]
            factors = load_doubles(builder, builder.gep(w, column))
            parts = [load_doubles(builder, builder.gep(start, column)) for start in starts]
            return [
                multiply_add(builder, part, factors, s) for part, s in zip(parts, sums, strict=True)
            ]

        sums = loop(builder, vectors, [ir.Constant(_DOUBLES, [0.0] * LANES)] * LANES, turn)
        margins = builder.fadd(sums_of_lanes(builder, sums), everywhere(builder, b, LANES))
        out = address(context, builder, sig.args[6], z, to)
        builder.store(margins, builder.bitcast(out, _DOUBLES.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(
        rows, types.intp, types.intp, w, types.intp, types.float64, z, types.intp
    ), generate


@intrinsic
def add_rows(
    typingctx: Any, rows: Any, at: Any, d: Any, s: Any, t: Any, out: Any, vectors: Any
) -> Any:
    """Add LANES rows of d numbers, from rows[at] on, times s[t : t + LANES] to `out` (float64).

    `vectors` of LANES columns are read of each row; entries of `out` past d become undefined.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows, at, d, s, t, out, vectors = args
        starts = _rows(builder, address(context, builder, sig.args[0], rows, at), d)
        first = address(context, builder, sig.args[3], s, t)
        numbers = [builder.load(builder.gep(first, [ir.Constant(t.type, r)])) for r in range(LANES)]
        factors = [everywhere(builder, number, LANES) for number in numbers]
        out = address(context, builder, sig.args[5], out, ir.Constant(at.type, 0))

        def turn(i: Any, _: list[Any]) -> list[Any]:
            column = [builder.mul(i, ir.Constant(i.type, LANES))]
            parts = [load_doubles(builder, builder.gep(start, column)) for start in starts]
            halves = []  # two short chains of additions rather than a long one
            for side in (slice(0, LANES // 2), slice(LANES // 2, LANES)):
                total = builder.fmul(parts[side][0], factors[side][0])
                for part, factor in zip(parts[side][1:], factors[side][1:], strict=True):
                    total = multiply_add(builder, part, factor, total)
                halves.append(total)
            place = builder.bitcast(builder.gep(out, column), _DOUBLES.as_pointer())
            sums = builder.fadd(builder.load(place, align=8), builder.fadd(*halves))
            builder.store(sums, place, align=8)
            return []

        loop(builder, vectors, [], turn)
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp, s, types.intp, out, types.intp), generate


def numbers(X, size):  # type: ignore[no-untyped-def]
    """Return how many numbers of X take `size` bytes."""
    raise NotImplementedError("compiled code only")


@overload(numbers, inline="always")
def _numbers_of(X, size):  # type: ignore[no-untyped-def]
    """Compile `numbers` to a constant of the type, since X.itemsize is a division for every row."""
    itemsize = X.dtype.bitwidth // 8
    return lambda X, size: size // itemsize


@within_callers()
def whole(X, start, stop, width):  # type: ignore[no-untyped-def]
    """Return how many rows can be taken LANES at a time, if read `width` columns wide."""
    d = X.shape[1]
    readable = (X.size - width) // d + 1 if X.size >= width else 0
    return max(min(stop, readable) - start, 0) // LANES * LANES
