"""Compiled functions over runs of rows, for whatever loss a law names.

A law is (code, p1, p2, address): see `base.Law`. Kernels take it rather than a compiled function,
since kernels that take a compiled function never reach numba's disk cache. Each function here has a
branch for each loss of the package, made from its formulas. A loss from outside is called by its
address, and a code that no loss has fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from daskglm.losses.base import OUTSIDE
from daskglm.losses.builtin import BUILTIN

FAST = {"contract", "reassoc", "nsz"}


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


def formula(function: Callable[..., Any]) -> Any:
    """Compile a formula of a loss into whatever calls it."""
    return njit(nogil=True, error_model="numpy", fastmath=FAST, forceinline=True)(function)


# ---- value, slope and curvature
def _tile_of(row: Any) -> Any:
    row = formula(row)

    @njit(nogil=True, error_model="numpy", fastmath=FAST)
    def tile(p1, p2, y, z, weight, slope, curvature):  # type: ignore[no-untyped-def]
        total = 0.0
        weighted = len(weight) > 0
        for t in range(len(z)):
            s = weight[t] if weighted else 1.0
            value, first, second = row(y[t], z[t], p1, p2)
            slope[t] = s * first
            curvature[t] = s * second
            total += s * value
        return total

    return tile


_CALLED = types.float64(
    types.float64, types.float64, types.intp, types.intp, types.CPointer(types.float64)
)


def compile_tile(row: Callable[..., Any]) -> Any:
    """Compile the formula of a loss from outside; the result has an `address`, and must be kept."""
    tile = _tile_of(row)

    @cfunc(_CALLED, nogil=True, error_model="numpy")
    def called(p1, p2, n, weights, at):  # type: ignore[no-untyped-def]
        # targets, margins, weights, and room for slopes and curvatures, one after the other
        parts = carray(at, (5, n))
        return tile(p1, p2, parts[0], parts[1], parts[2, :weights], parts[3], parts[4])

    return called


@intrinsic
def _call(typingctx: Any, address: Any, p1: Any, p2: Any, n: Any, weights: Any, at: Any) -> Any:
    """Call what `compile_tile` made by its address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        double, size = ir.DoubleType(), args[3].type
        vectors = double.as_pointer()
        kind = ir.FunctionType(double, [double, double, size, size, vectors])
        function = builder.inttoptr(args[0], kind.as_pointer())
        return builder.call(function, [*args[1:5], builder.inttoptr(args[5], vectors)])

    i, f = types.intp, types.float64
    return f(i, f, f, i, i, types.uintp), generate


@njit(nogil=True, error_model="numpy")
def _tile_from_outside(law, y, z, weight, slope, curvature):  # type: ignore[no-untyped-def]
    code, p1, p2, address = law
    if code != OUTSIDE or address == 0:
        raise ValueError("no loss has the code that a kernel was given")
    n = len(z)
    vectors = np.empty(5 * n)
    for t in range(n):
        vectors[t] = y[t]
        vectors[n + t] = z[t]
    for t in range(len(weight)):
        vectors[2 * n + t] = weight[t]
    total = _call(address, p1, p2, n, len(weight), vectors.ctypes.data)
    for t in range(n):
        slope[t] = vectors[3 * n + t]
        curvature[t] = vectors[4 * n + t]
    return total


# tile(law, y, z, weight, slope, curvature): apply a loss to a run of rows, small enough to stay in
# the first-level cache, and return the weighted sum of its values. `slope` and `curvature` receive
# the weighted derivatives in the margins `z`. An empty `weight` means weights of one.
tile = dispatch(
    {loss.code: _tile_of(loss.row) for loss in BUILTIN},
    _tile_from_outside,
    "y, z, weight, slope, curvature",
)
