"""CPU kernels on rows of categories by their codes, beside dense columns, under the names of
`dense`.

X is the tuple (narrow, middle, wide, floats, first, indptr, columns, values, ranks, width) of the
arrays of a `Coded` and its `Tables`; see `dense` for what the functions do and return. Sweeps
gather and scatter by level, and know of no contrasts: the tables are multiplied by the coefficients
before a sweep, and the sums by level by the tables after it.

Rounding is bounded as for sparse rows, whose sums go over all rows of a block. A term of a
coefficient's sum is added to those of the same level first, and the sums of levels are added up
after that: a level's sum goes through no more additions than the other levels have rows, so all
together are no more than rows. And a margin has no more additions than the row has values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numba import types

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded_columns import ColumnsCopy as ColumnsCopy
from daskglm.kernels.coded_columns import factor_ranges, level_ranges
from daskglm.kernels.coded_csr import add_by_code as add_by_code
from daskglm.kernels.coded_csr import level_of
from daskglm.kernels.coded_csr import matrix_of as matrix_of
from daskglm.kernels.coded_gram import add_outer as add_outer
from daskglm.kernels.coded_gram import finish_gram as finish_gram
from daskglm.kernels.coded_gram import room as room
from daskglm.kernels.coded_levels import add_products, add_slopes, by_level, from_levels
from daskglm.kernels.coded_levels import product_with as product_with
from daskglm.kernels.coded_rows import Coded, Tables
from daskglm.kernels.coded_totals import add_moments as add_moments
from daskglm.kernels.coded_totals import count_signs as count_signs
from daskglm.kernels.coded_totals import spread as spread
from daskglm.kernels.coded_totals import squared_norms as squared_norms
from daskglm.kernels.dense import add_squares as dense_add_squares
from daskglm.kernels.dense import axpy as dense_axpy
from daskglm.kernels.dense import backward as dense_backward
from daskglm.kernels.dense import dot as dense_dot
from daskglm.kernels.dense import exact_runs as dense_exact_runs
from daskglm.kernels.dense import fetch_places as fetch_places
from daskglm.kernels.dense import fetch_rows as dense_fetch_rows
from daskglm.kernels.dense import flush as dense_flush
from daskglm.kernels.dense import forward as dense_forward
from daskglm.kernels.dense import gathered as dense_gathered
from daskglm.kernels.dense import prepared as dense_prepared
from daskglm.kernels.dense import row_at as dense_row_at
from daskglm.kernels.dense import squared_norm as dense_squared_norm
from daskglm.kernels.dense import tile_rows as dense_tile_rows
from daskglm.kernels.records import read_only
from daskglm.kernels.size import UNIT, Size
from daskglm.kernels.soft_threshold import soft
from daskglm.system.compiled import compiled

# Levels up to which the vectors of gather and scatter share a second-level cache.
NEAR = 1 << 16
# Arrays of X as kernels take it; triples are sparse rows.
PARTS = 10
# More rows than a block has: sums over a run of all rows.
ALL = 1 << 62


def has_type(kind: Any) -> bool:
    """Return whether a numba type is that of coded rows."""
    return isinstance(kind, types.BaseTuple) and len(kind) == PARTS


def arrays_of(X: Any) -> Any:
    """Return rows of a block as functions here take them; None: they are of another storage."""
    if not isinstance(X, Coded):
        return None
    return *map(read_only, (*X.parts, *X.tables[:5])), int(X.tables.width)


def take(X: Coded, rows: Any) -> Coded:
    """Copy some rows of a block, by their numbers."""
    return X[rows]


def joined(parts: Sequence[Coded]) -> Coded:
    """Join blocks' rows of one `kind`; they are copied."""
    narrow, middle, wide, floats = (
        np.concatenate(each) for each in zip(*(X.parts for X in parts), strict=True)
    )
    return Coded(narrow, middle, wide, floats, parts[0].tables)


def kind(X: Coded) -> tuple[Any, ...]:
    """Return what blocks' rows must have in common to be `joined`: it can be compared."""
    counts = tuple(part.shape[1] for part in X.parts)
    return X.dense.dtype, counts, int(X.tables.width), digest(X.tables)


def digest(tables: Tables) -> bytes:
    """Return what tells the contents of tables from others, but for their width."""
    found = hashlib.sha256()
    for part in tables[:5]:
        found.update(np.ascontiguousarray(part).data)
    return found.digest()


def with_values(X: Coded) -> Coded:
    """Return rows of a block as they are: they can be multiplied by their codes."""
    return X


def size_of(X: Any) -> Size:
    """Return what the summary of a block says of how its rows lie in memory.

    Bytes are those of codes and numbers: blocks share the tables.
    """
    (n, k), first, indptr = X[3].shape, X[4], X[5]
    counts = np.diff(indptr)
    lows, highs = level_ranges(first, len(counts))
    longest = k + sum(int(counts[lo:hi].max(initial=0)) for lo, hi in zip(lows, highs, strict=True))
    roundoff = float(np.finfo(X[3].dtype).eps) / 2.0 if k else UNIT
    nbytes, factors = sum(part.nbytes for part in X[:4]), filter(any, factor_ranges(*X[4:8]))
    return Size(n * (len(first) + k), nbytes, longest, True, roundoff, tuple(factors))


def row_at(X: Any, share: float) -> int:
    """Return the row before which about this share of the work on rows lies."""
    return dense_row_at(X[3], share)


def row_values(X: Any) -> tuple[np.dtype, bool]:
    """Return the dtype that holds norms of rows, which are kept."""
    return X[3].dtype if X[3].shape[1] else np.dtype(np.float64), True


def address_of(X: Any) -> int:
    """Return where rows lie in host memory."""
    return int(max(X[:4], key=lambda part: part.nbytes).ctypes.data)


def exact_runs(X: Any, start: int, stop: int) -> Iterator[tuple[slice, Any]] | None:
    """Return the rows [start, stop) in float64, run by run; None: their Grams are so anyhow."""
    runs = dense_exact_runs(X[3], start, stop) if X[3].shape[1] else None
    if runs is None:
        return None
    return ((run, (*(codes[run] for codes in X[:3]), part, *X[4:])) for run, part in runs)


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    return len(X[3])


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows [start, stop), as functions here take them."""
    return *(part[start:stop] for part in X[:4]), *X[4:]


# ---- for sweeps, tile by tile
@within_callers()
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the rows of a tile, as of dense rows; see `csr.tile_rows` for those of many levels."""
    many = dense_tile_rows(X[3], d, count, formed)
    return many if formed or len(X[5]) <= NEAR else max(count, 1)


@within_callers()
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return that all rows are one run, after which sums by level meet the tables."""
    return ALL


@within_callers()
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return products by level, and padded coefficients of numbers."""
    return by_level(X, w), dense_prepared(X[3], w[X[9] :])


@within_callers()
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return where `backward` adds up: sums by level, and of numbers."""
    return np.zeros(len(X[5]) - 1), dense_gathered(X[3], X[3].shape[1], sums)


@within_callers()
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Add what a run gathered to the sums; the next begins at zero."""
    levels, numbers = gradient
    from_levels(X, levels, sums)
    dense_flush(X[3], X[3].shape[1], numbers, sums[X[9] :])


@within_callers()
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows [start, stop)."""
    floats, (u, padded) = X[3], w
    if floats.shape[1] > 0:
        dense_forward(floats, padded, b, start, stop, z, ahead)
    else:
        for t in range(stop - start):
            z[t] = b
    add_products(X, u, start, stop, z)


@within_callers()
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add slopes of the rows to the sums of their levels, and to those of numbers."""
    floats, (levels, padded) = X[3], out
    add_slopes(X, slope, start, count, levels)
    if floats.shape[1] > 0:
        dense_backward(floats, slope, start, count, padded, ahead)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out` (d,) or longer."""
    floats, first, indptr, columns, values = X[3:8]
    for t in range(count):
        c = curvature[t]
        for j in range(len(first)):
            level = level_of(X, start + t, j)
            for q in range(indptr[level], indptr[level + np.uint64(1)]):
                out[np.uint64(columns[q])] += c * (values[q] * values[q])
    if floats.shape[1] > 0:
        dense_add_squares(floats, curvature, start, count, out[X[9] :])


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    floats, first, indptr, columns, values = X[3:8]
    top = len(cross) - 1
    for i in range(n):
        k = np.int64(codes[lo + i])
        upper, lower = of[1, i], of[3, i]
        for j in range(len(first)):
            level = level_of(X, lo + i, j)
            for q in range(indptr[level], indptr[level + np.uint64(1)]):
                if k + 1 < top:
                    cross[k + 1, columns[q]] -= upper * values[q]
                if k > 0:
                    cross[k, columns[q]] -= lower * values[q]
        for j in range(floats.shape[1]):
            if k + 1 < top:
                cross[k + 1, X[9] + j] -= upper * floats[lo + i, j]
            if k > 0:
                cross[k, X[9] + j] -= lower * floats[lo + i, j]


# ---- for tiles of columns
@within_callers()
def ask(X, first, count):  # type: ignore[no-untyped-def]
    """Do nothing: rows of codes are short."""


@compiled(nogil=True)
def fill_columns(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Columns = features of some rows of X, all before `stop`, and ones after the last feature."""
    floats, first, indptr, places, values = X[3:8]
    width = X[9]
    columns[:width] = 0.0
    for t in range(len(rows)):
        i = np.uint64(rows[t])
        for j in range(len(first)):
            level = level_of(X, i, j)
            for q in range(indptr[level], indptr[level + np.uint64(1)]):
                columns[np.uint64(places[q]), t] = values[q]
        for j in range(floats.shape[1]):
            columns[width + j, t] = floats[i, j]
    columns[d, : len(rows)] = 1.0


# ---- one row, or a bucket of them, for coordinate ascent; why tuples are not unpacked: see `csr`
@within_callers(forceinline=True)
def dot(X, i, v, threshold):  # type: ignore[no-untyped-def]
    """Return the product of row i with v, whose entries move towards zero by a threshold."""
    total = 0.0
    for j in range(len(X[4])):
        level = level_of(X, i, j)
        for q in range(X[5][level], X[5][level + np.uint64(1)]):
            total += X[7][q] * soft(v[np.uint64(X[6][q])], threshold)
    if X[3].shape[1] > 0:
        total += dense_dot(X[3], i, v[X[9] :], threshold)
    return total


@within_callers(forceinline=True)
def axpy(X, i, s, v):  # type: ignore[no-untyped-def]
    """Add s times row i to v."""
    for j in range(len(X[4])):
        level = level_of(X, i, j)
        for q in range(X[5][level], X[5][level + np.uint64(1)]):
            v[np.uint64(X[6][q])] += s * X[7][q]
    if X[3].shape[1] > 0:
        dense_axpy(X[3], i, s, v[X[9] :])


@within_callers(forceinline=True)
def squared_norm(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    total = 0.0
    for j in range(len(X[4])):
        level = level_of(X, i, j)
        for q in range(X[5][level], X[5][level + np.uint64(1)]):
            total += X[7][q] * X[7][q]
    if X[3].shape[1] > 0:
        total += dense_squared_norm(X[3], i)
    return total


@within_callers(forceinline=True)
def fetch_rows(X, i, stop):  # type: ignore[no-untyped-def]
    """Prefetch the beginning of the rows [i, stop): narrow codes, and numbers."""
    if X[0].shape[1] > 0:
        dense_fetch_rows(X[0], i, stop)
    if X[3].shape[1] > 0:
        dense_fetch_rows(X[3], i, stop)


@within_callers()
def fetch_shared(X, i, v):  # type: ignore[no-untyped-def]
    """Do nothing: only the tables tell which entries of v a row meets."""
