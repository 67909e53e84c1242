"""Device kernels on sparse rows, under the names of the CPU's; see `kernels.dense`, and
`cuda.dense` for what differs.

Rows are CSR; a CSC copy beside them makes column sums without atomics where the budget of memory
allows it.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np
from cupyx.scipy.sparse import csr_matrix

from daskglm.kernels.cuda.dense import (
    FORWARD,
    PRODUCT,
    AtMargins,
    add_curved_gram,
    largest_and_sum,
    scaled_as,
)
from daskglm.kernels.cuda.launch import (
    INDICES,
    NULL,
    THREADS,
    Kernel,
    Workspace,
    add_up,
    kernel,
    numbers,
    pointer,
    real,
)
from daskglm.kernels.records import PointSums, RowData
from daskglm.losses.base import Law

# Entries of a column that one group of lanes adds up.
SEGMENT = 512


class Rows:
    """CSR on the device: values (one for a pattern), indices, row starts, perhaps a CSC copy."""

    sparse = True

    def __init__(
        self,
        data: Any,
        indices: Any,
        indptr: Any,
        shape: tuple[int, int],
        workspace: Workspace | None = None,
        *,
        pattern: bool,
    ) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.n, self.d = shape
        self.dtype = data.dtype
        # without stored values there is no data[0] to read: a pointer to no memory is null
        self.pattern = np.int32(pattern and data.size > 0)
        self.lanes = _lanes(indices.size / max(self.n, 1))
        self.workspace = workspace or Workspace()
        self.options = (real(data.dtype), f"-DINDEX={INDICES[indices.dtype]}")
        self.csc_copy: CscCopy | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return int(self.data.nbytes + self.indices.nbytes + self.indptr.nbytes)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The first arguments of the kernels that read rows."""
        return self.data, self.indices, self.indptr, self.pattern, np.int64(self.n)

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows [start, stop), without the CSC copy; arrays are shared."""
        if (start, stop) == (0, self.n):
            return self
        indptr, shape = self.indptr[start : stop + 1], (stop - start, self.d)
        pattern = bool(self.pattern)
        return Rows(self.data, self.indices, indptr, shape, self.workspace, pattern=pattern)

    def fill_scaled(self, curvature: Any, out: Any) -> None:
        """Set `out` (n, side) to sqrt(D) [X 1], and what lies beyond to zero."""
        function = _csr("csr_scaled", self, numbers(curvature), scaled_as(out.dtype))
        out.fill(0)
        args = (*self.arrays, np.int32(self.d), np.int32(out.shape[1]), curvature, out)
        function((function.grid(self.n, THREADS // 32),), (THREADS,), args)


class CscCopy:
    """The same values column by column, cut into segments of at most SEGMENT entries."""

    def __init__(self, data: Any, rows: Any, starts: Any, first: Any) -> None:
        self.data = data
        self.rows = rows
        self.starts = starts
        self.first = first
        self.segments = len(starts) - 1
        self.lanes = _lanes(rows.size / max(self.segments, 1))

    def arrays(self, pattern: np.int32) -> tuple[Any, ...]:
        """The first arguments of the kernel that reads segments."""
        sizes = np.int64(self.segments), np.int32(self.lanes)
        return self.data, self.rows, pattern, self.starts, *sizes


def add_csc_copy(rows: Rows) -> None:
    """Make the CSC copy of CSR rows, on the device. Columns keep the order of rows."""
    data = cp.ones(rows.indices.size, rows.data.dtype) if rows.pattern else rows.data
    csc = csr_matrix((data, rows.indices, rows.indptr), shape=(rows.n, rows.d)).tocsc()
    begin = csc.indptr.get().astype(np.int64)
    segments = np.maximum(-(-np.diff(begin) // SEGMENT), 1)
    first = np.concatenate([[0], np.cumsum(segments)])
    within = np.arange(first[-1]) - np.repeat(first[:-1], segments)
    starts = np.append(np.repeat(begin[:-1], segments) + SEGMENT * within, begin[-1])
    values = rows.data if rows.pattern else csc.data
    rows.csc_copy = CscCopy(
        values, csc.indices, cp.asarray(starts), cp.asarray(first.astype(rows.indices.dtype))
    )


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
    d, (sums, diagonal, gram) = part.d, out[2:]
    slope = part.workspace.get("slopes", part.n)
    partial, grid = _forward(part, at, slope)
    add_up(partial, grid, 3, sums[d:])
    if diagonal.size:
        add_up(partial[2:], grid, 3, diagonal[d:])
    _columns(part, slope, sums, at.curvature if diagonal.size else None, diagonal)
    if gram.size:
        add_curved_gram(part, at.curvature, gram, exact=exact)


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: Rows, curvature: Any, v: Any, b: int, start: int, stop: int, out: Any, live: Any = None
) -> None:
    """Add [X 1]' D (X v + b) over [start, stop) to `out` (d + 1,).

    It does nothing if the flag `live` is zero.
    """
    part, d = rows.part(start, stop), rows.d
    slope = part.workspace.get("slopes", part.n)
    at = AtMargins(PRODUCT, v, b, curvature=curvature[start:stop], live=live)
    partial, grid = _forward(part, at, slope)
    add_up(partial, grid, 3, out[d : d + 1], live=live)
    _columns(part, slope, out, live=live)


def backward(rows: Rows, r: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1]' r over [start, stop) to `out` (d + 1,)."""
    _columns(rows.part(start, stop), r[start:stop], out)
    out[rows.d :] += r[start:stop].sum(dtype=np.float64)


def add_moments(rows: Rows, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s over [start, stop) to `sums` (d + 1,), X.^2' s to `squares` (d + 1,).

    `weight` has s, float64 (n,). X is read once.
    """
    s = weight[start:stop]
    _columns(rows.part(start, stop), s, sums, s, squares)
    sums[rows.d :] += s.sum()


def take_columns(rows: Rows, columns: np.ndarray) -> Rows:
    """Copy the columns of these ascending numbers (k,); with a CSC copy if the rows have one."""
    place = cp.full(rows.d, -1, np.int32)
    place[cp.asarray(columns)] = cp.arange(len(columns), dtype=np.int32)
    renumbered = place[rows.indices]
    stays = renumbered >= 0
    starts = cp.concatenate([cp.zeros(1, np.int64), cp.cumsum(stays, dtype=np.int64)])
    indices, indptr = renumbered[stays], starts[rows.indptr]
    small = indices.size <= np.iinfo(np.int32).max
    taken = Rows(
        rows.data if rows.pattern else rows.data[stays],
        indices if small else indices.astype(np.int64),
        indptr.astype(np.int32) if small else indptr,
        (rows.n, len(columns)),
        pattern=bool(rows.pattern),
    )
    if rows.csc_copy is not None:
        add_csc_copy(taken)
    return taken


def squared_norms(rows: Rows, start: int, stop: int, norms: Any = None) -> tuple[float, float]:
    """Return the largest squared row norm over [start, stop) and the sum of all. Waits.

    `norms`, unless None, gets the norms themselves.
    """
    part = rows.part(start, stop)
    function = _csr("csr_norms", part, "-DVECTOR=double")
    arrays = part.data, part.indptr, part.pattern, np.int64(part.n)
    grid = function.grid(part.n, THREADS)
    return largest_and_sum(function, grid, part, arrays, norms, start, stop)


def _forward(part: Rows, at: AtMargins, slope: Any = None) -> tuple[Any, int]:
    function = _csr("csr_forward", part, *at.options)
    grid = function.grid(part.n * part.lanes, THREADS)
    partial = part.workspace.get("partial", 3 * grid)
    sizes = np.int32(part.lanes), np.int32(part.d)
    args = (*part.arrays, *sizes, *at.arguments(slope), partial, pointer(at.live))
    function((grid,), (THREADS,), args)
    return partial, grid


def _columns(
    part: Rows, r: Any, out: Any, curvature: Any = None, diagonal: Any = None, live: Any = None
) -> None:
    """Add X' r to the first d entries of `out`, and X.^2' curvature to those of `diagonal`.

    A `curvature` of None means no diagonal. Both take one read of the rows, or of their CSC copy; r
    is float64.
    """
    both = curvature is not None
    options = numbers(curvature), f"-DDIAGONAL={int(both)}"
    wanted = (r, curvature, out, diagonal) if both else (r, NULL, out, NULL)
    csc_copy = part.csc_copy
    if csc_copy is None:
        scatter = _csr("csr_scatter", part, *options)
        args = (*part.arrays, np.int32(part.lanes), *wanted, pointer(live))
        scatter((scatter.grid(part.n * part.lanes, THREADS),), (THREADS,), args)
        return
    sums = part.workspace.get("segments", 2 * csc_copy.segments)
    sums, squares = sums[: csc_copy.segments], sums[csc_copy.segments :] if both else NULL
    segments = _csr("csc_segments", part, *options)
    columns = _csr("csc_columns", part, *options)
    args = (*csc_copy.arrays(part.pattern), *wanted[:2], sums, squares, pointer(live))
    segments((segments.grid(csc_copy.segments * csc_copy.lanes, THREADS),), (THREADS,), args)
    args = (sums, squares, csc_copy.first, np.int64(part.d), *wanted[2:], pointer(live))
    columns((columns.grid(part.d * 4, THREADS),), (THREADS,), args)


def add_squares(part: Rows, curvature: Any, out: Any) -> None:
    """Add [X.^2 1]' curvature, float64 (n,), to `out` (d + 1,)."""
    beside = part.workspace.get("products", part.d)
    _columns(part, curvature, beside, curvature, out)
    out[part.d :] += curvature.sum()


def _lanes(each: float) -> int:
    """Lanes that share so many entries: four to eight entries a lane."""
    return min(32, max(2, 1 << max(0, int(each / 4).bit_length() - 1)))


def _csr(name: str, part: Rows, *options: str) -> Kernel:
    return kernel(("csr",), name, *part.options, *options)
