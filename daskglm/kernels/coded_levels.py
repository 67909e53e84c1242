"""Gather and scatter of coded rows by level: products of the tables, and sums that go to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.kernels.chosen import within_callers
from daskglm.system.compiled import compiled


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def by_level(X, w):  # type: ignore[no-untyped-def]
    """Return the products (levels,) of the tables with w."""
    indptr, columns, values = X[5], X[6], X[7]
    out = np.empty(len(indptr) - 1)
    for level in range(len(out)):
        total = 0.0
        for q in range(indptr[level], indptr[level + 1]):
            total += values[q] * w[np.uint64(columns[q])]
        out[level] = total
    return out


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def from_levels(X, levels, out):  # type: ignore[no-untyped-def]
    """Add the tables' transpose times sums by level to `out`; they begin again at zero."""
    indptr, columns, values = X[5], X[6], X[7]
    for level in range(len(levels)):
        total = levels[level]
        for q in range(indptr[level], indptr[level + 1]):
            out[np.uint64(columns[q])] += values[q] * total
        levels[level] = 0.0


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _gather(codes, first, u, start, stop, z):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        row = codes[i]
        total = 0.0
        for j in range(len(first)):
            total += u[np.uint64(first[j]) + np.uint64(row[j])]
        z[i - start] += total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _scatter(codes, first, slope, start, count, out):  # type: ignore[no-untyped-def]
    for t in range(count):
        s = slope[t]
        if s == 0.0:
            continue
        row = codes[start + t]
        for j in range(len(first)):
            out[np.uint64(first[j]) + np.uint64(row[j])] += s


@within_callers()
def add_products(X, u, start, stop, z):  # type: ignore[no-untyped-def]
    """Add what u (levels,) has of the levels of the rows [start, stop) to z (stop - start,)."""
    narrow, middle, wide, _, first = X[:5]
    p, q = narrow.shape[1], narrow.shape[1] + middle.shape[1]
    if p > 0:
        _gather(narrow, first[:p], u, start, stop, z)
    if q > p:
        _gather(middle, first[p:q], u, start, stop, z)
    if len(first) > q:
        _gather(wide, first[q:], u, start, stop, z)


@within_callers()
def add_slopes(X, slope, start, count, levels):  # type: ignore[no-untyped-def]
    """Add slopes (count,) of the rows from `start` on to the sums of their levels."""
    narrow, middle, wide, _, first = X[:5]
    p, q = narrow.shape[1], narrow.shape[1] + middle.shape[1]
    if p > 0:
        _scatter(narrow, first[:p], slope, start, count, levels)
    if q > p:
        _scatter(middle, first[p:q], slope, start, count, levels)
    if len(first) > q:
        _scatter(wide, first[q:], slope, start, count, levels)


# ---- several products at once
@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _gather_rows(codes, first, levels, start, found):  # type: ignore[no-untyped-def]
    for t in range(len(found)):
        row, to = codes[start + t], found[t]
        for j in range(len(first)):
            own = levels[np.uint64(first[j]) + np.uint64(row[j])]
            for r in range(len(to)):
                to[r] += own[r]


def product_with(X: Any, d: int, V: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """Return a function of start and stop that multiplies these rows by V (d, K): (n, K).

    The tables meet V once.
    """
    narrow, middle, wide, floats, first, indptr, columns, values, _, width = X[:10]
    of_levels = sp.csr_matrix((values, columns, indptr), shape=(len(indptr) - 1, width))
    levels, numbers = np.ascontiguousarray(of_levels @ V[:width]), V[width:]
    ends = np.cumsum([part.shape[1] for part in X[:3]])
    kinds = list(zip((narrow, middle, wide), np.split(first, ends[:-1]), strict=True))

    def products(start: int, stop: int) -> np.ndarray:
        found: np.ndarray = floats[start:stop] @ numbers
        for codes, begins in kinds:
            if len(begins):
                _gather_rows(codes, begins, levels, start, found)
        return found

    return products
