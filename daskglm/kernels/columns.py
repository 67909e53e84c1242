"""Copy some columns of rows in host memory, run of rows by run of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.kernels import columns_csr, columns_dense
from daskglm.kernels.records import NOTHING, read_only

LARGEST_INT32 = np.iinfo(np.int32).max


class ColumnsCopy:
    """A copy of some columns, made by `count` of all rows, `allocate`, and `fill` of all rows.

    Runs of rows may be counted and filled by several threads.

    Parameters
    ----------
    raw : (n, d) array, or tuple (data, indices, indptr)
        As `cpu.for_rows` gives them.
    d : int
        Number of all columns.
    columns : (k,) int64 array
        Ascending.
    pattern : bool
        Whether sparse rows have one value for all places.

    Attributes
    ----------
    out : (n, k) array, or tuple (data, indices, indptr)
        Of the same kind and dtype; indices are int32 where their number allows it.
    """

    def __init__(self, raw: Any, d: int, columns: np.ndarray, *, pattern: bool) -> None:
        self.raw, self.columns, self.pattern = raw, read_only(columns), pattern
        self.sparse = isinstance(raw, tuple)
        self.out: Any = None
        if self.sparse:
            place = np.full(d, -1, np.int32)
            place[columns] = np.arange(len(columns), dtype=np.int32)
            self.place = read_only(place)
            self.counts = np.empty(len(raw[2]) - 1, np.int64)

    def count(self, start: int, stop: int) -> None:
        """Count the stored values of the rows [start, stop) that stay."""
        if self.sparse:
            columns_csr.count(self.raw, self.place, start, stop, self.counts)

    def allocate(self) -> None:
        """Make room for the copy."""
        if not self.sparse:
            self.out = np.empty((len(self.raw), len(self.columns)), self.raw.dtype)
            return
        stored = int(self.counts.sum())
        index = np.int32 if stored < LARGEST_INT32 else np.int64
        indptr = np.zeros(len(self.counts) + 1, index)
        np.cumsum(self.counts, out=indptr[1:])
        values = self.raw[0] if self.pattern else np.empty(stored, self.raw[0].dtype)
        self.out = values, np.empty(stored, index), indptr

    def fill(self, start: int, stop: int) -> None:
        """Copy the rows [start, stop)."""
        if not self.sparse:
            columns_dense.take(self.raw, self.columns, start, stop, self.out)
            return
        values, indices, indptr = self.out
        values = NOTHING.astype(values.dtype) if self.pattern else values
        out = values, indices, read_only(indptr)
        columns_csr.fill(self.raw, self.place, start, stop, out)
