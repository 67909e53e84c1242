"""Products of rows on the device with several vectors at a time.

Rows are worked on in tiles. Dense ones, and sparse ones of few features, become float64 and are
multiplied by cuBLAS; other sparse rows meet one vector after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda import dense, sparse, streamed
from daskglm.kernels.cuda.launch import THREADS, add_up, kernel, numbers

# Bytes of a tile, with all that is made of it: an eighth of the memory of a small device that a
# fit leaves free.
TILE_BYTES = 64 << 20
# Features up to which tiles of sparse rows are made dense.
DENSE_WIDTH = 512


def tiles(rows: Any, start: int, stop: int, each: int) -> Iterator[tuple[int, int, Any]]:
    """Cut the rows [start, stop) into tiles, as (first, stop, rows on the device).

    A tile of `each` float64 numbers a row takes at most TILE_BYTES, or is one row. Streamed rows
    come chunk by chunk, and all of them.
    """
    if isinstance(rows, streamed.Rows):
        chunks = rows.chunks()
    else:
        chunks = iter([(start, stop, rows.part(start, stop))])
    for first, end, chunk in chunks:
        for lo, hi in spans(first, end, each):
            yield lo, hi, chunk.part(lo - first, hi - first)


def spans(start: int, stop: int, each: int) -> Iterator[tuple[int, int]]:
    """Cut [start, stop) into runs of rows for which `each` float64 numbers a row are a tile."""
    many = max(1, TILE_BYTES // (8 * each))
    for lo in range(start, stop, many):
        yield lo, min(lo + many, stop)


def is_wide(rows: Any) -> bool:
    """Return whether rows stay sparse."""
    return bool(rows.sparse and rows.d > DENSE_WIDTH)


def width_of(rows: Any, side: int) -> int:
    """Return the float64 numbers that a tile takes for each row, beside vectors."""
    return 1 if is_wide(rows) else 2 * side


class DenseTile:
    """Some rows as float64 [X 1], padded with zeros to `side` columns."""

    def __init__(self, part: Any, side: int) -> None:
        self.part = part
        self.values = part.workspace.get("tile", part.n * side).reshape(part.n, side)
        ones = part.workspace.get("ones", part.n)
        ones.fill(1.0)
        part.fill_scaled(ones, self.values)

    def margins(self, W: Any) -> Any:
        """Return W [X 1]' (K, n) for W (K, side)."""
        return W @ self.values.T

    def add_products(self, R: Any, out: Any) -> None:
        """Add R [X 1] to `out` (K, side), for R (K, n)."""
        out += R @ self.values

    def add_squares(self, C: Any, out: Any) -> None:
        """Add C [X.^2 1] to `out` (r, side), for C (r, n)."""
        out += C @ (self.values * self.values)


class SparseTile:
    """Sparse rows of many features, with the methods of `DenseTile`."""

    def __init__(self, part: Any, side: int) -> None:
        self.part = part

    def margins(self, W: Any) -> Any:
        """Return W [X 1]' (K, n) for W (K, side)."""
        out = cp.empty((len(W), self.part.n))
        for k in range(len(W)):
            sparse.margins(self.part, W[k], 1, 0, self.part.n, out[k])
        return out

    def add_products(self, R: Any, out: Any) -> None:
        """Add R [X 1] to `out` (K, side), for R (K, n)."""
        for k in range(len(R)):
            sparse.backward(self.part, R[k], 0, self.part.n, out[k, : self.part.d + 1])

    def add_squares(self, C: Any, out: Any) -> None:
        """Add C [X.^2 1] to `out` (r, side), for C (r, n)."""
        for a in range(len(C)):
            sparse.add_squares(self.part, C[a], out[a, : self.part.d + 1])


def tile_of(part: Any, side: int) -> DenseTile | SparseTile:
    """Return a tile as what multiplies it."""
    return SparseTile(part, side) if is_wide(part) else DenseTile(part, side)


def add_curved_gram(part: Any, curvature: Any, gram: Any, *, exact: bool) -> None:
    """Add [X 1]' D [X 1] to the upper triangle of `gram`, for a float64 curvature (n,).

    Unless `exact`, products of dense rows are summed in their dtype.
    """
    if part.sparse:
        part.add_gram(curvature, gram, exact=True)
    else:
        dense.add_curved_gram(part, curvature, gram, exact=exact)


def part_of(values: Any, lo: int, hi: int) -> Any:
    """Return the numbers of the rows [lo, hi); None where there are none."""
    return values[lo:hi] if values.size else None


def each_row(
    name: str, n: int, K: int, weight: Any, args: tuple[Any, ...], value: Any = None
) -> None:
    """Launch a kernel of joint.cu with a thread for each of n rows of K classes.

    What its blocks leave is added up to `value` (1,), unless that is None.
    """
    function = kernel(("joint",), name, numbers(weight))
    grid = function.grid(n, THREADS)
    partial = cp.empty(grid)
    function((grid,), (THREADS,), (np.int64(n), np.int32(K), *args, partial))
    if value is not None:
        add_up(partial, grid, 1, value)
