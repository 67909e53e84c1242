"""Arrays and runs of them in compiled code, of which no references are counted.

To count is a locked instruction, for which all loads and prefetches wait: with tiles of 8 to 16
rows these took a fifth of a sweep (x86 server, 2026-11). Whoever borrows an array has it as an
argument, or uses it again after the loop in which it was borrowed: else it may be gone before.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Emit arrays, alone or within tuples, that have no owner; all else as it is."""
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind):
            own = _without_owner(context, builder, part, builder.extract_value(value, k))
            value = builder.insert_value(value, own, k)
        return value
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic
def borrowed(_: Any, values: Any) -> Any:
    """Return an array, or a tuple with arrays, without its owners."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _without_owner(context, builder, sig.args[0], args[0])

    return values(values), generate


@intrinsic
def run_of(_: Any, values: Any, start: Any, stop: Any) -> Any:
    """Return values[start:stop] without an owner: a contiguous vector, empty where `values` is."""
    if not (isinstance(values, types.Array) and values.ndim == 1 and values.layout == "C"):
        raise TypingError(f"runs are of contiguous vectors, not of {values}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = context.make_array(values)(context, builder, args[0])
        has = builder.icmp_signed("!=", whole.nitems, ir.Constant(whole.nitems.type, 0))
        none = ir.Constant(whole.nitems.type, 0)
        first = builder.select(has, args[1], none)
        count = builder.select(has, builder.sub(args[2], args[1]), none)
        whole.data = builder.gep(whole.data, [first])
        whole.nitems = count
        whole.shape = cgutils.pack_array(builder, [count])
        return _without_owner(context, builder, values, whole._getvalue())

    return values(values, types.intp, types.intp), generate
