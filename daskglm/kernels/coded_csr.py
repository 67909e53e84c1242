"""Coded rows as sparse ones: whole blocks, and run by run for sums that a fit asks for once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded_rows import Coded
from daskglm.kernels.csr import add_by_code as csr_add_by_code
from daskglm.kernels.records import read_only
from daskglm.system.compiled import compiled

# Bytes of a run of sparse rows. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Bytes of a stored value, with its index.
STORED_BYTES = 12
# Rows of a run, at least.
FEWEST = 64


@within_callers(forceinline=True)
def level_of(X, i, j):  # type: ignore[no-untyped-def]
    """Return the level of row i in code column j."""
    at, p = np.uint64(X[4][j]), X[0].shape[1]
    if j < p:
        return at + np.uint64(X[0][i, np.uint64(j)])
    q = p + X[1].shape[1]
    if j < q:
        return at + np.uint64(X[1][i, np.uint64(j - p)])
    return at + np.uint64(X[2][i, np.uint64(j - q)])


@compiled(nogil=True)
def count_values(X, start, stop, indptr):  # type: ignore[no-untyped-def]
    """Set `indptr` (rows + 1,) to where the rows [start, stop) begin as sparse ones."""
    first, starts, k = X[4], X[5], X[3].shape[1]
    indptr[0] = 0
    for i in range(start, stop):
        stored = k
        for j in range(len(first)):
            level = level_of(X, i, j)
            stored += starts[level + np.uint64(1)] - starts[level]
        indptr[i - start + 1] = indptr[i - start] + stored


@compiled(nogil=True)
def expand(X, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the rows [start, stop) as sparse ones to `out` (data, indices, indptr).

    `indptr` is known; indices ascend.
    """
    floats, first, starts, columns, values, ranks, width = X[3:]
    data, indices, indptr = out
    order = np.empty(len(first), np.int64)
    for j in range(len(first)):
        order[ranks[j]] = j
    for i in range(start, stop):
        at = indptr[i - start]
        for r in range(len(first)):
            level = level_of(X, i, order[r])
            for q in range(starts[level], starts[level + np.uint64(1)]):
                data[at] = values[q]
                indices[at] = columns[q]
                at += 1
        for j in range(floats.shape[1]):
            data[at] = floats[i, j]
            indices[at] = width + j
            at += 1


def as_csr(X: Any, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows [start, stop) as data, indices and indptr; indices are int32 if they can."""
    indptr = np.empty(stop - start + 1, np.int64)
    count_values(X, start, stop, indptr)
    stored = int(indptr[-1])
    small = max(stored, X[9] + X[3].shape[1]) < 2**31
    data, indices = np.empty(stored), np.empty(stored, np.int32 if small else np.int64)
    expand(X, start, stop, (data, indices, indptr))
    return read_only(data), read_only(indices), read_only(indptr.astype(indices.dtype))


def matrix_of(X: Any, d: int) -> sp.csr_matrix:
    """Return rows of d features as a float64 matrix."""
    n = len(X[3])
    found = sp.csr_matrix((n, d))
    found.data, found.indices, found.indptr = (part.copy() for part in as_csr(X, 0, n))
    return found


def to_csr(X: Coded) -> sp.csr_matrix:
    """Return the rows of a block as a float64 CSR matrix."""
    parts = *map(read_only, (*X.parts, *X.tables[:5])), int(X.tables.width)
    return matrix_of(parts, X.shape[1])


def _runs(X: Any, start: int, stop: int) -> Iterator[tuple[slice, Any]]:
    """Return the rows [start, stop) as sparse ones, run by run."""
    if stop <= start:
        return
    a_row = len(X[4]) + X[3].shape[1]
    many = max(RUN_BYTES // (STORED_BYTES * max(a_row, 1)), FEWEST)
    for lo in range(start, stop, many):
        run = slice(lo, min(lo + many, stop))
        data, indices, indptr = as_csr(X, run.start, run.stop)
        if len(data) == 1:  # which would stand for a pattern
            data, indices = (read_only(np.append(part, part)) for part in (data, indices))
        yield run, (data, indices, indptr)


def add_by_code(X: Any, values: Any, codes: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1] times `values` to the rows of `out` (codes, d + 1) that `codes` name."""
    for run, rows in _runs(X, start, stop):
        csr_add_by_code(rows, values[run], codes[run], 0, run.stop - run.start, out)
