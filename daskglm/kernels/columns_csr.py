"""Copy some columns of sparse rows in host memory, run of rows by run of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.kernels.pattern import Pattern
from daskglm.kernels.records import NOTHING, read_only
from daskglm.system.compiled import compiled

LARGEST_INT32 = np.iinfo(np.int32).max


@compiled(nogil=True)
def count_kept(X, place, start, stop, counts):  # type: ignore[no-untyped-def]
    """Set `counts` (n,) to the stored values of the rows [start, stop) that stay."""
    _, indices, indptr = X
    for i in range(start, stop):
        places = indices[indptr[i] : indptr[i + 1]]
        kept = 0
        for p in range(len(places)):
            kept += place[np.uint64(places[p])] >= 0
        counts[i] = kept


@compiled(nogil=True)
def copy_kept(X, place, start, stop, out):  # type: ignore[no-untyped-def]
    """Copy what stays of the rows [start, stop) to `out` (data, indices, indptr).

    Indices keep their order. An empty data means that there are no values to copy: those of a
    pattern are all equal.
    """
    data, indices, indptr = X
    values, columns, starts = out
    valued = len(values) > 0
    for i in range(start, stop):
        at, p = starts[i], indptr[i]
        # every value is written, and the next one over those that go: whether a column stays is a
        # guess that processors lose half of the time, whether a row is done is not
        while at < starts[i + 1]:
            column = place[np.uint64(indices[p])]
            columns[at] = column
            if valued:
                values[at] = data[p]
            at += column >= 0
            p += 1


class ColumnsCopy:
    """A copy of some columns; see `dense.ColumnsCopy`.

    `out` is (data, indices, indptr), where indices are int32 if their number allows it. Where
    `pattern`, all stored values are one.
    """

    def __init__(self, raw: Any, d: int, columns: np.ndarray, *, pattern: bool) -> None:
        self.raw, self.pattern, self.k = raw, pattern, len(columns)
        place = np.full(d, -1, np.int32)
        place[columns] = np.arange(self.k, dtype=np.int32)
        self.place = read_only(place)
        self.counts = np.empty(len(raw[2]) - 1, np.int64)
        self.out: Any = None

    def count(self, start: int, stop: int) -> None:
        """Count the stored values of the rows [start, stop) that stay."""
        count_kept(self.raw, self.place, start, stop, self.counts)

    def allocate(self) -> None:
        """Make room for the copy."""
        stored = int(self.counts.sum())
        index = np.int32 if stored < LARGEST_INT32 else np.int64
        indptr = np.zeros(len(self.counts) + 1, index)
        np.cumsum(self.counts, out=indptr[1:])
        values = self.raw[0] if self.pattern else np.empty(stored, self.raw[0].dtype)
        self.out = values, np.empty(stored, index), indptr

    def fill(self, start: int, stop: int) -> None:
        """Copy the rows [start, stop)."""
        values, indices, indptr = self.out
        values = NOTHING.astype(values.dtype) if self.pattern else values
        copy_kept(self.raw, self.place, start, stop, (values, indices, read_only(indptr)))

    @property
    def X(self) -> Any:
        """The copy as rows of a block."""
        values, indices, indptr = self.out
        shape = len(indptr) - 1, self.k
        if self.pattern:
            return Pattern(values, indices, indptr, shape)
        rows = sp.csr_matrix(shape, dtype=values.dtype)
        rows.data, rows.indices, rows.indptr = values, indices, indptr
        return rows
