"""Compiled functions over runs of rows, for whatever loss a law names.

A law is (code, p1, p2, address): see `base.Law`. Kernels take it rather than a compiled function,
since kernels that take a compiled function never reach numba's disk cache. Value, slope and
curvature of a run of rows are a function of their own for each loss, which kernels call by its
address: so kernels contain no loss, and a fit compiles the one that it minimises. What the dual
wants row by row is compiled into its kernels, with a branch for each loss of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from daskglm.system.compiled import compiled_callback

FAST = {"contract", "reassoc", "nsz"}
# Numbers a row in which `tile_at` works.
ROOM = 2


def dispatch(functions: dict[int, Any], unknown: Any, arguments: str) -> Any:
    """Compile a function of a law and `arguments` that calls the function of the law's code.

    `functions` are called with p1, p2 and the arguments, `unknown`, for other codes, with the law
    and the arguments. The branches are written as source text because a chain of closures, one for
    each loss, takes four times as long to compile.
    """
    lines = [f"def choose(law, {arguments}):"]
    for code in functions:
        lines += [f"    if law[0] == {code}:"]
        lines += [f"        return function_{code}(law[1], law[2], {arguments})"]
    lines += [f"    return unknown(law, {arguments})"]
    names = {f"function_{code}": function for code, function in functions.items()}
    names |= {"unknown": unknown, "__name__": __name__}
    exec("\n".join(lines), names)
    return njit(nogil=True, error_model="numpy")(names["choose"])


def dispatch_by_targets(of_labels: Any, of_numbers: Any) -> Any:
    """Compile a call of one function where the targets are int8 labels, else of another.

    Targets are the argument after the law. Kernels compile for either type of targets anyhow, and
    in half of the time where they contain only the losses that have it.
    """

    def choose(law, y, *args):  # type: ignore[no-untyped-def]
        raise NotImplementedError("compiled code only")

    @overload(choose, jit_options={"nogil": True, "error_model": "numpy"})
    def _choose(law, y, *args):  # type: ignore[no-untyped-def]
        of = of_labels if getattr(y, "dtype", y) == types.int8 else of_numbers
        return lambda law, y, *args: of(law, y, *args)

    return njit(nogil=True, error_model="numpy")(lambda law, y, *args: choose(law, y, *args))


def formula(function: Callable[..., Any]) -> Any:
    """Compile a formula of a loss into whatever calls it."""
    return njit(nogil=True, error_model="numpy", fastmath=FAST, forceinline=True)(function)


# ---- value, slope and curvature
_NUMBERS = types.CPointer(types.float64)
# p1, p2, count of rows, count of weights; targets, margins, weights, slopes and curvatures
_TILE = types.float64(types.float64, types.float64, types.intp, types.intp, *[_NUMBERS] * 5)


@formula
def _observed(s, first, second, expected):  # type: ignore[no-untyped-def]
    return s * second


@formula
def _fisher(s, first, second, expected):  # type: ignore[no-untyped-def]
    return s * expected


@formula
def _squared_slope(s, first, second, expected):  # type: ignore[no-untyped-def]
    return (s * first) * (s * first)


@formula
def _squared_slope_of_each(s, first, second, expected):  # type: ignore[no-untyped-def]
    return s * (first * first)


# What a tile returns as the curvature of a row of weight s: its second derivative, the expected
# one, the square of its slope, and the sum of those of s rows of weight one.
CURVATURES = {
    "observed": _observed,
    "fisher": _fisher,
    "squared_slope": _squared_slope,
    "squared_slope_of_each": _squared_slope_of_each,
}


def compile_tile(
    formula_of_row: Callable[..., Any],
    curvature: str = "observed",
    fisher: Callable[..., Any] | None = None,
    *,
    bounded: bool = False,
) -> Any:
    """Compile the formula of a loss over a run of rows.

    `curvature` is one of `CURVATURES`, and `fisher` the formula of the expected one, by default the
    curvature of the row. Of a `bounded` loss rows without weight count nothing even where it is
    infinite: a test in the loop, which other losses are as fast without. What it returns has an
    `address`, for laws, and must be kept as long as that is in use.
    """
    row, curve = formula(formula_of_row), CURVATURES[curvature]
    expects = fisher is not None and curvature == "fisher"
    expectation = formula(fisher) if expects and fisher is not None else curve

    def over_rows(p1, p2, n, weights, y, z, weight, slope, curvature):  # type: ignore[no-untyped-def]
        y, z, weight = carray(y, n), carray(z, n), carray(weight, weights)
        slope, curvature = carray(slope, n), carray(curvature, n)
        total = 0.0
        weighted = weights > 0
        for t in range(n):
            s = weight[t] if weighted else 1.0
            value, first, second = row(y[t], z[t], p1, p2)
            expected = expectation(y[t], z[t], p1, p2) if expects else second
            if bounded and s == 0.0:
                value = first = second = expected = 0.0
            slope[t] = s * first
            curvature[t] = curve(s, first, second, expected)
            total += s * value
        return total

    # files of compiled code are told apart by the name
    over_rows.__qualname__ += "" if curvature == "observed" else f".{curvature}"
    over_rows.__qualname__ += ".bounded" if bounded else ""
    return compiled_callback(
        over_rows, _TILE, of=formula_of_row, nogil=True, error_model="numpy", fastmath=FAST
    )


@intrinsic
def _call(
    typingctx: Any,
    law: Any,
    y: Any,
    z: Any,
    weight: Any,
    slope: Any,
    curvature: Any,
) -> Any:
    """Call what `compile_tile` made by its address."""
    arrays = y, z, weight, slope, curvature
    for array in arrays:
        if not (array.ndim == 1 and array.layout == "C" and array.dtype == types.float64):
            raise TypingError(f"a loss takes contiguous float64 vectors, not {array}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        double, size = ir.DoubleType(), context.get_value_type(types.intp)
        vectors = double.as_pointer()
        kind = ir.FunctionType(double, [double, double, size, size, *[vectors] * 5])
        _, p1, p2, address = (builder.extract_value(args[0], k) for k in range(4))
        function = builder.inttoptr(address, kind.as_pointer())
        parts = [
            context.make_array(array)(context, builder, value)
            for array, value in zip(arrays, args[1:], strict=True)
        ]
        return builder.call(
            function,
            [p1, p2, parts[1].nitems, parts[2].nitems, *(part.data for part in parts)],
        )

    return types.float64(law, *arrays), generate


@njit(nogil=True, error_model="numpy")
def _in_room(law, y, z, weight, slope, curvature, room):  # type: ignore[no-untyped-def]
    if law[3] == 0:
        raise ValueError("a kernel was given the law of no compiled loss")
    # labels are single bytes
    for t in range(len(z)):
        room[t] = y[t]
    return _call(law, room, z, weight, slope, curvature)


@njit(nogil=True, error_model="numpy")
def tile(law, y, z, weight, slope, curvature):  # type: ignore[no-untyped-def]
    """Apply a loss to a run of rows, small enough to stay in the first-level cache.

    Return the weighted sum of its values. `slope` and `curvature` receive the weighted derivatives
    in the margins `z`. An empty `weight` means weights of one.
    """
    return _in_room(law, y, z, weight, slope, curvature, np.empty(len(z)))


@njit(nogil=True, error_model="numpy")
def tile_at(law, y, z, weight, offset, slope, curvature, room):  # type: ignore[no-untyped-def]
    """Apply a loss as `tile` does, at the margins z plus `offset`; an empty one is zero.

    It works in `room`, of ROOM numbers a row: to make an array takes as long as the loss of 40 rows
    (logistic, x86 server, 2026-11), and tiles may have 8.
    """
    n = len(z)
    if len(offset) == 0:
        return _in_room(law, y, z, weight, slope, curvature, room)
    moved = room[n : 2 * n]
    for t in range(n):
        moved[t] = z[t] + offset[t]
    return _in_room(law, y, moved, weight, slope, curvature, room)
