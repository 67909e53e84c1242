"""Device kernels on vectors of n margins: they never see X, so calling them is not a pass over the
data.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda.launch import (
    NULL,
    THREADS,
    add_up,
    kernel,
    mode_of,
    numbers,
    numbers_of,
    pointer,
)
from daskglm.losses.base import Law

MOST_POINTS = 3
SIDE = MOST_POINTS + 1
LENGTH = 1 + SIDE + SIDE * SIDE


def losses(
    law: Law,
    y: Any,
    weight: Any,
    offset: Any,
    z: Any,
    slope: Any,
    curvature: Any,
    value: Any = None,
) -> None:
    """Compute slopes and curvatures (None: not wanted) at the margins z plus `offset`.

    An empty `weight` means ones, an empty `offset` zeros; None does too. The sum of the losses is
    added to `value` (1,).
    """
    function = kernel(("rows",), "row_losses", numbers(y), mode_of(law))
    grid = function.grid(len(y), THREADS)
    partial = cp.empty(3 * grid)
    reads = y, pointer(weight), pointer(offset), z
    args = (np.int64(len(y)), *numbers_of(law), *reads, pointer(slope), pointer(curvature), partial)
    function((grid,), (THREADS,), args)
    if value is not None:
        add_up(partial[1:], grid, 3, value[:1])


def curvatures(
    law: Law, y: Any, weight: Any, offset: Any, z: Any, start: int, stop: int, out: Any
) -> None:
    """Weighted curvatures of the rows [start, stop) at the margins z."""
    run = slice(start, stop)
    weight, offset = (part[run] if part.size else part for part in (weight, offset))
    losses(law, y[run], weight, offset, z[run], None, out[run])


def along(
    law: Law,
    y: Any,
    weight: Any,
    offset: Any,
    Z: Any,
    coefficients: np.ndarray,
    start: int,
    stop: int,
    out: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Add up the loss at combinations of cached margins, with derivatives; see `kernels.margins`.

    Coefficients and outputs are host arrays: they are a few numbers, and the host decides by them.
    This waits for the sums.
    """
    run = slice(start, stop)
    many = len(coefficients)
    k = len(Z)
    z = [Z[a][run] if a < k else NULL for a in range(MOST_POINTS)]
    function = kernel(("rows",), "along", numbers(y), mode_of(law))
    grid = function.grid(stop - start, THREADS, beside=many)
    partial = cp.empty(grid * many * LENGTH)
    sums = cp.zeros(many * LENGTH)
    reads = y[run], *(part[run] if part.size else NULL for part in (weight, offset)), *z
    wanted = cp.asarray(np.ascontiguousarray(coefficients, dtype=np.float64))
    args = (np.int64(stop - start), *numbers_of(law), *reads, np.int32(k), wanted, partial)
    function((grid, many), (THREADS,), args)
    add_up(partial, grid, many * LENGTH, sums)
    found = sums.get().reshape(many, LENGTH)
    values, slopes, hessians = out
    values += found[:, 0]
    slopes += found[:, 1 : k + 2]
    hessians += found[:, 1 + SIDE :].reshape(many, SIDE, SIDE)[:, : k + 1, : k + 1]
