"""Rows of codes beside numbers on a device, for the functions of `cuda.sparse`.

A row is read as codes of one to four bytes and numbers. The tables of what levels stand for are a
small CSR matrix with its CSC copy, multiplied by those kernels; numbers have the kernels of dense
rows for their sums.

Atomics add in any order. A term goes through no more additions that round than its level has other
rows, since to add to zero is exact, and its level's sum through no more than there are others: the
bounds for `kernels.coded` hold.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.coded import PARTS, digest
from daskglm.kernels.coded_columns import level_ranges, restricted
from daskglm.kernels.coded_rows import Tables as HostTables
from daskglm.kernels.cuda import coded_gram, csr, dense
from daskglm.kernels.cuda.dense import FORWARD, AtMargins, scaled_as
from daskglm.kernels.cuda.launch import (
    NULL,
    THREADS,
    Kernel,
    Workspace,
    clear,
    kernel,
    numbers,
    pointer,
    real,
)
from daskglm.kernels.cuda.memory import Upload

# Bytes of shared memory in which a block adds up sums of levels: a multiprocessor of 164 KiB, as
# of sm_80, then has room for five blocks. Chosen.
NEAR_BYTES = 32 << 10
# Copies of them at most: a warp's threads then never meet.
COPIES = 32
# Types of codes of the three kinds.
CODES = "unsigned char", "unsigned short", "unsigned"


class Tables:
    """Tables on the device, the same on the host, and vectors with a number for each level."""

    def __init__(self, host: HostTables) -> None:
        self.host, self.width = host, int(host.width)
        levels, stored = len(host.indptr) - 1, len(host.values)
        if max(levels, stored) > np.iinfo(np.int32).max:
            raise ValueError(
                f"{levels:,} levels with {stored:,} values are more than a GPU's kernels number: "
                "use device='cpu'"
            )
        values = cp.asarray(host.values)
        columns, indptr = (cp.asarray(part.astype(np.int32)) for part in host[2:0:-1])
        self.matrix = csr.Rows(values, columns, indptr, (levels, self.width), pattern=False)
        if stored:
            csr.add_csc_copy(self.matrix)
        self.first = cp.asarray(host.first)
        self.ranges = level_ranges(host.first, levels)
        self.plans: dict[int, coded_gram.Plan] = {}

    @property
    def levels(self) -> int:
        """Levels of all code columns."""
        return int(self.matrix.n)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Arguments of the kernels that read tables."""
        of = self.matrix
        return of.indptr, pointer(of.indices), pointer(of.data), np.int32(self.width)

    def plan(self, k: int) -> coded_gram.Plan:
        """Return how Grams of rows with k numbers are added up."""
        if k not in self.plans:
            self.plans[k] = coded_gram.Plan(self.host, k)
        return self.plans[k]

    def products(self, w: Any) -> Any:
        """Return the products (levels,) with w."""
        if not self.levels:
            return NULL
        found = self.matrix.workspace.get("levels", self.levels)
        self.matrix.forward(AtMargins(FORWARD, w[: self.width], 0, z=found))
        return found

    def sums(self) -> tuple[Any, Any]:
        """Return two vectors (levels,) of zeros."""
        both = self.matrix.workspace.get("sums", 2 * self.levels)
        clear(both)
        return both[: self.levels], both[self.levels :]


def is_coded(raw: Any) -> bool:
    """Return whether rows as the CPU's kernels take them are coded."""
    return isinstance(raw, tuple) and len(raw) == PARTS


def tables_of(raw: Any, upload: Upload) -> Tables:
    """Return the tables of host rows on the device, once for all blocks of an upload."""
    host = HostTables(*raw[4:])
    key = digest(host), int(host.width)
    if key not in upload.shared:
        upload.shared[key] = Tables(host)
    found: Tables = upload.shared[key]
    return found


def resident(raw: Any, n: int, upload: Upload) -> Rows:
    """Copy the first n rows to the device."""
    kinds = [part.dtype for part in raw[:3]]
    kinds.append(raw[3].dtype if raw[3].shape[1] else np.dtype(np.float64))
    parts = (
        upload.copy(part[:n]) if part.shape[1] else cp.empty((n, 0), kind)
        for part, kind in zip(raw[:4], kinds, strict=True)
    )
    return Rows(tuple(parts), tables_of(raw, upload))


class Rows:
    """Codes of three kinds and numbers, each (n, ...) in C order, and tables."""

    sparse = True

    def __init__(
        self, parts: tuple[Any, ...], tables: Tables, workspace: Workspace | None = None
    ) -> None:
        self.parts, self.tables = parts, tables
        self.n, self.k = parts[3].shape
        self.d = tables.width + self.k
        self.dtype = parts[3].dtype
        self.lanes = csr.lanes_for(self.stored / max(self.n, 1))
        self.workspace = workspace or Workspace()
        self.options = (real(self.dtype), tables.matrix.options[1])

    @property
    def nbytes(self) -> int:
        """Bytes of codes and numbers, without the tables."""
        return sum(int(part.nbytes) for part in self.parts)

    @property
    def stored(self) -> int:
        """Codes and numbers of all rows."""
        return sum(int(part.size) for part in self.parts)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The first arguments of the kernels that read rows."""
        ends = np.cumsum([part.shape[1] for part in self.parts[:3]], dtype=np.int32)
        read = *map(pointer, self.parts), pointer(self.tables.first)
        return *read, *ends, np.int32(self.k), np.int64(self.n)

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows [start, stop); arrays are shared."""
        if (start, stop) == (0, self.n):
            return self
        return Rows(tuple(part[start:stop] for part in self.parts), self.tables, self.workspace)

    def take(self, chosen: Any) -> Rows:
        """Copy some rows, by a device array of their numbers."""
        return Rows(tuple(part[chosen] for part in self.parts), self.tables)

    def take_columns(self, columns: np.ndarray) -> Rows:
        """Copy the columns of these ascending numbers: other tables, and codes that have any."""
        tables, stays = restricted(self.tables.host, columns[columns < self.tables.width])
        ends = np.cumsum([part.shape[1] for part in self.parts[:3]])[:-1]
        kept = [np.flatnonzero(part) for part in np.split(stays, ends)]
        kept.append(columns[columns >= self.tables.width] - self.tables.width)
        parts = (
            part
            if len(places) == part.shape[1]
            else cp.ascontiguousarray(cp.take(part, cp.asarray(places), axis=1))
            for part, places in zip(self.parts, kept, strict=True)
        )
        return Rows(tuple(parts), Tables(tables))

    def column_counts(self) -> np.ndarray:
        """Return how many rows have a value in each column, (d,)."""
        ones, (counts, _) = self.workspace.get("slopes", self.n), self.tables.sums()
        ones.fill(1.0)
        self._scatter(ones, counts)
        return counts_of(counts.get(), self.tables.host, self.n, self.k)

    def forward(self, at: AtMargins, slope: Any = None) -> tuple[Any, int]:
        """Do what `at` says for all rows; see `csr.Rows.forward`."""
        levels = self.tables.products(at.w)
        function = _coded("coded_forward", self, *at.options)
        grid = function.grid(self.n * self.lanes, THREADS)
        partial = self.workspace.get("partial", 3 * grid)
        of_numbers = at._replace(w=at.w[self.tables.width :])
        read = *self.arrays, np.int32(self.lanes), levels
        args = (*read, *of_numbers.arguments(slope), partial, pointer(at.live))
        function((grid,), (THREADS,), args)
        return partial, grid

    def add_columns(
        self, r: Any, out: Any, curvature: Any = None, diagonal: Any = None, live: Any = None
    ) -> None:
        """Add X' r to the first d entries of `out`, and X.^2' curvature to those of `diagonal`.

        A `curvature` of None means no diagonal. Codes and numbers are read once each; r is float64.
        """
        tables, both = self.tables, curvature is not None
        if tables.levels:
            sums, squares = tables.sums()
            self._scatter(r, sums, curvature, squares, live)
            c, also = (squares, diagonal[: tables.width]) if both else (None, None)
            tables.matrix.add_columns(sums, out[: tables.width], c, also, live)
        if self.k:
            of_numbers = dense.Rows(self.parts[3], self.workspace)
            places = slice(tables.width, self.d)
            also = diagonal[places] if both else None
            dense.add_columns(of_numbers, r, out[places], curvature, also, live)

    def _scatter(
        self, r: Any, sums: Any, curvature: Any = None, squares: Any = None, live: Any = None
    ) -> None:
        """Add r, and a curvature unless it is None, to the sums of levels."""
        both = curvature is not None
        at, (lows, highs) = 0, self.tables.ranges
        for code, part in zip(CODES, self.parts[:3], strict=True):
            columns = slice(at, at + part.shape[1])
            at = columns.stop
            if not part.shape[1]:
                continue
            base = int(lows[columns].min())
            near, copies, shared = _shared(int(highs[columns].max()) - base, both)
            options = numbers(curvature), f"-DDIAGONAL={int(both)}", f"-DLEVEL_CODE={code}"
            function = _coded("coded_scatter", self, *options)
            # no block has fewer rows than it adds sums of levels at its end
            grid = function.grid(self.n, max(THREADS, near // part.shape[1]), THREADS, shared)
            read = part, self.tables.first[columns], np.int32(part.shape[1]), np.int64(self.n)
            added = (r, curvature) if both else (r, NULL)
            held = np.int64(base), np.int32(near), np.int32(copies)
            made = sums, squares if both else NULL, pointer(live)
            function((grid,), (THREADS,), (*read, *added, *held, *made), shared_mem=shared)

    def norms(self) -> tuple[Kernel, int, tuple[Any, ...]]:
        """Return the kernel of squared norms of rows, its grid, and its first arguments."""
        function = _coded("coded_norms", self, "-DVECTOR=double")
        return function, function.grid(self.n, THREADS), (*self.arrays, *self.tables.arrays)

    def add_gram(self, curvature: Any, gram: Any, *, exact: bool) -> None:
        """Add [X 1]' D [X 1] to the upper triangle of `gram`; see `dense.add_curved_gram`.

        By sums of pairs of levels, all in float64, where these are less work than dense rows.
        """
        plan = self.tables.plan(self.k)
        if plan.pays(self.n, len(gram)):
            coded_gram.add(plan, self, curvature, gram)
        else:
            dense.add_curved_gram(self, curvature, gram, exact=exact)

    def fill_scaled(self, curvature: Any, out: Any) -> None:
        """Set `out` (n, side) to sqrt(D) [X 1], and what lies beyond to zero."""
        function = _coded("coded_scaled", self, numbers(curvature), scaled_as(out.dtype))
        out.fill(0)
        args = (*self.arrays, *self.tables.arrays, np.int32(out.shape[1]), curvature, out)
        function((function.grid(self.n, THREADS // 32),), (THREADS,), args)


def counts_of(of_levels: np.ndarray, tables: HostTables, n: int, k: int) -> np.ndarray:
    """Return how many rows have a value in each column, by rows of each level."""
    each = np.repeat(of_levels, np.diff(tables.indptr))
    coded = np.bincount(tables.columns, each, minlength=int(tables.width))
    return np.append(coded, np.full(k, float(n)))


def _shared(levels: int, both: bool) -> tuple[int, int, int]:
    """Return how many levels a block adds up by itself, in how many copies, and their bytes."""
    a_level = 16 if both else 8
    if levels * a_level > NEAR_BYTES:
        return 0, 1, 0
    copies = min(COPIES, NEAR_BYTES // (levels * a_level))
    return levels, copies, levels * copies * a_level


def _coded(name: str, part: Rows, *options: str) -> Kernel:
    return kernel(("codes", "coded"), name, *part.options, *options)
