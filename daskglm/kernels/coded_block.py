"""Coded rows whose Gram is summed by blocks: levels of some code columns of ones are kept apart.

X is the tuple of `coded` with eight parts more, which `eliminating` makes of `LevelBlocks`. With
q - 1 coefficients that are not kept apart, the Gram is an array of rows of q sums. The first q rows
are the upper triangle of the Gram of these and the constant. Then there is a row for each level of
each factor, of its products with them; the last, with the constant, is its own square: a row of X
has one of the levels at most, and a value of one there. After these the sums of the pairs of levels
that occur follow, one after another. All else is `coded`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from daskglm.core.level_blocks import LevelBlocks, PairKeys, couples, distinct
from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded import PARTS
from daskglm.kernels.coded import ColumnsCopy as ColumnsCopy
from daskglm.kernels.coded import add_by_code as add_by_code
from daskglm.kernels.coded import add_cross as add_cross
from daskglm.kernels.coded import add_moments as add_moments
from daskglm.kernels.coded import add_squares as add_squares
from daskglm.kernels.coded import ask as ask
from daskglm.kernels.coded import axpy as axpy
from daskglm.kernels.coded import backward as backward
from daskglm.kernels.coded import count_rows as count_rows
from daskglm.kernels.coded import count_signs as count_signs
from daskglm.kernels.coded import dot as dot
from daskglm.kernels.coded import exact_runs as exact_runs
from daskglm.kernels.coded import fetch_places as fetch_places
from daskglm.kernels.coded import fetch_rows as fetch_rows
from daskglm.kernels.coded import fetch_shared as fetch_shared
from daskglm.kernels.coded import fill_columns as fill_columns
from daskglm.kernels.coded import flush as flush
from daskglm.kernels.coded import forward as forward
from daskglm.kernels.coded import gathered as gathered
from daskglm.kernels.coded import prepared as prepared
from daskglm.kernels.coded import product_with as product_with
from daskglm.kernels.coded import row_at as row_at
from daskglm.kernels.coded import rows_between as rows_between
from daskglm.kernels.coded import run_rows as run_rows
from daskglm.kernels.coded import squared_norm as squared_norm
from daskglm.kernels.coded import tile_rows as tile_rows
from daskglm.kernels.coded_columns import factor_ranges
from daskglm.kernels.coded_csr import level_of
from daskglm.kernels.coded_gram import longest
from daskglm.kernels.gram import add_outer as dense_add_outer
from daskglm.kernels.gram import finish_outer, scratch
from daskglm.kernels.records import read_only
from daskglm.kernels.simd import fetch
from daskglm.system.compiled import compiled

# Rows of a run in which pairs are looked for: some MiB. Chosen.
RUN_ROWS = 1 << 18
# Stands for a pair of levels that is not among those that were found.
MISSING = -2
# Parts of X beside those of `coded`.
MORE = 8


# Rows before its turn at which the sums of a row's level are prefetched, and float64 numbers of a
# cache line. Chosen: eight rows take longer than memory does.
AHEAD, LINE = 8, 8


def has_type(kind: Any) -> bool:
    """Return whether a numba type is that of these rows."""
    return isinstance(kind, types.BaseTuple) and len(kind) == PARTS + MORE


def arrays_of(X: Any) -> None:
    """Return None: no block has such rows, they are made by `eliminating`."""
    return


def codes_of(X: Any, factors: Sequence[tuple[int, int]]) -> list[int]:
    """Return the code columns of ones that have these coefficients.

    Raises
    ------
    ValueError
        If there is none.
    """
    if not isinstance(X, tuple) or len(X) != PARTS:
        raise ValueError(f"only rows of codes have a Gram by blocks, and X is a {type(X).__name__}")
    known = factor_ranges(*X[4:8])
    for each in factors:
        if each not in known:
            raise ValueError(f"the coefficients {each} are not those of a column of codes: {known}")
    return [known.index(each) for each in factors]


def coefficients_of(X: Any) -> np.ndarray:
    """Return the first coefficient of each level of all code columns, or -1: it has none."""
    indptr, columns = X[5:7]
    found: np.ndarray = np.where(np.diff(indptr) > 0, np.append(columns, 0)[indptr[:-1]], -1)
    return found


def pair_keys(
    X: Any,
    weight: np.ndarray | None,
    factors: Sequence[tuple[int, int]],
    start: int,
    stop: int,
) -> PairKeys:
    """Return the pairs of levels of two of the factors that occur in the rows [start, stop).

    Levels without one of the other factor count in rows that weigh something.
    """
    first = X[4]
    codes = [part[:, j] for part in X[:3] for j in range(part.shape[1])]
    known = coefficients_of(X)
    begins = zip(codes_of(X, factors), factors, strict=True)
    of = [(j, np.where(known >= 0, known - begin, -1)) for j, (begin, _) in begins]
    found: list[list[np.ndarray]] = [[] for _ in couples(factors)]
    for lo in range(start, stop, RUN_ROWS):
        run = slice(lo, min(lo + RUN_ROWS, stop))
        levels = [own[first[j] + codes[j][run].astype(np.int64)] for j, own in of]
        for keys, (a, b) in zip(found, couples(factors), strict=True):
            m, q = (factors[c][1] - factors[c][0] for c in (a, b))
            idle = np.zeros(len(levels[a]), bool) if weight is None else ~(weight[run] > 0.0)
            counts = (levels[a] >= 0) & (levels[b] >= 0) | ~idle
            one, two = (np.where(levels[c] < 0, n, levels[c]) for c, n in ((a, m), (b, q)))
            keys.append(distinct((2 * (one * (q + 1) + two) + idle)[counts]))
    empty = np.empty(0, np.int64)
    return PairKeys(tuple(distinct(np.concatenate([empty, *keys])) for keys in found))


def eliminating(X: Any, blocks: LevelBlocks) -> Any:
    """Return rows of `coded` as rows whose Gram has the levels of these factors apart.

    The parts that are added: the factor of each code column, or -1; the row of the Gram where the
    levels of each begin; which of its levels each level of the code column is, or -1; the column of
    each coefficient that is not apart; where in `indptr` the pairs of two factors begin; `indptr`
    and `indices` of all pairs; where in the Gram their sums begin.
    """
    at = codes_of(X, blocks.factors)
    number = np.full(len(X[4]), -1, np.int64)
    number[at] = np.arange(len(at))
    width, k = X[9], X[3].shape[1]
    known, own = coefficients_of(X), np.full(len(X[5]) - 1, -1, np.int32)
    apart = np.zeros(width, bool)
    for start, stop in blocks.factors:
        apart[start:stop] = True
        inside = (known >= start) & (known < stop)
        own[inside] = known[inside] - start
    places = np.cumsum(~apart) - 1
    q = width - int(apart.sum()) + k + 1
    *tops, top = q + np.cumsum([0, *blocks.sizes])
    spans = np.zeros((len(at), len(at)), np.int64)
    indptr, stored, begin = [np.empty(0, np.int64)], 0, 0
    for (a, b), pairs in zip(couples(blocks.factors), blocks.pairs, strict=True):
        spans[a, b] = begin
        indptr.append(pairs.indptr + stored)
        begin, stored = begin + len(pairs.indptr), stored + len(pairs.indices)
    indices = np.concatenate([np.empty(0, np.int32), *(each.indices for each in blocks.pairs)])
    parts = number, np.array(tops), own, places, spans, np.concatenate(indptr), indices
    return *X, *map(read_only, parts), int(top) * q


@compiled(nogil=True)
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in.

    That is: values of a row; levels of a tile, and where their pairs are; the Gram of numbers.
    """
    floats, tops = X[3], X[11]
    k, b, rows = floats.shape[1], len(tops), many if formed else 0
    side = (k + 4) // 4 * 4 if formed and k > 0 else 0
    most = longest(X) if formed else 0
    own = scratch(floats, many if side > 0 else 0), np.zeros((side, side))
    of_tile = np.empty((b, rows), np.int32), np.empty((b * (b - 1) // 2, rows), np.int64)
    return np.empty(most, np.int64), np.empty(most), of_tile, own


@within_callers()
def slot_of(indices, lo, hi, level):  # type: ignore[no-untyped-def]
    """Return where a level is in the ascending `indices[lo:hi]`; MISSING: it is not there.

    No jump depends on what is read: searches of rows one after another wait together.
    """
    size = hi - lo
    while size > 1:
        half = size >> 1
        lo += half if indices[np.uint64(lo + half)] <= level else 0
        size -= half
    return lo if size > 0 and indices[np.uint64(lo)] == level else MISSING


@compiled(nogil=True)
def find_levels(X, start, count, of_tile):  # type: ignore[no-untyped-def]
    """Find levels and slots of the rows of a tile; those of a level that is not apart are -1."""
    number, _, own, _, spans, starts, indices, _ = X[10:]
    levels, slots = of_tile
    for j in range(len(number)):
        if number[j] >= 0:
            to = levels[number[j]]
            for t in range(count):
                to[t] = own[level_of(X, start + t, j)]
    pair = 0
    for a in range(len(levels)):
        for b in range(a + 1, len(levels)):
            one, other, to, span = levels[a], levels[b], slots[pair], spans[a, b]
            for t in range(count):
                to[t] = -1
                if one[t] >= 0 and other[t] >= 0:
                    at = np.uint64(span + one[t])
                    to[t] = slot_of(indices, starts[at], starts[at + np.uint64(1)], other[t])
            pair += 1


@within_callers()
def add_from(s, c, places, entries, stored, x, sums):  # type: ignore[no-untyped-def]
    """Add c times the values of a row from number s on, of its numbers, and a one."""
    for r in range(s, stored):
        sums[np.uint64(places[r])] += c * entries[r]
    at = len(sums) - 1 - len(x)
    for j in range(len(x)):
        sums[at + j] += c * x[j]
    sums[len(sums) - 1] += c


@within_callers()
def fetch_row(flat, row, q):  # type: ignore[no-untyped-def]
    """Ask for the q sums of a row of the Gram, which do not begin with a line."""
    begin = row * q
    for line in range(begin, begin + q, LINE):
        fetch(flat, line)
    fetch(flat, begin + q - 1)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] over one tile to `gram` and to sums that `finish_gram` adds to it.

    A pair of levels that was not found when the pairs were makes the last entry nan.
    """
    floats, first, indptr, columns, values, ranks, _ = X[3:10]
    number, tops, _, at, _, _, _, slots_at = X[10:]
    places, entries, of_tile, (own, numbers) = work
    levels, slots = of_tile
    k, q, p = floats.shape[1], gram.shape[1], len(first)
    flat = gram.reshape(gram.size)
    order = np.empty(p, np.int64)
    for j in range(p):
        order[ranks[j]] = j
    find_levels(X, start, count, of_tile)
    if k > 0:
        dense_add_outer(floats, curvature, start, count, k, own, numbers)
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        if t + AHEAD < count:
            if levels[0, t + AHEAD] >= 0:
                fetch_row(flat, tops[0] + levels[0, t + AHEAD], q)
            for pair in range(len(slots)):
                fetch(flat, slots_at + max(slots[pair, t + AHEAD], 0))
        x, stored = floats[start + t], 0
        for r in range(p):
            if number[order[r]] >= 0:
                continue
            one = level_of(X, start + t, order[r])
            for s in range(indptr[one], indptr[one + np.uint64(1)]):
                places[stored] = at[np.uint64(columns[s])]
                entries[stored] = values[s]
                stored += 1
        for a in range(len(levels)):
            if levels[a, t] >= 0:
                row = gram[np.uint64(tops[a] + levels[a, t])]
                add_from(0, c, places, entries, stored, x, row)
        for pair in range(len(slots)):
            slot = slots[pair, t]
            if slot >= 0:
                flat[np.uint64(slots_at + slot)] += c
            elif slot == MISSING:
                gram[q - 1, q - 1] = np.nan
        for s in range(stored):
            add_from(s, c * entries[s], places, entries, stored, x, gram[np.uint64(places[s])])
        gram[q - 1, q - 1] += c


@compiled(nogil=True)
def finish_gram(X, d, work, gram):  # type: ignore[no-untyped-def]
    """Add to `gram` the Gram of numbers, which `add_outer` has summed beside it."""
    (own, numbers), k = work[3], X[3].shape[1]
    finish_outer(k, own, numbers)
    at = gram.shape[1] - 1 - k
    for i in range(k):
        for j in range(i, k + 1):
            gram[at + i, at + j] += numbers[i, j]
