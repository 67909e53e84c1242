"""Coded rows whose Gram is summed by blocks: one code column of ones has a diagonal block.

X is the tuple of `coded` with two numbers more: which code column that is, and its first
coefficient. The Gram is an array (q + m, q), for the m coefficients of the column and q - 1 others
with the constant: first the upper triangle of the Gram of these, then for each of the m its
products with them. The last of those products, with the constant, is its own square: a row has one
of the m at most, and a value of one there. All else is `coded`'s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

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
from daskglm.kernels.coded import fetch_rows as fetch_rows
from daskglm.kernels.coded import fetch_shared as fetch_shared
from daskglm.kernels.coded import fill_columns as fill_columns
from daskglm.kernels.coded import flush as flush
from daskglm.kernels.coded import forward as forward
from daskglm.kernels.coded import gathered as gathered
from daskglm.kernels.coded import prepared as prepared
from daskglm.kernels.coded import row_at as row_at
from daskglm.kernels.coded import rows_between as rows_between
from daskglm.kernels.coded import run_rows as run_rows
from daskglm.kernels.coded import squared_norm as squared_norm
from daskglm.kernels.coded import tile_rows as tile_rows
from daskglm.kernels.coded_columns import factor_ranges
from daskglm.kernels.coded_csr import level_of
from daskglm.kernels.coded_gram import longest
from daskglm.kernels.gram import add_outer as dense_add_outer
from daskglm.kernels.gram import scratch
from daskglm.system.compiled import compiled


def has_type(kind: Any) -> bool:
    """Return whether a numba type is that of these rows."""
    return isinstance(kind, types.BaseTuple) and len(kind) == PARTS + 2


def arrays_of(X: Any) -> None:
    """Return None: no block has such rows, they are made by `eliminating`."""
    return


def eliminating(X: Any, block: tuple[int, int]) -> Any:
    """Return rows of `coded` as rows whose Gram has these coefficients in a diagonal block.

    Raises
    ------
    ValueError
        If they are not those of a code column of ones.
    """
    if not isinstance(X, tuple) or len(X) != PARTS:
        raise ValueError(f"only rows of codes have a Gram by blocks, and X is a {type(X).__name__}")
    known = factor_ranges(*X[4:8])
    if block not in known:
        raise ValueError(f"the coefficients {block} are not those of a column of codes: {known}")
    return *X, known.index(block), block[0]


@compiled(nogil=True)
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in: values of a row, and the Gram of numbers."""
    floats = X[3]
    k = floats.shape[1]
    side = (k + 4) // 4 * 4 if formed and k > 0 else 0
    most = longest(X) if formed else 0
    own = scratch(floats, many if side > 0 else 0), np.zeros((side, side))
    return np.empty(most, np.int64), np.empty(most), own


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] over one tile to `gram` and to sums that `finish_gram` adds to it."""
    floats, first, indptr, columns, values, ranks, width, column, begin = X[3:]
    places, entries, (own, numbers) = work
    k, q = floats.shape[1], gram.shape[1]
    m = gram.shape[0] - q
    p, numbers_at = len(first), width - m
    order = np.empty(p, np.int64)
    for j in range(p):
        order[ranks[j]] = j
    if k > 0:
        dense_add_outer(floats, curvature, start, count, k, own, numbers)
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        x, stored, at = floats[start + t], 0, -1
        for r in range(p):
            j = order[r]
            level = level_of(X, start + t, j)
            for s in range(indptr[level], indptr[level + np.uint64(1)]):
                place = columns[s]
                if j == column:
                    at = q + place - begin
                else:
                    places[stored] = place if place < begin else place - m
                    entries[stored] = values[s]
                    stored += 1
        if at >= 0:
            row = gram[np.uint64(at)]
            for s in range(stored):
                row[np.uint64(places[s])] += c * entries[s]
            for j in range(k):
                row[numbers_at + j] += c * x[j]
            row[q - 1] += c
        for s in range(stored):
            row, a = gram[np.uint64(places[s])], c * entries[s]
            for r in range(s, stored):
                row[np.uint64(places[r])] += a * entries[r]
            for j in range(k):
                row[numbers_at + j] += a * x[j]
            row[q - 1] += a
        gram[q - 1, q - 1] += c


@compiled(nogil=True)
def finish_gram(X, d, work, gram):  # type: ignore[no-untyped-def]
    """Add to `gram` the Gram of numbers, which `add_outer` has summed beside it."""
    numbers, k = work[2][1], X[3].shape[1]
    at = gram.shape[1] - 1 - k
    for i in range(k):
        for j in range(i, k + 1):
            gram[at + i, at + j] += numbers[i, j]
