"""What an objective makes of the sums over rows on a device: one launch, and one wait for all
scalars of a point.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from daskglm.kernels.cuda.launch import NULL, THREADS, Workspace, blocks, kernel, pointer

SCALARS = 6


class Finished(NamedTuple):
    """Gradient and diagonal of the objective, in place of the sums, with norms of vectors.

    Norms are of the parts by features; `intercept` and `slope` are the rest of w and of the
    gradient. `moved` is the distance from the other point.
    """

    gradient: Any
    diagonal: Any
    value: float
    norm: float
    intercept: float
    gradient_norm: float
    slope: float
    moved: float


@functools.cache
def _workspace() -> Workspace:
    return Workspace()


def finish(
    value: Any,
    gradient: Any,
    diagonal: Any,
    w: Any,
    other: Any,
    n_features: int,
    scale: float,
    penalty: float,
) -> Finished:
    """Finish a point.

    Parameters
    ----------
    value : () array
        Sum of the losses.
    gradient, diagonal : (size,) arrays
        Of that sum; overwritten. `diagonal` None: not wanted.
    w, other : (size,) arrays
        Coefficients; `other` None: no distance is wanted.
    """
    size = len(w)
    grid = blocks(size, 4 * THREADS, 1)
    ticket = _workspace().get("ticket", 1, np.int32, zeroed=True)
    partial = _workspace().get("partial", 4 * grid)
    row = cp.empty(SCALARS)
    numbers = np.int32(size), np.int32(n_features), np.float64(scale), np.float64(penalty)
    vectors = w, NULL if other is None else other, value.reshape(1), gradient, pointer(diagonal)
    args = (*numbers, *vectors, row, ticket, partial)
    kernel(("point",), "point_finish")((grid,), (THREADS,), args)
    found = row.get()
    value, norm, intercept, gradient_norm, slope, moved = found.tolist()
    roots = [float(np.sqrt(square)) for square in (norm, gradient_norm, moved)]
    return Finished(gradient, diagonal, value, roots[0], intercept, roots[1], slope, roots[2])
