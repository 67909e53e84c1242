"""Device kernels on dense rows: every function that touches a dense CuPy X is here, under the names
of the CPU's.

See `kernels.dense` for what the functions do. Differences: `b` is a flag, w holding the intercept
as its last entry; vectors are device arrays, all float64 but targets, weights and curvatures, which
are of one dtype, float32 or float64; nothing is returned, since that would wait. A kernel is
compiled for each loss, and for products and margins: what is done with margins is its MODE.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from cupy import cublas

from daskglm.kernels.cuda.launch import (
    NULL,
    THREADS,
    Kernel,
    Workspace,
    add_up,
    kernel,
    mode_of,
    numbers,
    numbers_of,
    pointer,
    real,
)
from daskglm.kernels.records import NOTHING, PointSums, RowData
from daskglm.losses.base import Law

# Features up to which a tile of rows fits in shared memory.
NARROW = 63
# Features up to which a warp holds a row in its registers, by bytes of a value.
WIDE = {4: 2048, 8: 1024}
# Values per lane up to which the diagonal fits in registers too.
DIAGONAL_EACH = 32
NARROW_THREADS, GRAM_THREADS = 128, 256
# Modes in place of a loss: see `finish_row` in common.cu.
PRODUCT, FORWARD = (-1, 0.0, 0.0, 0), (-2, 0.0, 0.0, 0)
# Least rows per block of dense_backward: each block leaves d + 1 sums to add up.
ROWS_A_BLOCK = 64
# y, weight, offset, z and curvature of some rows; None: not there
Vectors = tuple[Any, Any, Any, Any, Any]
# Bytes of scaled rows that are made at a time for a Gram by cuBLAS.
GRAM_BYTES = 64 << 20


class Rows:
    """Dense rows on the device (C order) and the memory their kernels work in."""

    def __init__(self, X: Any, workspace: Workspace | None = None) -> None:
        self.X = X
        self.n, self.d = X.shape
        self.workspace = workspace or Workspace()
        self.options = (real(X.dtype),)

    @property
    def nbytes(self) -> int:
        """Bytes of X."""
        return int(self.X.nbytes)

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows [start, stop), which share X and workspace."""
        return self if (start, stop) == (0, self.n) else Rows(self.X[start:stop], self.workspace)


def margins(rows: Rows, w: Any, b: int, start: int, stop: int, z: Any) -> None:
    """Z = X w + b for the rows [start, stop)."""
    _forward(rows.part(start, stop), FORWARD, w, b, (None, None, None, z[start:stop], None))


def point_vectors(rows: RowData, out: PointSums, start: int, stop: int) -> Vectors:
    """Return what a point reads and keeps of the rows [start, stop)."""
    run = slice(start, stop)
    weight, offset = (part[run] if part.size else part for part in rows[2:])
    return rows[1][run], weight, offset, out[0][run], out[1][run]


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
    vectors = point_vectors(rows, out, start, stop)
    sums, diagonal, gram = out[2:]
    if part.d <= NARROW:
        _narrow(part, law, w, b, vectors, (sums, diagonal, NOTHING if exact else gram))
        if not exact:
            return
    elif part.d <= _held(part, diagonal.size > 0):
        _wide(part, law, w, b, vectors, (sums, diagonal))
    else:
        _two_passes(part, law, w, b, vectors, (sums, diagonal))
    if gram.size:
        add_curved_gram(part, vectors[-1], gram, np.dtype(np.float64) if exact else part.X.dtype)


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: Rows, curvature: Any, v: Any, b: int, start: int, stop: int, out: Any, live: Any = None
) -> None:
    """Add [X 1]' D (X v + b) over [start, stop) to `out` (d + 1,).

    It does nothing if the flag `live` is zero.
    """
    part = rows.part(start, stop)
    vectors = (None, None, None, None, curvature[start:stop])
    if part.d <= NARROW:
        _narrow(part, PRODUCT, v, b, vectors, (out, NOTHING, NOTHING), live)
    elif part.d <= _held(part, diagonal=False):
        _wide(part, PRODUCT, v, b, vectors, (out, NOTHING), live)
    else:
        u = part.workspace.get("slopes", part.n)
        _forward(part, PRODUCT, v, b, vectors, u, live)
        _backward(part, u, out, live=live)


def backward(rows: Rows, r: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1]' r over [start, stop) to `out` (d + 1,)."""
    _backward(rows.part(start, stop), r[start:stop], out)


def add_moments(rows: Rows, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s over [start, stop) to `sums` (d + 1,), [X.^2 1]' s to `squares` (d + 1,).

    `weight` has s, float64 (n,). X is read once.
    """
    s = weight[start:stop]
    _backward(rows.part(start, stop), s, sums, s, squares)


def squared_norms(rows: Rows, start: int, stop: int, norms: Any = None) -> tuple[float, float]:
    """Return the largest squared row norm over [start, stop) and the sum of all. Waits.

    `norms`, unless None, gets the norms themselves.
    """
    part = rows.part(start, stop)
    function = _dense("dense_norms", part, "-DVECTOR=double")
    grid = function.grid(part.n, THREADS // 32)
    partial = part.workspace.get("partial", 2 * grid)
    args = (
        part.X,
        np.int64(part.n),
        np.int32(part.d),
        NULL if norms is None else norms[start:stop],
        partial,
    )
    function((grid,), (THREADS,), args)
    found = partial[: 2 * grid].get().reshape(-1, 2)
    return float(found[:, 0].max()), float(found[:, 1].sum())


def scaled_runs(part: Any, side: int, dtype: Any) -> Iterator[tuple[int, Any, Any]]:
    """Cut rows into runs, as (first, rows, room for them scaled (n, side)).

    A run has at most GRAM_BYTES of room, or one row.
    """
    many = max(1, GRAM_BYTES // (side * dtype.itemsize))
    for lo in range(0, part.n, many):
        run = part.part(lo, min(lo + many, part.n))
        yield lo, run, part.workspace.get("scaled", run.n * side, dtype).reshape(run.n, side)


def add_gram(scaled: Any, gram: Any, workspace: Workspace) -> None:
    """Add the upper triangle of A'A of scaled rows A (n, side) to `gram` (side, side).

    Products are summed in A's dtype, runs of rows in float64. By cuBLAS's syrk, which makes one
    triangle only; the side is a multiple of four, so that its rows begin at multiples of 16 bytes.
    """
    side = scaled.shape[1]
    product = workspace.get("product", side * side, scaled.dtype, zeroed=True).reshape(side, side)
    cublas.syrk("T", scaled, out=product)  # leaves the lower triangle, which is zero
    gram += product


# ---- one read for both products
def _narrow(
    part: Rows,
    mode: Law,
    w: Any,
    b: int,
    vectors: Vectors,
    out: tuple[Any, Any, Any],
    live: Any = None,
) -> None:
    (y, weight, offset, z, curvature), (sums, diagonal, gram) = vectors, out
    d, wanted = part.d, gram.size > 0
    threads = GRAM_THREADS if wanted else NARROW_THREADS
    side = gram.shape[0] if wanted else 0
    apart, chunked = _tile(part.X, side)
    shared = _narrow_shared(
        d, threads, (1 if wanted else 2) * threads * apart * part.X.itemsize, side
    )
    function = kernel(
        ("narrow",),
        "dense_narrow",
        *part.options,
        numbers(curvature, y),
        mode_of(mode),
        f"-DGRAM={int(wanted)}",
    )
    grid = function.grid(part.n, threads, threads, shared)
    length = 2 * d + 3 if diagonal.size else d + 2
    partial = part.workspace.get("partial", grid * length)
    # what lies below the diagonal stays zero
    grams = part.workspace.get("gram", grid * side * side, zeroed=True) if wanted else None
    args = (
        part.X,
        np.int64(part.n),
        np.int32(d),
        np.int32(apart),
        np.int32(chunked),
        w,
        np.int32(b),
        *numbers_of(mode),
        pointer(y),
        pointer(weight),
        pointer(offset),
        pointer(z),
        pointer(curvature),
        partial,
        np.int32(diagonal.size > 0),
        pointer(grams),
        pointer(live),
    )
    function((grid,), (threads,), args, shared_mem=shared)
    add_up(partial, grid, length, sums, live=live)
    if diagonal.size:
        add_up(partial[d + 2 :], grid, length, diagonal)
    if wanted:
        add_up(grams, grid, side * side, gram.reshape(-1))


def _tile(X: Any, side: int) -> tuple[int, bool]:
    """Return how many values apart rows of a tile are, and whether they are copied by 16 bytes.

    Neighbouring threads read neighbouring rows of the tile in shared memory. An odd number of
    chunks of 16 bytes, or of values where rows are not copied by chunks, puts these into different
    banks. For a Gram of this side (0: none) the tile has each row's one, zeros and curvature behind
    it, and is read by chunks however it was copied.
    """
    d, chunk = X.shape[1], 16 // X.itemsize
    chunked = d % chunk == 0 and X.data.ptr % 16 == 0
    if side:
        return (side // chunk + 1 | 1) * chunk, chunked
    if chunked:
        return (d // chunk | 1) * chunk, True
    return d | 1, False


def _narrow_shared(d: int, threads: int, tiles: int, side: int) -> int:
    """Return the bytes of shared memory of dense_narrow, whose parts narrow.cu lists."""
    return 8 * ((side or (d + 2) // 2 * 2) + 2 * threads + 32) + tiles


def _held(part: Rows, diagonal: bool) -> int:
    """Return the features up to which registers of a warp hold a row, and a diagonal's sums."""
    most = WIDE[part.X.itemsize]
    return min(most, 32 * DIAGONAL_EACH) if diagonal else most


def _wide(
    part: Rows,
    mode: Law,
    w: Any,
    b: int,
    vectors: Vectors,
    out: tuple[Any, Any],
    live: Any = None,
) -> None:
    (y, weight, offset, z, curvature), (sums, diagonal) = vectors, out
    d, wanted = part.d, diagonal.size > 0
    each = max(4, 1 << (-(-d // 32) - 1).bit_length())
    function = kernel(
        ("wide",),
        "dense_wide",
        *part.options,
        numbers(curvature, y),
        mode_of(mode),
        f"-DEACH={each}",
        f"-DDIAGONAL={int(wanted)}",
    )
    length = 2 * d + 3 if wanted else d + 2
    grid = function.grid(part.n, THREADS // 32, THREADS, 8 * length)
    partial = part.workspace.get("partial", grid * length)
    args = (
        part.X,
        np.int64(part.n),
        np.int32(d),
        w,
        np.int32(b),
        *numbers_of(mode),
        pointer(y),
        pointer(weight),
        pointer(offset),
        pointer(z),
        pointer(curvature),
        partial,
        pointer(live),
    )
    function((grid,), (THREADS,), args, shared_mem=8 * length)
    add_up(partial, grid, length, sums, live=live)
    if wanted:
        add_up(partial[d + 2 :], grid, length, diagonal)


# ---- two reads
def _two_passes(
    part: Rows,
    law: Law,
    w: Any,
    b: int,
    vectors: Vectors,
    out: tuple[Any, Any],
) -> None:
    curvature, (sums, diagonal) = vectors[-1], out
    slope = part.workspace.get("slopes", part.n)
    partial, grid = _forward(part, law, w, b, vectors, slope)
    add_up(partial[1:], grid, 2, sums[part.d + 1 :])
    _backward(part, slope, sums, curvature if diagonal.size else None, diagonal)


def _forward(
    part: Rows,
    mode: Law,
    w: Any,
    b: int,
    vectors: Vectors,
    slope: Any = None,
    live: Any = None,
) -> tuple[Any, int]:
    y, weight, offset, z, curvature = vectors
    function = _dense("dense_forward", part, numbers(curvature, y), mode_of(mode))
    grid = function.grid(part.n, THREADS // 32)
    partial = part.workspace.get("rows", 2 * grid)
    args = (
        part.X,
        np.int64(part.n),
        np.int32(part.d),
        w,
        np.int32(b),
        *numbers_of(mode),
        pointer(y),
        pointer(weight),
        pointer(offset),
        pointer(z),
        pointer(slope),
        pointer(curvature),
        partial,
        pointer(live),
    )
    function((grid,), (THREADS,), args)
    return partial, grid


def _backward(
    part: Rows, r: Any, out: Any, curvature: Any = None, diagonal: Any = None, live: Any = None
) -> None:
    """Add [X 1]' r to `out`, and [X.^2 1]' curvature to `diagonal`, by one read.

    A `curvature` of None means no diagonal; r is float64.
    """
    d, both = part.d, curvature is not None
    function = _dense("dense_backward", part, numbers(curvature))
    columns = -(-(d + 1) // THREADS)
    grid = function.grid(part.n, ROWS_A_BLOCK, beside=columns)
    length = 2 * (d + 1) if both else d + 1
    partial = part.workspace.get("partial", grid * length)
    args = (
        part.X,
        np.int64(part.n),
        np.int32(d),
        r,
        curvature if both else NULL,
        partial,
        pointer(live),
    )
    function((grid, columns), (THREADS,), args)
    add_up(partial, grid, length, out[: d + 1], live=live)
    if both:
        add_up(partial[d + 1 :], grid, length, diagonal, live=live)


def add_curved_gram(part: Rows, curvature: Any, gram: Any, dtype: Any) -> None:
    """Add [X 1]' D [X 1] to the upper triangle of `gram`; products are summed in this dtype."""
    for lo, run, scaled in scaled_runs(part, gram.shape[0], dtype):
        fill_scaled(run, curvature[lo : lo + run.n], scaled)
        add_gram(scaled, gram, part.workspace)


def fill_scaled(part: Rows, curvature: Any, out: Any) -> None:
    """Set `out` (n, side) to sqrt(D) [X 1], and what lies beyond to zero."""
    function = _dense("dense_scaled", part, numbers(curvature), scaled_as(out.dtype))
    args = (
        part.X,
        np.int64(part.n),
        np.int32(part.d),
        np.int32(out.shape[1]),
        curvature,
        out,
    )
    function((function.grid(part.n, THREADS // 32),), (THREADS,), args)


def scaled_as(dtype: Any) -> str:
    """Return the compiler option that makes SCALED, the type of scaled rows, this dtype."""
    return real(dtype).replace("REAL", "SCALED")


def _dense(name: str, part: Rows, *options: str) -> Kernel:
    return kernel(("dense",), name, *part.options, *options)
