"""Building blocks of the dense kernels in vector registers, written in LLVM's vector types.

LLVM turns loops over columns into vector code that enters, tests and leaves once a row and takes
what is left over one by one: with 8 to 64 columns that costs more than the arithmetic. Here several
rows are taken at once and columns in whole vectors, so a row is read past its end: callers see to
it that there is something to read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, overload

from daskglm.kernels.chosen import within_callers
from daskglm.system.topology import LINE_BYTES

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
def emitted(emit: Callable[..., None]) -> Any:
    """Decorate what emits code: compiled code calls it as a function that returns nothing.

    It is called with a builder, and with the addresses of the first numbers of arrays. Integers are
    taken as `intp`, other numbers as they are.
    """

    def define(_: Any, *kinds: Any) -> Any:
        taken = [types.intp if isinstance(kind, types.Integer) else kind for kind in kinds]

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            given = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else value
                for kind, value in zip(sig.args, args, strict=True)
            ]
            emit(builder, *given)
            return context.get_dummy_value()

        return types.void(*taken), generate

    # numba looks at the names of arguments, of which the first is its own
    define.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
    define.__name__, define.__doc__ = emit.__name__, emit.__doc__
    return intrinsic(define)


def itemsize(place: Any) -> int:
    """Return the bytes of the floating-point number at an address."""
    return 4 if isinstance(place.type.pointee, ir.FloatType) else 8


def load(builder: Any, place: Any, lanes: int) -> Any:
    """Vector of consecutive numbers, which need not be aligned."""
    number = place.type.pointee
    vector = ir.VectorType(number, lanes).as_pointer()
    return builder.load(builder.bitcast(place, vector), align=itemsize(place))


def widened(builder: Any, vector: Any) -> Any:
    """Vector as float64."""
    doubles = ir.VectorType(ir.DoubleType(), vector.type.count)
    return vector if vector.type == doubles else builder.fpext(vector, doubles)


def load_doubles(builder: Any, place: Any) -> Any:
    """LANES consecutive numbers as float64."""
    return widened(builder, load(builder, place, LANES))


def store(builder: Any, vector: Any, place: Any, align: int) -> None:
    """Write a vector to consecutive numbers, which are aligned to so many bytes."""
    builder.store(vector, builder.bitcast(place, vector.type.as_pointer()), align=align)


def add_doubles(builder: Any, vector: Any, place: Any) -> None:
    """Add a vector to consecutive float64 numbers."""
    wide = widened(builder, vector)
    there = builder.bitcast(place, wide.type.as_pointer())
    builder.store(builder.fadd(builder.load(there, align=8), wide), there, align=8)


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


def places(builder: Any, first: Any, gap: Any, count: int) -> list[Any]:
    """Addresses `gap` numbers apart."""
    return [builder.gep(first, [builder.mul(gap, ir.Constant(gap.type, c))]) for c in range(count)]


# ---- what kernels call
def prefetch(builder: Any, place: Any) -> None:
    """Ask for the cache line of an address, into the first-level cache, without waiting for it.

    What is asked for into the second-level cache does not come at all on some processors (Zen 5).
    """
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
    ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    read, nearest, data = (ir.Constant(INT, number) for number in (0, 3, 1))
    builder.call(ask, [builder.bitcast(place, byte), read, nearest, data])


@emitted
def fetch(builder, array, at):  # type: ignore[no-untyped-def]
    """Prefetch the line of array[at]."""
    prefetch(builder, builder.gep(array, [at]))


def _prefetch_share(builder: Any, rows: Any, ahead: Any, turn: Any, part: int) -> None:
    """Emit the prefetches that go with LANES vectors of rows: 1 / part of as many numbers.

    All lines of a row at once would have to wait for each other.
    """
    line = LINE_BYTES // itemsize(rows)
    share = max(LANES * LANES // part, line)
    first = builder.gep(
        rows, [builder.add(ahead, builder.mul(turn, ir.Constant(turn.type, share)))]
    )
    for number in range(0, share, line):
        prefetch(builder, builder.gep(first, [ir.Constant(turn.type, number)]))


def _dots(part: int) -> Any:
    @emitted
    def dots(builder, rows, at, d, w, vectors, b, z, to, ahead):  # type: ignore[no-untyped-def]
        starts = places(builder, builder.gep(rows, [at]), d, LANES)

        def turn(i: Any, sums: list[Any]) -> list[Any]:
            _prefetch_share(builder, rows, ahead, i, part)
            column = [builder.mul(i, ir.Constant(i.type, LANES))]
            factors = load_doubles(builder, builder.gep(w, column))
            parts = [load_doubles(builder, builder.gep(start, column)) for start in starts]
            return [multiply_add(builder, x, factors, s) for x, s in zip(parts, sums, strict=True)]

        sums = loop(builder, vectors, [ir.Constant(_DOUBLES, [0.0] * LANES)] * LANES, turn)
        margins = builder.fadd(sums_of_lanes(builder, sums), everywhere(builder, b, LANES))
        store(builder, margins, builder.gep(z, [to]), 8)

    return dots


# Set z[to : to + LANES] to b + dot products of w with LANES rows of d numbers, from rows[at] on.
# `vectors` of LANES columns are read of each row and of w (float64), whose entries past d must be
# zero. Meanwhile as many numbers from rows[ahead] on are prefetched, or half of them; these need
# not exist.
dots_alone, dots = _dots(1), _dots(2)


@emitted
def add_rows(builder, rows, at, d, s, t, out, vectors, ahead):  # type: ignore[no-untyped-def]
    """Add LANES rows of d numbers, from rows[at] on, times s[t : t + LANES] to `out` (float64).

    `vectors` of LANES columns are read of each row; entries of `out` past d become undefined.
    Meanwhile half as many numbers from rows[ahead] on are prefetched, which need not exist.
    """
    starts = places(builder, builder.gep(rows, [at]), d, LANES)
    first = builder.gep(s, [t])
    numbers = [builder.load(builder.gep(first, [ir.Constant(t.type, r)])) for r in range(LANES)]
    factors = [everywhere(builder, number, LANES) for number in numbers]

    def turn(i: Any, _: list[Any]) -> list[Any]:
        _prefetch_share(builder, rows, ahead, i, 2)
        column = [builder.mul(i, ir.Constant(i.type, LANES))]
        parts = [load_doubles(builder, builder.gep(start, column)) for start in starts]
        halves = []  # two short chains of additions rather than a long one
        for side in (slice(0, LANES // 2), slice(LANES // 2, LANES)):
            total = builder.fmul(parts[side][0], factors[side][0])
            for part, factor in zip(parts[side][1:], factors[side][1:], strict=True):
                total = multiply_add(builder, part, factor, total)
            halves.append(total)
        add_doubles(builder, builder.fadd(*halves), builder.gep(out, column))
        return []

    loop(builder, vectors, [], turn)


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
