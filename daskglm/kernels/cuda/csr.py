"""CSR rows on a device, for the functions of `cuda.sparse`.

A CSC copy beside them makes column sums without atomics where the budget of memory allows it.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np
from cupyx.scipy.sparse import csr_matrix

from daskglm.kernels.cuda import dense
from daskglm.kernels.cuda.dense import AtMargins, scaled_as
from daskglm.kernels.cuda.launch import (
    INDICES,
    NULL,
    THREADS,
    Kernel,
    Workspace,
    kernel,
    numbers,
    pointer,
    real,
)

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
        self.lanes = lanes_for(indices.size / max(self.n, 1))
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

    def add_gram(self, curvature: Any, gram: Any, *, exact: bool) -> None:
        """Add [X 1]' D [X 1] to the upper triangle of `gram`; see `dense.add_curved_gram`."""
        dense.add_curved_gram(self, curvature, gram, exact=exact)

    def fill_scaled(self, curvature: Any, out: Any) -> None:
        """Set `out` (n, side) to sqrt(D) [X 1], and what lies beyond to zero."""
        function = _csr("csr_scaled", self, numbers(curvature), scaled_as(out.dtype))
        out.fill(0)
        args = (*self.arrays, np.int32(self.d), np.int32(out.shape[1]), curvature, out)
        function((function.grid(self.n, THREADS // 32),), (THREADS,), args)

    @property
    def stored(self) -> int:
        """Values of all rows."""
        return int(self.indices.size)

    def column_counts(self) -> np.ndarray:
        """Return how many rows have a value in each column, (d,)."""
        found: np.ndarray = cp.bincount(self.indices, minlength=self.d).get()
        return found

    def forward(self, at: AtMargins, slope: Any = None) -> tuple[Any, int]:
        """Do what `at` says for all rows.

        Returns the sums of slopes, values and curvatures of each block, and how many blocks there
        are.
        """
        function = _csr("csr_forward", self, *at.options)
        grid = function.grid(self.n * self.lanes, THREADS)
        partial = self.workspace.get("partial", 3 * grid)
        sizes = np.int32(self.lanes), np.int32(self.d)
        args = (*self.arrays, *sizes, *at.arguments(slope), partial, pointer(at.live))
        function((grid,), (THREADS,), args)
        return partial, grid

    def add_columns(
        self, r: Any, out: Any, curvature: Any = None, diagonal: Any = None, live: Any = None
    ) -> None:
        """Add X' r to the first d entries of `out`, and X.^2' curvature to those of `diagonal`.

        A `curvature` of None means no diagonal. Both take one read of the rows, or of their CSC
        copy; r is float64.
        """
        both = curvature is not None
        options = numbers(curvature), f"-DDIAGONAL={int(both)}"
        wanted = (r, curvature, out, diagonal) if both else (r, NULL, out, NULL)
        csc_copy = self.csc_copy
        if csc_copy is None:
            scatter = _csr("csr_scatter", self, *options)
            args = (*self.arrays, np.int32(self.lanes), *wanted, pointer(live))
            scatter((scatter.grid(self.n * self.lanes, THREADS),), (THREADS,), args)
            return
        sums = self.workspace.get("segments", 2 * csc_copy.segments)
        sums, squares = sums[: csc_copy.segments], sums[csc_copy.segments :] if both else NULL
        segments = _csr("csc_segments", self, *options)
        columns = _csr("csc_columns", self, *options)
        args = (*csc_copy.arrays(self.pattern), *wanted[:2], sums, squares, pointer(live))
        segments((segments.grid(csc_copy.segments * csc_copy.lanes, THREADS),), (THREADS,), args)
        args = (sums, squares, csc_copy.first, np.int64(self.d), *wanted[2:], pointer(live))
        columns((columns.grid(self.d * 4, THREADS),), (THREADS,), args)

    def norms(self) -> tuple[Kernel, int, tuple[Any, ...]]:
        """Return the kernel of squared norms of rows, its grid, and its first arguments."""
        function = _csr("csr_norms", self, "-DVECTOR=double")
        arrays = self.data, self.indptr, self.pattern, np.int64(self.n)
        return function, function.grid(self.n, THREADS), arrays


class CscCopy:
    """The same values column by column, cut into segments of at most SEGMENT entries."""

    def __init__(self, data: Any, rows: Any, starts: Any, first: Any) -> None:
        self.data = data
        self.rows = rows
        self.starts = starts
        self.first = first
        self.segments = len(starts) - 1
        self.lanes = lanes_for(rows.size / max(self.segments, 1))

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


def lanes_for(each: float) -> int:
    """Lanes that share so many entries: four to eight entries a lane."""
    return min(32, max(2, 1 << max(0, int(each / 4).bit_length() - 1)))


def _csr(name: str, part: Rows, *options: str) -> Kernel:
    return kernel(("csr",), name, *part.options, *options)
