"""Loops over vectors in compiled code, in place of assignments of slices.

numba compiles `out[:] = values` or `out[:] += values` for seconds: its errors print shapes.
"""

from __future__ import annotations

from daskglm.kernels.chosen import within_callers


@within_callers()
def copy(values, out):  # type: ignore[no-untyped-def]
    """Copy values to `out`, which may be longer."""
    for j in range(len(values)):
        out[j] = values[j]


@within_callers()
def add(values, count, out):  # type: ignore[no-untyped-def]
    """Add so many values to `out`."""
    for j in range(count):
        out[j] += values[j]
