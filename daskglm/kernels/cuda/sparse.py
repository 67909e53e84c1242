"""Device kernels on sparse rows, CSR or coded, under the names of the CPU's; see `kernels.dense`,
and `cuda.dense` for what differs.

Rows have a `part`, and the kernels of their storage: `forward`, `add_columns`, `norms`, `add_gram`
and `fill_scaled`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from daskglm.kernels.cuda.dense import (
    FORWARD,
    PRODUCT,
    AtMargins,
    largest_and_sum,
)
from daskglm.kernels.cuda.launch import add_up
from daskglm.kernels.records import PointSums, RowData
from daskglm.losses.base import Law


def margins(rows: Any, w: Any, b: int, start: int, stop: int, z: Any) -> None:
    """Z = X w + b for the rows [start, stop)."""
    rows.part(start, stop).forward(AtMargins(FORWARD, w, b, z=z[start:stop]))


def evaluate(
    law: Law,
    rows: RowData,
    w: Any,
    b: int,
    start: int,
    stop: int,
    out: PointSums,
    *,
    exact: bool = False,
) -> None:
    """Value, gradient and, where asked, Hessian diagonal or Gram of the loss over [start, stop).

    An `exact` Gram is summed in float64 and wants room for curvatures.
    """
    part = rows[0].part(start, stop)
    at = AtMargins.of_point(law, rows, w, b, start, stop, out)
    d, (sums, diagonal, gram) = part.d, out[2:]
    slope = part.workspace.get("slopes", part.n)
    partial, grid = part.forward(at, slope)
    add_up(partial, grid, 3, sums[d:])
    if diagonal.size:
        add_up(partial[2:], grid, 3, diagonal[d:])
    part.add_columns(slope, sums, at.curvature if diagonal.size else None, diagonal)
    if gram.size:
        part.add_gram(at.curvature, gram, exact=exact)


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: Any, curvature: Any, v: Any, b: int, start: int, stop: int, out: Any, live: Any = None
) -> None:
    """Add [X 1]' D (X v + b) over [start, stop) to `out` (d + 1,).

    It does nothing if the flag `live` is zero.
    """
    part, d = rows.part(start, stop), rows.d
    slope = part.workspace.get("slopes", part.n)
    at = AtMargins(PRODUCT, v, b, curvature=curvature[start:stop], live=live)
    partial, grid = part.forward(at, slope)
    add_up(partial, grid, 3, out[d : d + 1], live=live)
    part.add_columns(slope, out, live=live)


def backward(rows: Any, r: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1]' r over [start, stop) to `out` (d + 1,)."""
    rows.part(start, stop).add_columns(r[start:stop], out)
    out[rows.d :] += r[start:stop].sum(dtype=np.float64)


def add_moments(rows: Any, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s over [start, stop) to `sums` (d + 1,), X.^2' s to `squares` (d + 1,).

    `weight` has s, float64 (n,). X is read once.
    """
    s = weight[start:stop]
    rows.part(start, stop).add_columns(s, sums, s, squares)
    sums[rows.d :] += s.sum()


def squared_norms(rows: Any, start: int, stop: int, norms: Any = None) -> tuple[float, float]:
    """Return the largest squared row norm over [start, stop) and the sum of all. Waits.

    `norms`, unless None, gets the norms themselves.
    """
    part = rows.part(start, stop)
    function, grid, arrays = part.norms()
    return largest_and_sum(function, grid, part, arrays, norms, start, stop)


def add_squares(part: Any, curvature: Any, out: Any) -> None:
    """Add [X.^2 1]' curvature, float64 (n,), to `out` (d + 1,)."""
    beside = part.workspace.get("products", part.d)
    part.add_columns(curvature, beside, curvature, out)
    out[part.d :] += curvature.sum()
