"""CPU kernels on dense rows (C order, float32 or float64): every function that touches a dense X is
here.

Each takes a run of rows [start, stop) and adds to float64 outputs that belong to the calling
thread, so that a caller may divide rows among threads as it likes. X is read once per call, tile by
tile: a tile of rows stays in the first-level cache between the forward product, the loss and the
backward product, each of which asks for half of the next tile. Products and sums are float64
whatever X is, but for the Gram's, which are summed in X's precision over the rows of one tile,
unless they are to be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels.chosen import within_callers
from daskglm.kernels.copies import add
from daskglm.kernels.few_rows import add_slopes_of, are_few, margins_of
from daskglm.kernels.gram import add_outer as add_outer
from daskglm.kernels.gram import finish_outer, gram_rows, scratch
from daskglm.kernels.records import read_only
from daskglm.kernels.simd import LANES, add_rows, dots, dots_alone, fetch, numbers, whole
from daskglm.kernels.simd_columns import PIECE_BYTES, gather_columns
from daskglm.kernels.size import Size
from daskglm.kernels.soft_threshold import soft
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Bytes of a tile, two of which share the first-level cache, unless LANES rows have more. 12 and 32
# KiB are slower by up to a fifth, 16 to 24 KiB are alike (5 to 2,000 features, one thread of an x86
# server with 48 KiB, 2026-11).
TILE_BYTES = 20 * 1024
# Bytes of rows that are converted to float64 at a time for an exact Gram, to stay in the
# second-level cache.
EXACT_BYTES = 1 << 20
# Most rows of a tile, whose margins and slopes stay in the first-level cache.
MOST_ROWS = 512
# Values of a row that are prefetched before its turn: all eight rows of a bucket are to fit the
# first-level cache.
AHEAD = 512
FLOAT_BYTES = 4
# Columns of float32 rows whose margins, where nothing else is done, are faster one row after
# another: more than the first, by a tenth to a fifth at 300 to 2,000; and at most the second, from
# which w fills the first-level cache, so that several rows share a read of it.
IN_ORDER, LONG = 256, 3072


def arrays_of(X: Any) -> Any:
    """Return rows of a block as functions here take them; None: they are of another storage."""
    return read_only(X) if isinstance(X, np.ndarray) else None


def take(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Copy some rows of a block, by their numbers."""
    if not X.size:
        return X[rows]
    # as bytes, or each number is copied by itself, and all of X first if it is not aligned, as
    # arrays that came in a message may be (1 ms, where X[rows] took 5, 2026-11-28)
    taken: np.ndarray = np.take(X.view(np.uint8), rows, axis=0).view(X.dtype)
    return taken


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join blocks' rows of one `kind`; they are copied."""
    return np.concatenate(parts)


def kind(X: np.ndarray) -> tuple[Any, ...]:
    """Return what blocks' rows must have in common to be `joined`: it can be compared."""
    return (X.dtype,)


def with_values(X: np.ndarray) -> np.ndarray:
    """Return rows of a block as an array or a SciPy matrix."""
    return X


def size_of(X: np.ndarray) -> Size:
    """Return what the summary of a block says of how its rows lie in memory."""
    return Size(X.size, X.nbytes, X.shape[1], False, float(np.finfo(X.dtype).eps) / 2.0)


def row_at(X: np.ndarray, share: float) -> int:
    """Return the row before which about this share of the work on rows lies."""
    return min(round(share * len(X)), len(X))


def row_values(X: np.ndarray) -> tuple[np.dtype, bool]:
    """Return the dtype that holds norms of rows, and whether these are worth keeping."""
    return X.dtype, True


def address_of(X: np.ndarray) -> int:
    """Return where rows lie in host memory."""
    return int(X.ctypes.data)


def exact_runs(X: np.ndarray, start: int, stop: int) -> Iterator[tuple[slice, Any]] | None:
    """Return the rows [start, stop) in float64, run by run; None: their Grams are so anyhow."""
    if X.dtype == np.float64:
        return None
    many = max(EXACT_BYTES // (8 * max(X.shape[1], 1)), 1)
    runs = (slice(lo, min(lo + many, stop)) for lo in range(start, stop, many))
    return ((run, read_only(X[run].astype(np.float64))) for run in runs)


class ColumnsCopy:
    """A copy of some columns, made by `count` of all rows, `allocate`, and `fill` of all rows.

    Runs of rows may be counted and filled by several threads; here nothing need be counted.

    Parameters
    ----------
    raw : (n, d) array
    d : int
        Number of all columns.
    columns : (k,) int64 array
        Ascending.
    pattern : bool
        Whether sparse rows have one value for all places.

    Attributes
    ----------
    out : (n, k) array
        Of the same dtype, as functions here take it.
    """

    def __init__(self, raw: np.ndarray, d: int, columns: np.ndarray, *, pattern: bool) -> None:
        self.raw, self.columns = raw, read_only(columns)
        self.out = np.empty((0, len(columns)), raw.dtype)

    def count(self, start: int, stop: int) -> None:
        """Do nothing: all values stay."""

    def allocate(self) -> None:
        """Make room for the copy."""
        self.out = np.empty((len(self.raw), len(self.columns)), self.raw.dtype)

    def fill(self, start: int, stop: int) -> None:
        """Copy the rows [start, stop)."""
        take_columns(self.raw, self.columns, start, stop, self.out)

    @property
    def X(self) -> np.ndarray:
        """The copy as rows of a block."""
        return self.out


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    return len(X)


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows [start, stop), as functions here take them."""
    return X[start:stop]


def matrix_of(X: Any, d: int) -> np.ndarray:
    """Return rows of d features as a float64 matrix."""
    return np.asarray(X, np.float64)


def product_with(X: Any, d: int, V: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """Return a function of start and stop that multiplies these rows by V (d, K): (n, K)."""
    return lambda start, stop: matrix_of(X[start:stop], d) @ V


@within_callers()
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the rows of a tile; `formed` says whether a Gram is."""
    return gram_rows(X) if formed else _rows(X)


@within_callers()
def _rows(X):  # type: ignore[no-untyped-def]
    rows = min(max(TILE_BYTES // max(X.shape[1] * X.itemsize, 1), LANES), MOST_ROWS)
    return rows // LANES * LANES


@within_callers()
def _vectors(d):  # type: ignore[no-untyped-def]
    return (d + LANES - 1) // LANES


@within_callers()
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return w with zeros up to whole vectors, as `forward` takes it."""
    return _padded(w)


@within_callers()
def _padded(w):  # type: ignore[no-untyped-def]
    wide = np.zeros(_vectors(len(w)) * LANES)
    add(w, len(w), wide)
    return wide


@within_callers()
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return where `backward` adds up a run of rows."""
    return np.zeros(_vectors(d) * LANES)


@within_callers()
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return the rows of a run: the rounding error of a sum grows with its length."""
    return SUMMED_ROWS


@within_callers()
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Add what a run gathered to the sums; the next begins at zero."""
    add(gradient, d, sums)
    gradient[:] = 0.0


@within_callers()
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in, on `count` rows, `many` of them at a time."""
    return scratch(X, many if formed else 0)


@within_callers()
def finish_gram(X, d, work, gram):  # type: ignore[no-untyped-def]
    """Add the last rows to the Gram."""
    finish_outer(d, work, gram)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows [start, stop) with padded w.

    Meanwhile half of as many rows from `ahead` on are prefetched; if there are none, all of those
    that come next here.
    """
    d = X.shape[1]
    vectors = _vectors(d)
    alone = ahead > len(X)
    in_order = alone and X.itemsize == FLOAT_BYTES and IN_ORDER < d <= LONG
    packed = 0 if in_order else whole(X, start, stop, len(w))
    for t in range(0, packed, LANES):
        at = (start + t) * d
        if alone:
            dots_alone(X, at, d, w, vectors, b, z, t, at + LANES * d)
        else:
            dots(X, at, d, w, vectors, b, z, t, (ahead + t // 2) * d)
    for i in range(start + packed, stop):
        x = X[i]
        total = 0.0
        for j in range(d):
            total += w[j] * x[j]
        z[i - start] = total + b


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`, which is padded.

    Meanwhile half of as many rows from `ahead` on are prefetched: the half that `forward` has not
    asked for.
    """
    d = X.shape[1]
    vectors = _vectors(d)
    packed = whole(X, start, start + count, len(out))
    ahead += packed // 2
    for t in range(0, packed, LANES):
        add_rows(X, (start + t) * d, d, slope, t, out, vectors, (ahead + t // 2) * d)
    for t in range(packed, count):
        x, s = X[start + t], slope[t]
        for j in range(d):
            out[j] += s * x[j]


@within_callers()
def forward_where(X, w, b, start, stop, curvature, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of those rows of [start, stop) that have curvature; others may be zero.

    Where these are few the rest is not read.
    """
    if are_few(curvature):
        margins_of(X, w, b, start, curvature, z)
    else:
        forward(X, w, b, start, stop, z, ahead)


@within_callers()
def backward_where(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Do as `backward`; where slopes other than zero are few the rest of the rows is not read."""
    if are_few(slope[:count]):
        add_slopes_of(X, slope[:count], start, out)
    else:
        backward(X, slope, start, count, out, ahead)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out` (d,) or longer."""
    for t in range(count):
        x, c = X[start + t], curvature[t]
        for j in range(len(x)):
            out[j] += c * (np.float64(x[j]) * np.float64(x[j]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    last = len(cross) - 1
    for i in range(n):
        x, k = X[lo + i], np.int64(codes[lo + i])
        if k + 1 < last:
            row, c = cross[k + 1], of[1, i]
            for j in range(len(x)):
                row[j] -= c * x[j]
        if k > 0:
            row, c = cross[k], of[3, i]
            for j in range(len(x)):
                row[j] -= c * x[j]


@within_callers()
def ask(X, first, count):  # type: ignore[no-untyped-def]
    """Prefetch `count` rows from the `first` on: in another order no processor foresees them."""
    flat, d = X.reshape(X.size), X.shape[1]
    for at in range(first * d, min((first + count) * d, X.size), numbers(X, LINE_BYTES)):
        fetch(flat, at)


@compiled(nogil=True)
def fill_columns(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Columns = features of some rows of X, all before `stop`, and ones after the last feature."""
    n, gap = len(rows), columns.shape[1]
    piece = numbers(X, PIECE_BYTES)
    flat, to = X.reshape(X.size), columns.reshape(columns.size)
    if (stop - 1) * d + (d + piece - 1) // piece * piece <= X.size:
        for p in range(0, d, piece):
            gather_columns(flat, p, d, rows, n // LANES, to, p * gap, gap)
    else:  # pieces of the last rows would reach past the end
        for j in range(d):
            for t in range(n):
                columns[j, t] = X[rows[t], j]
    columns[d, :n] = 1


# ---- one row, or a bucket of them, for coordinate ascent
@within_callers(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)
def dot(X, i, v, threshold):  # type: ignore[no-untyped-def]
    """Return the product of row i with v, whose entries move towards zero by a threshold."""
    x = X[i]
    total = 0.0
    for j in range(len(x)):
        total += x[j] * soft(v[j], threshold)
    return total


@within_callers(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)
def axpy(X, i, s, v):  # type: ignore[no-untyped-def]
    """Add s times row i to v."""
    x = X[i]
    for j in range(len(x)):
        v[j] += s * x[j]


@within_callers(fastmath={"contract", "reassoc", "nsz"}, forceinline=True)
def squared_norm(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""
    x = X[i]
    total = 0.0
    for j in range(len(x)):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@within_callers()
def fetch_places(X, i, stop):  # type: ignore[no-untyped-def]
    """Do nothing: all rows are as long as each other."""


@within_callers(forceinline=True)
def fetch_rows(X, i, stop):  # type: ignore[no-untyped-def]
    """Prefetch the beginning of the rows [i, stop)."""
    d = X.shape[1]
    for p in range(i * d, min(stop * d, i * d + AHEAD), numbers(X, LINE_BYTES)):
        fetch(X, p)


@within_callers()
def fetch_shared(X, i, v):  # type: ignore[no-untyped-def]
    """Do nothing: row i meets v in order."""


# ---- what is called
@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_by_code(X, values, codes, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1] times `values` of the rows [start, stop) to the rows of `out` that `codes` name.

    `out` is (codes, d + 1).
    """
    d = X.shape[1]
    for i in range(start, stop):
        x, to, s = X[i], out[codes[i]], values[i]
        for j in range(d):
            to[j] += s * x[j]
        to[d] += s


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest squared row norm over [start, stop), and the sum of all.

    The sum is not finite if a value or its square is not.
    """
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = squared_norm(X, i)
        total += norm
        largest = max(largest, norm)
    return largest, total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def spread(X, centre, scale, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add what `requests.Spread` asks for over [start, stop) to `sums` (2 d + 1,)."""
    d = X.shape[1]
    for i in range(start, stop):
        square = 0.0
        x = X[i]
        for j in range(d):
            sums[j] += x[j]
            sums[d + j] += ((x[j] / scale) ** 2) ** 16
            square += ((x[j] - centre[j]) / scale) ** 2
        sums[2 * d] += square**16


@compiled(nogil=True)
def take_columns(X, columns, start, stop, out):  # type: ignore[no-untyped-def]
    """Copy the columns of these numbers (k,), rows [start, stop), to those rows of `out` (n, k)."""
    for i in range(start, stop):
        x, to = X[i], out[i]
        for j in range(len(columns)):
            to[j] = x[np.uint64(columns[j])]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Add [X 1]' s over the rows [start, stop) to `sums` (d + 1,), X.^2' s to `squares` (d + 1,).

    `weight` has s, (n,), or is empty, which means ones.
    """
    d = X.shape[1]
    weighted = len(weight) > 0
    firsts, seconds = np.empty(d), np.empty(d)
    # long sums in runs: their rounding error grows with the length of a run
    for lo in range(start, stop, SUMMED_ROWS):
        hi = min(lo + SUMMED_ROWS, stop)
        firsts[:] = 0.0
        seconds[:] = 0.0
        total = 0.0
        for i in range(lo, hi):
            x = X[i]
            s = weight[i] if weighted else 1.0
            total += s
            for j in range(d):
                value = np.float64(x[j])
                firsts[j] += s * value
                seconds[j] += s * (value * value)
        for j in range(d):
            sums[j] += firsts[j]
            squares[j] += seconds[j]
        sums[d] += total


@compiled(nogil=True)
def count_signs(X, kinds, start, stop, above, below):  # type: ignore[no-untyped-def]
    """Count the rows [start, stop) of each kind with values above zero, and below it.

    `kinds` (n,) has the kind of each row, below zero for those that do not count; `above` and
    `below` are (kinds, d).
    """
    for i in range(start, stop):
        if kinds[i] < 0:
            continue
        x, k = X[i], np.uint64(kinds[i])
        for j in range(X.shape[1]):
            above[k, j] += x[j] > 0
            below[k, j] += x[j] < 0
