"""CPU kernels on sparse rows: every function that touches a SciPy CSR matrix is here, under the
names of `dense`.

X is the triple (data, indices, indptr); see `dense` for what the functions do and return. Where
`data` has one element all stored values are equal to it, and only the pattern is read. A tile of
rows is still in the cache when the backward product scatters it.

Places are counted without a sign or cut out as slices, so that numba knows them not to be negative:
a test of each would double the time. Sums over places are not reassociated: LLVM would make vector
gathers of them, which wait for the slowest of eight misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import types

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.columns_csr import ColumnsCopy as ColumnsCopy
from daskglm.kernels.distances import CANCELS, squared_size
from daskglm.kernels.pattern import Pattern, without_values
from daskglm.kernels.pattern import with_values as with_values
from daskglm.kernels.records import read_only
from daskglm.kernels.simd import fetch
from daskglm.kernels.size import UNIT, Size
from daskglm.kernels.soft_threshold import soft
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

TILE_ROWS = 128
# Values of a row (or bucket) that are prefetched before its turn, and float32 ones of a cache line.
AHEAD = 2048
LINE_VALUES = LINE_BYTES // 4
# Places of a row whose entries of a vector are prefetched before its turn.
SHARED_AHEAD = 256
# Entries up to which the vectors of gather and scatter share a second-level cache.
NEAR = 1 << 16
# Rows between the prefetch of the entries of a longer vector that a row meets, and its turn: 1 is
# slower by 5 to 10 %, 3 by up to 20 % (sdca, 1,000,000 one-hot rows and columns, 2026-11).
ROWS_AHEAD = 2


def has_type(kind: Any) -> bool:
    """Return whether a numba type is that of sparse rows."""
    return isinstance(kind, types.BaseTuple) and len(kind) == 3


def arrays_of(X: Any) -> Any:
    """Return rows of a block as functions here take them; None: they are of another storage."""
    if isinstance(X, Pattern):
        return read_only(X.value), read_only(X.indices), read_only(X.indptr)
    if sp.issparse(X) and X.format == "csr":
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)
    return None


def take(X: Any, rows: np.ndarray) -> Any:
    """Copy some rows of a block, by their numbers."""
    if not isinstance(X, Pattern):
        return X[rows]
    counts = np.diff(X.indptr)[rows]
    indptr = np.concatenate([np.zeros(1, X.indptr.dtype), np.cumsum(counts, dtype=X.indptr.dtype)])
    places = np.repeat(X.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
    return Pattern(X.value, X.indices[places], indptr, (len(rows), X.shape[1]))


def joined(parts: Sequence[Any]) -> Any:
    """Join blocks' rows of one `kind`; they are copied."""
    return without_values(sp.vstack([with_values(X) for X in parts], format="csr"))


def kind(X: Any) -> tuple[Any, ...]:
    """Return what blocks' rows must have in common to be `joined`: it can be compared."""
    return X.dtype, X.indices.dtype


def size_of(X: Any) -> Size:
    """Return what the summary of a block says of how its rows lie in memory."""
    _, indices, indptr = X
    longest = int((indptr[1:] - indptr[:-1]).max(initial=0))
    return Size(len(indices), sum(part.nbytes for part in X), longest, True, UNIT)


def row_at(X: Any, share: float) -> int:
    """Return the row before which about this share of the work on rows lies."""
    work = X[2] + np.arange(len(X[2]))
    return int(np.searchsorted(work, share * work[-1]))


def row_values(X: Any) -> tuple[np.dtype, bool]:
    """Return the dtype of norms; those of a pattern are the numbers of places, and not kept."""
    return X[0].dtype, len(X[0]) != 1


def address_of(X: Any) -> int:
    """Return where rows lie in host memory."""
    return int(X[2].ctypes.data)


def exact_runs(X: Any, start: int, stop: int) -> None:
    """Return None: Grams are in float64 anyhow."""


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    return len(X[2]) - 1


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows [start, stop), as functions here take them."""
    data, indices, indptr = X
    return data, indices, indptr[start : stop + 1]


def matrix_of(X: Any, d: int) -> sp.csr_matrix:
    """Return rows of d features as a float64 matrix."""
    data, indices, indptr = X
    lo, hi = int(indptr[0]), int(indptr[-1])
    values = np.full(hi - lo, data[0]) if len(data) == 1 else data[lo:hi]
    shape = len(indptr) - 1, d
    return sp.csr_matrix((values.astype(np.float64), indices[lo:hi], indptr - lo), shape=shape)


def product_with(X: Any, d: int, V: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """Return a function of start and stop that multiplies these rows by V (d, K): (n, K)."""
    return lambda start, stop: matrix_of(rows_between(X, start, stop), d) @ V


# ---- one row, or a bucket of them
# These are compiled into their callers and do not unpack the triple. A call of its own would count
# references to arrays: locked instructions, which loads wait for, took a third of an epoch (one-hot
# rows, 2 cores, 2026-11).
@within_callers(fastmath={"contract", "nsz"}, forceinline=True)
def dot(X, i, v, threshold):  # type: ignore[no-untyped-def]
    """Return the product of row i with v, whose entries move towards zero by a threshold.

    Four sums, so that no addition waits for the one before.
    """
    start, stop = np.uint64(X[2][i]), np.uint64(X[2][i + 1])
    whole = start + ((stop - start) & ~np.uint64(3))
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    if len(X[0]) == 1:
        for p in range(start, whole, np.uint64(4)):
            one += soft(v[np.uint64(X[1][p])], threshold)
            two += soft(v[np.uint64(X[1][p + np.uint64(1)])], threshold)
            three += soft(v[np.uint64(X[1][p + np.uint64(2)])], threshold)
            four += soft(v[np.uint64(X[1][p + np.uint64(3)])], threshold)
        for p in range(whole, stop):
            one += soft(v[np.uint64(X[1][p])], threshold)
        return ((one + two) + (three + four)) * X[0][0]
    for p in range(start, whole, np.uint64(4)):
        one += X[0][p] * soft(v[np.uint64(X[1][p])], threshold)
        two += X[0][p + np.uint64(1)] * soft(v[np.uint64(X[1][p + np.uint64(1)])], threshold)
        three += X[0][p + np.uint64(2)] * soft(v[np.uint64(X[1][p + np.uint64(2)])], threshold)
        four += X[0][p + np.uint64(3)] * soft(v[np.uint64(X[1][p + np.uint64(3)])], threshold)
    for p in range(whole, stop):
        one += X[0][p] * soft(v[np.uint64(X[1][p])], threshold)
    return (one + two) + (three + four)


@within_callers(forceinline=True)
def axpy(X, i, s, v):  # type: ignore[no-untyped-def]
    """Add s times row i to v."""
    start, stop = np.uint64(X[2][i]), np.uint64(X[2][i + 1])
    if len(X[0]) == 1:
        s *= X[0][0]
        for p in range(start, stop):
            v[np.uint64(X[1][p])] += s
    else:
        for p in range(start, stop):
            v[np.uint64(X[1][p])] += s * X[0][p]


@within_callers(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)
def squared_norm(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    start, stop = np.uint64(X[2][i]), np.uint64(X[2][i + 1])
    if len(X[0]) == 1:
        return np.float64(X[0][0]) * np.float64(X[0][0]) * np.float64(stop - start)
    total = 0.0
    for p in range(start, stop):
        total += np.float64(X[0][p]) * np.float64(X[0][p])
    return total


@within_callers(forceinline=True)
def fetch_places(X, i, stop):  # type: ignore[no-untyped-def]
    """Prefetch what tells where the rows [i, stop) are."""
    fetch(X[2], i)
    fetch(X[2], stop)


@within_callers(forceinline=True)
def fetch_rows(X, i, stop):  # type: ignore[no-untyped-def]
    """Prefetch the beginning of the rows [i, stop)."""
    for p in range(X[2][i], min(X[2][stop], X[2][i] + AHEAD), LINE_VALUES):
        fetch(X[1], p)
        if len(X[0]) > 1:
            fetch(X[0], p)


@within_callers(forceinline=True)
def fetch_shared(X, i, v):  # type: ignore[no-untyped-def]
    """Prefetch the entries of v that row i meets, or the first of them."""
    start, stop = np.uint64(X[2][i]), np.uint64(X[2][i + 1])
    for p in range(start, min(stop, start + np.uint64(SHARED_AHEAD))):
        fetch(v, X[1][p])


# ---- for sweeps, tile by tile
@within_callers()
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return w as it is."""
    return w


@within_callers()
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return the sums themselves, of which few are touched by a row."""
    return sums


@within_callers()
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return that each tile is a run."""
    return 0


@within_callers()
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Do nothing: what was gathered is in the sums."""


@within_callers()
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return nothing, which `add_outer` needs."""
    return None


@within_callers()
def finish_gram(X, d, work, gram):  # type: ignore[no-untyped-def]
    """Do nothing: `add_outer` has added all to the Gram."""


@within_callers()
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the number of rows between a gather and a scatter.

    A few rows stay in the first-level cache; where vectors are long the answer is all rows. Two
    vectors larger than the cache evict each other at every turn, which costs more than to read the
    indices twice: 138 ms against 82 for 1,000,000 one-hot rows and columns (2 cores, 2026-11).
    """
    return TILE_ROWS if d <= NEAR else max(count, 1)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows [start, stop); no rows are prefetched."""
    for i in range(start, stop):
        if len(w) > NEAR and i + ROWS_AHEAD < stop:
            fetch_shared(X, i + ROWS_AHEAD, w)
        z[i - start] = dot(X, i, w, None) + b


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def forward_where(X, w, b, start, stop, curvature, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of rows that have curvature; those of others are zero."""
    for i in range(start, stop):
        if len(w) > NEAR and i + ROWS_AHEAD < stop and curvature[i + ROWS_AHEAD - start] != 0.0:
            fetch_shared(X, i + ROWS_AHEAD, w)
        z[i - start] = dot(X, i, w, None) + b if curvature[i - start] != 0.0 else 0.0


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`."""
    for t in range(count):
        if len(out) > NEAR and t + ROWS_AHEAD < count and slope[t + ROWS_AHEAD] != 0.0:
            fetch_shared(X, start + t + ROWS_AHEAD, out)
        if slope[t] != 0.0:
            axpy(X, start + t, slope[t], out)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out` (d,) or longer."""
    data, indices, indptr = X
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        places = indices[indptr[start + t] : indptr[start + t + 1]]
        if len(data) == 1:
            c *= np.float64(data[0]) * np.float64(data[0])
            for p in range(len(places)):
                out[np.uint64(places[p])] += c
        else:
            values = data[indptr[start + t] : indptr[start + t + 1]]
            for p in range(len(places)):
                out[np.uint64(places[p])] += c * (np.float64(values[p]) * np.float64(values[p]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] over one tile to the upper triangle of `gram`.

    Column indices must ascend within each row.
    """
    data, indices, indptr = X
    pattern = len(data) == 1
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        places = indices[indptr[start + t] : indptr[start + t + 1]]
        values = data if pattern else data[indptr[start + t] : indptr[start + t + 1]]
        for p in range(len(places)):
            row = gram[np.uint64(places[p])]
            a = c * (values[0] if pattern else values[p])
            later = places[p:]
            if pattern:
                for q in range(len(later)):
                    row[np.uint64(later[q])] += a * values[0]
            else:
                others = values[p:]
                for q in range(len(later)):
                    row[np.uint64(later[q])] += a * others[q]
            row[d] += a
        gram[d, d] += c


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    data, indices, indptr = X
    last, top = len(data) - 1, len(cross) - 1
    for i in range(n):
        k = np.int64(codes[lo + i])
        upper, lower = of[1, i], of[3, i]
        for p in range(indptr[lo + i], indptr[lo + i + 1]):
            j, x = np.uint64(indices[p]), np.float64(data[min(p, last)])
            if k + 1 < top:
                cross[k + 1, j] -= upper * x
            if k > 0:
                cross[k, j] -= lower * x


@within_callers()
def ask(X, first, count):  # type: ignore[no-untyped-def]
    """Do nothing: only indices tell where rows are."""


@compiled(nogil=True)
def fill_columns(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Columns = features of some rows of X, all before `stop`, and ones after the last feature."""
    data, indices, indptr = X
    last = len(data) - 1  # a pattern has one value, for all places
    columns[:d] = 0
    columns[d, : len(rows)] = 1
    for t in range(len(rows)):
        i = np.uint64(rows[t])
        for q in range(indptr[i], indptr[i + np.uint64(1)]):
            columns[np.uint64(indices[q]), t] = data[min(q, last)]


# ---- what is called
@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_by_code(X, values, codes, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1] times `values` of the rows [start, stop) to the rows of `out` that `codes` name.

    `out` is (codes, d + 1).
    """
    data, indices, indptr = X
    last = len(data) - 1
    for i in range(start, stop):
        to, s = out[codes[i]], values[i]
        for p in range(indptr[i], indptr[i + 1]):
            to[np.uint64(indices[p])] += s * data[min(p, last)]
        to[-1] += s


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest squared row norm over [start, stop), and the sum of all.

    The sum is not finite if a value or its square is not.
    """
    data, _, indptr = X
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = 0.0
        if len(data) == 1:
            norm = np.float64(data[0]) * np.float64(data[0]) * (indptr[i + 1] - indptr[i])
        else:
            values = data[indptr[i] : indptr[i + 1]]
            for p in range(len(values)):
                norm += np.float64(values[p]) * np.float64(values[p])
        total += norm
        largest = max(largest, norm)
    return largest, total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def spread(X, centre, scale, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add what `requests.Spread` asks for over [start, stop) to `sums` (2 d + 1,)."""
    data, indices, indptr = X
    d, last, whole = len(centre), len(data) - 1, squared_size(centre, scale)
    for i in range(start, stop):
        square = whole
        for p in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[p])
            x, c = data[min(p, last)], centre[j]
            sums[j] += x
            sums[np.uint64(d) + j] += ((x / scale) ** 2) ** 16
            square += ((x - c) / scale) ** 2 - (c / scale) ** 2
        square = max(square, 0.0) + CANCELS * (whole + 1.0) * (indptr[i + 1] - indptr[i] + 2)
        sums[-1] += square**16


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Do what `dense.add_moments` does."""
    data, indices, indptr = X
    weighted, last = len(weight) > 0, len(data) - 1
    total = 0.0
    for i in range(start, stop):
        s = weight[i] if weighted else 1.0
        total += s
        for p in range(indptr[i], indptr[i + 1]):
            value, j = np.float64(data[min(p, last)]), np.uint64(indices[p])
            sums[j] += s * value
            squares[j] += s * (value * value)
    sums[-1] += total


@compiled(nogil=True)
def count_signs(X, kinds, start, stop, above, below):  # type: ignore[no-untyped-def]
    """Do what `dense.count_signs` does."""
    data, indices, indptr = X
    last = len(data) - 1
    for i in range(start, stop):
        if kinds[i] < 0:
            continue
        k = np.uint64(kinds[i])
        for p in range(indptr[i], indptr[i + 1]):
            value, j = data[min(p, last)], np.uint64(indices[p])
            above[k, j] += value > 0
            below[k, j] += value < 0
