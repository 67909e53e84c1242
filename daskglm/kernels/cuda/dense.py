"""Device kernels on dense rows: every function that touches a dense CuPy X is here, under the names
of the CPU's.

See `kernels.dense` for what the functions do. Differences: `b` is a flag, w holding the intercept
as its last entry; vectors are device arrays, all float64 but targets, weights and curvatures, which
are of one dtype, float32 or float64; nothing is returned, since that would wait. A kernel is
compiled for each loss, and for products and margins: what is done with margins is its MODE.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

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
# Bytes of scaled rows that are made at a time for a Gram by cuBLAS.
GRAM_BYTES = 64 << 20


class AtMargins(NamedTuple):
    """What kernels make of the margins (or products) X w + b of some rows: see `finish_row`.

    `mode` is a loss, PRODUCT or FORWARD. Vectors are None or empty where they are not there.
    Nothing is done if the flag `live` is zero.
    """

    mode: Law
    w: Any
    b: int
    y: Any = None
    weight: Any = None
    offset: Any = None
    z: Any = None
    curvature: Any = None
    live: Any = None

    @classmethod
    def of_point(
        cls, law: Law, rows: RowData, w: Any, b: int, start: int, stop: int, out: PointSums
    ) -> AtMargins:
        """Return what a point makes of the rows [start, stop)."""
        run = slice(start, stop)
        weight, offset = (part[run] if part.size else part for part in rows[2:])
        return cls(law, w, b, rows[1][run], weight, offset, out[0][run], out[1][run])

    @property
    def options(self) -> tuple[str, str]:
        """Compiler options of kernels that do it."""
        return numbers(self.curvature, self.y), mode_of(self.mode)

    def arguments(self, *slope: Any) -> tuple[Any, ...]:
        """Return it as arguments, with a vector for slopes where the kernel takes one."""
        vectors = self.y, self.weight, self.offset, self.z, *slope, self.curvature
        return self.w, np.int32(self.b), *numbers_of(self.mode), *map(pointer, vectors)


class Rows:
    """Dense rows on the device (C order) and the memory their kernels work in."""

    sparse = False

    def __init__(self, X: Any, workspace: Workspace | None = None) -> None:
        self.X = X
        self.n, self.d = X.shape
        self.workspace = workspace or Workspace()
        self.dtype = X.dtype
        self.options = (real(X.dtype),)

    @property
    def nbytes(self) -> int:
        """Bytes of X."""
        return int(self.X.nbytes)

    @property
    def stored(self) -> int:
        """Values of all rows."""
        return int(self.X.size)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The first arguments of the kernels that read rows."""
        return self.X, np.int64(self.n), np.int32(self.d)

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows [start, stop), which share X and workspace."""
        return self if (start, stop) == (0, self.n) else Rows(self.X[start:stop], self.workspace)

    def fill_scaled(self, curvature: Any, out: Any) -> None:
        """Set `out` (n, side) to sqrt(D) [X 1], and what lies beyond to zero."""
        function = _dense("dense_scaled", self, numbers(curvature), scaled_as(out.dtype))
        args = (*self.arrays, np.int32(out.shape[1]), curvature, out)
        function((function.grid(self.n, THREADS // 32),), (THREADS,), args)


def margins(rows: Rows, w: Any, b: int, start: int, stop: int, z: Any) -> None:
    """Z = X w + b for the rows [start, stop)."""
    _forward(rows.part(start, stop), AtMargins(FORWARD, w, b, z=z[start:stop]))


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
    sums, diagonal, gram = out[2:]
    if part.d <= NARROW:
        _narrow(part, at, sums, diagonal, NOTHING if exact else gram)
        if not exact:
            return
    elif part.d <= _held(part, diagonal.size > 0):
        _wide(part, at, sums, diagonal)
    else:
        slope = part.workspace.get("slopes", part.n)
        partial, grid = _forward(part, at, slope)
        add_up(partial[1:], grid, 2, sums[part.d + 1 :])
        add_columns(part, slope, sums, at.curvature if diagonal.size else None, diagonal)
    if gram.size:
        add_curved_gram(part, at.curvature, gram, exact=exact)


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: Rows, curvature: Any, v: Any, b: int, start: int, stop: int, out: Any, live: Any = None
) -> None:
    """Add [X 1]' D (X v + b) over [start, stop) to `out` (d + 1,).

    It does nothing if the flag `live` is zero.
    """
    part = rows.part(start, stop)
    at = AtMargins(PRODUCT, v, b, curvature=curvature[start:stop], live=live)
    if part.d <= NARROW:
        _narrow(part, at, out)
    elif part.d <= _held(part, diagonal=False):
        _wide(part, at, out)
    else:
        u = part.workspace.get("slopes", part.n)
        _forward(part, at, u)
        add_columns(part, u, out, live=live)


def backward(rows: Rows, r: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1]' r over [start, stop) to `out` (d + 1,)."""
    add_columns(rows.part(start, stop), r[start:stop], out)


def add_moments(rows: Rows, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s over [start, stop) to `sums` (d + 1,), [X.^2 1]' s to `squares` (d + 1,).

    `weight` has s, float64 (n,). X is read once.
    """
    s = weight[start:stop]
    add_columns(rows.part(start, stop), s, sums, s, squares)


def squared_norms(rows: Rows, start: int, stop: int, norms: Any = None) -> tuple[float, float]:
    """Return the largest squared row norm over [start, stop) and the sum of all. Waits.

    `norms`, unless None, gets the norms themselves.
    """
    part = rows.part(start, stop)
    function = _dense("dense_norms", part, "-DVECTOR=double")
    grid = function.grid(part.n, THREADS // 32)
    return largest_and_sum(function, grid, part, part.arrays, norms, start, stop)


def largest_and_sum(
    function: Kernel, grid: int, part: Any, arrays: Any, norms: Any, start: int, stop: int
) -> tuple[float, float]:
    """Launch a kernel of squared norms, and return the largest and the sum of all. Waits."""
    partial = part.workspace.get("partial", 2 * grid)
    args = (*arrays, NULL if norms is None else norms[start:stop], partial)
    function((grid,), (THREADS,), args)
    found = partial[: 2 * grid].get().reshape(-1, 2)
    return float(found[:, 0].max()), float(found[:, 1].sum())


def add_curved_gram(part: Any, curvature: Any, gram: Any, *, exact: bool) -> None:
    """Add [X 1]' D [X 1] of dense or sparse rows to the upper triangle of `gram` (side, side).

    Products are summed in the dtype of the rows, if `exact` in float64, and runs of rows in
    float64. By cuBLAS's syrk, which makes one triangle only; the side is a multiple of four, so
    that rows begin at multiples of 16 bytes. Rows are scaled by the roots of curvatures some at a
    time, which take at most GRAM_BYTES, or one row.
    """
    side, dtype = gram.shape[0], np.dtype(np.float64) if exact else part.dtype
    many = max(1, GRAM_BYTES // (side * dtype.itemsize))
    get = part.workspace.get
    for lo in range(0, part.n, many):
        run = part.part(lo, min(lo + many, part.n))
        scaled = get("scaled", run.n * side, dtype).reshape(run.n, side)
        run.fill_scaled(curvature[lo : lo + run.n], scaled)
        product = get("product", side * side, dtype, zeroed=True).reshape(side, side)
        cublas.syrk("T", scaled, out=product)  # leaves the lower triangle, which is zero
        gram += product


def add_columns(
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
    args = (*part.arrays, r, curvature if both else NULL, partial, pointer(live))
    function((grid, columns), (THREADS,), args)
    add_up(partial, grid, length, out[: d + 1], live=live)
    if both:
        add_up(partial[d + 1 :], grid, length, diagonal, live=live)


# ---- one read for both products
def _narrow(
    part: Rows, at: AtMargins, sums: Any, diagonal: Any = NOTHING, gram: Any = NOTHING
) -> None:
    d, wanted = part.d, gram.size > 0
    threads = GRAM_THREADS if wanted else NARROW_THREADS
    side = gram.shape[0] if wanted else 0
    apart, chunked = _tile(part.X, side)
    tiles = (1 if wanted else 2) * threads * apart * part.X.itemsize
    shared = _narrow_shared(d, threads, tiles, side)
    options = *part.options, *at.options, f"-DGRAM={int(wanted)}"
    function = kernel(("narrow",), "dense_narrow", *options)
    grid = function.grid(part.n, threads, threads, shared)
    partial = part.workspace.get("partial", grid * _length(part, diagonal))
    # what lies below the diagonal stays zero
    grams = part.workspace.get("gram", grid * side * side, zeroed=True) if wanted else None
    laid_out = np.int32(apart), np.int32(chunked)
    made = partial, np.int32(diagonal.size > 0), pointer(grams)
    args = (*part.arrays, *laid_out, *at.arguments(), *made, pointer(at.live))
    function((grid,), (threads,), args, shared_mem=shared)
    _add_sums(part, at, partial, grid, sums, diagonal)
    if wanted:
        add_up(grams, grid, side * side, gram.reshape(-1))


def _length(part: Rows, diagonal: Any) -> int:
    """Return how many sums a block leaves: d + 2, and the d + 1 of a diagonal behind them."""
    return 2 * part.d + 3 if diagonal.size else part.d + 2


def _add_sums(part: Rows, at: AtMargins, partial: Any, grid: int, sums: Any, diagonal: Any) -> None:
    """Add up what blocks have left."""
    length = _length(part, diagonal)
    add_up(partial, grid, length, sums, live=at.live)
    if diagonal.size:
        add_up(partial[part.d + 2 :], grid, length, diagonal)


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


def _wide(part: Rows, at: AtMargins, sums: Any, diagonal: Any = NOTHING) -> None:
    each = max(4, 1 << (-(-part.d // 32) - 1).bit_length())
    options = *at.options, f"-DEACH={each}", f"-DDIAGONAL={int(diagonal.size > 0)}"
    function = kernel(("wide",), "dense_wide", *part.options, *options)
    length = _length(part, diagonal)
    grid = function.grid(part.n, THREADS // 32, THREADS, 8 * length)
    partial = part.workspace.get("partial", grid * length)
    args = (*part.arrays, *at.arguments(), partial, pointer(at.live))
    function((grid,), (THREADS,), args, shared_mem=8 * length)
    _add_sums(part, at, partial, grid, sums, diagonal)


# ---- two reads
def _forward(part: Rows, at: AtMargins, slope: Any = None) -> tuple[Any, int]:
    function = _dense("dense_forward", part, *at.options)
    grid = function.grid(part.n, THREADS // 32)
    partial = part.workspace.get("rows", 2 * grid)
    args = (*part.arrays, *at.arguments(slope), partial, pointer(at.live))
    function((grid,), (THREADS,), args)
    return partial, grid


def scaled_as(dtype: Any) -> str:
    """Return the compiler option that makes SCALED, the type of scaled rows, this dtype."""
    return real(dtype).replace("REAL", "SCALED")


def _dense(name: str, part: Rows, *options: str) -> Kernel:
    return kernel(("dense",), name, *part.options, *options)
