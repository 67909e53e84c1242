"""Rows larger than the memory allowed on the device: part of them stays there, the rest comes chunk
by chunk.

The names of `cuda.dense`, over host memory that is page-locked in place. While the kernels work on
one chunk the next one travels on a stream of its own into the other of two buffers; vectors with
one number a row stay on the device.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda import coded, csr, dense, sparse
from daskglm.kernels.cuda.launch import Workspace
from daskglm.kernels.records import PointSums, RowData
from daskglm.losses.base import Law


class Rows:
    """Rows of which the first are on the device and the others in host memory.

    Parameters
    ----------
    X : ndarray (n, d), or tuple of host arrays of CSR or coded rows
    shape : (n, d)
    resident : dense.Rows, csr.Rows or coded.Rows, optional
        The first rows.
    chunk_bytes : int
        Of each of the two buffers.
    tables : coded.Tables, optional
        Those of coded rows.
    """

    def __init__(
        self,
        X: Any,
        shape: tuple[int, int],
        resident: Any,
        chunk_bytes: int,
        tables: coded.Tables | None = None,
    ) -> None:
        self.X, (self.n, self.d), self.resident = X, shape, resident
        self.sparse = isinstance(X, tuple)
        self.tables = tables
        self.is_csr = self.sparse and tables is None
        self.pattern = self.is_csr and len(X[0]) == 1
        self.workspace = Workspace()
        first = resident.n if resident is not None else 0
        if self.is_csr:
            self.parts = [part for part in X[:2] if len(part) > 1]
        else:
            arrays = X[:4] if self.sparse else (X,)
            self.parts = [part.reshape(-1) for part in arrays if part.shape[1]]
        self.cuts = self._cut(first, chunk_bytes)
        for part in self.parts:
            _lock(part, self)
        sizes = [
            max(self._run(part, lo, hi)[1] for lo, hi in itertools.pairwise(self.cuts))
            for part in self.parts
        ]
        self.buffers = [
            [cp.empty(size, part.dtype) for part, size in zip(self.parts, sizes, strict=True)]
            for _ in range(2)
        ]
        if self.is_csr:
            self.indptr = cp.asarray(X[2][first:])
            self.value = cp.asarray(X[0]) if self.pattern else None
        self.copies = cp.cuda.Stream(non_blocking=True)
        current = cp.cuda.get_current_stream()
        # the memory of buffers may be in use on it yet
        self.free = [current.record() for _ in range(2)]
        self.bytes_copied = 0

    @property
    def dtype(self) -> Any:
        """Dtype of the values."""
        if self.tables is not None:
            return self.X[3].dtype if self.X[3].shape[1] else np.dtype(np.float64)
        return self.X[0].dtype if self.is_csr else self.X.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, wherever they are."""
        return int(sum(part.nbytes for part in self.parts))

    def _cut(self, first: int, chunk_bytes: int) -> np.ndarray:
        """Row numbers that cut what is not resident into chunks."""
        if not self.is_csr:
            a_row = sum(part.nbytes for part in self.parts) // self.n
            many = max(1, chunk_bytes // max(a_row, 1))
            return np.append(np.arange(first, self.n, many), self.n)
        data, indices, indptr = self.X
        a_value = indices.itemsize + (0 if self.pattern else data.itemsize)
        goals = np.arange(int(indptr[first]), int(indptr[-1]), max(1, chunk_bytes // a_value))
        return np.unique(np.concatenate([[first], np.searchsorted(indptr, goals[1:]), [self.n]]))

    def _run(self, part: np.ndarray, lo: int, hi: int) -> tuple[int, int]:
        """First value and number of values that the rows [lo, hi) have in an array."""
        if self.is_csr:
            return int(self.X[2][lo]), int(self.X[2][hi]) - int(self.X[2][lo])
        width = len(part) // self.n
        return lo * width, (hi - lo) * width

    def chunks(self) -> Iterator[tuple[int, int, Any]]:
        """Yield all rows as (first, stop, rows on the device).

        The next chunk is copied while the caller uses one.
        """
        runs = list(itertools.pairwise(self.cuts.tolist()))
        arrived = [self._send(0, *runs[0])]
        if self.resident is not None:
            yield 0, self.resident.n, self.resident
        current = cp.cuda.get_current_stream()
        for k, (lo, hi) in enumerate(runs):
            if k + 1 < len(runs):
                arrived.append(self._send(k + 1, *runs[k + 1]))
            current.wait_event(arrived[k])
            yield lo, hi, self._rows(k, lo, hi)
            self.free[k % 2] = current.record()

    def _send(self, k: int, lo: int, hi: int) -> Any:
        """Enqueue the copy of a chunk into its buffers, once their last use is over."""
        self.copies.wait_event(self.free[k % 2])
        for part, buffer in zip(self.parts, self.buffers[k % 2], strict=True):
            start, count = self._run(part, lo, hi)
            if count:
                buffer[:count].set(part[start : start + count], stream=self.copies)
            self.bytes_copied += count * part.itemsize
        return self.copies.record()

    def _rows(self, k: int, lo: int, hi: int) -> Any:
        buffers, n = self.buffers[k % 2], hi - lo
        if not self.sparse:
            return dense.Rows(buffers[0][: n * self.d].reshape(n, self.d), self.workspace)
        if self.tables is not None:
            sent = iter(buffers)
            parts = [
                next(sent)[: n * part.shape[1]].reshape(n, part.shape[1])
                if part.shape[1]
                else cp.empty((n, 0), part.dtype)
                for part in self.X[:3]
            ]
            width = self.X[3].shape[1]
            parts.append(
                next(sent)[: n * width].reshape(n, width) if width else cp.empty((n, 0), self.dtype)
            )
            return coded.Rows(tuple(parts), self.tables, self.workspace)
        start, count = self._run(self.parts[-1], lo, hi)
        first = self.n - len(self.indptr) + 1
        indptr = self.indptr[lo - first : hi - first + 1] - self.indptr.dtype.type(start)
        indices = buffers[-1][:count]
        data = self.value if self.pattern else buffers[0][:count]
        return csr.Rows(data, indices, indptr, (n, self.d), self.workspace, pattern=self.pattern)

    def column_counts(self) -> np.ndarray:
        """Return how many rows have a value in each column, (d,), for sparse rows."""
        if self.tables is None:
            return np.bincount(self.X[1], minlength=self.d)
        host = self.tables.host
        of_levels = np.zeros(len(host.indptr) - 1)
        codes = (part[:, j] for part in self.X[:3] for j in range(part.shape[1]))
        for first, code in zip(host.first, codes, strict=True):
            found = np.bincount(code)
            of_levels[first : first + len(found)] += found
        return coded.counts_of(of_levels, host, self.n, self.X[3].shape[1])


def _lock(part: np.ndarray, owner: Any) -> None:
    """Page-lock host memory in place for as long as `owner` lives.

    Memory that cannot be locked is copied more slowly.
    """
    address = part.ctypes.data
    with contextlib.suppress(cp.cuda.runtime.CUDARuntimeError):
        cp.cuda.runtime.hostRegister(address, part.nbytes, 0)
        weakref.finalize(owner, _unlock, address, part)


def _unlock(address: int, part: np.ndarray) -> None:
    with contextlib.suppress(cp.cuda.runtime.CUDARuntimeError):
        cp.cuda.runtime.hostUnregister(address)


def _kernels(rows: Rows) -> Any:
    return sparse if rows.sparse else dense


def margins(rows: Rows, w: Any, b: int, start: int, stop: int, z: Any) -> None:
    """Z = X w + b for all rows."""
    for lo, hi, part in rows.chunks():
        _kernels(rows).margins(part, w, b, 0, hi - lo, z[lo:hi])


def evaluate(
    law: Law,
    rows: RowData,
    w: Any,
    b: int,
    start: int,
    stop: int,
    out: PointSums,
    *,
    exact: bool = False,
) -> None:
    """Add up the loss over all rows, with its gradient and, if asked, Hessian or its diagonal.

    See `cuda.dense`.
    """
    for lo, hi, part in rows[0].chunks():
        at = dense.AtMargins.of_point(law, rows, w, b, lo, hi, out)
        data, kept = (part, at.y, at.weight, at.offset), (at.z, at.curvature, *out[2:])
        _kernels(rows[0]).evaluate(law, data, w, b, 0, hi - lo, kept, exact=exact)


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: Rows, curvature: Any, v: Any, b: int, start: int, stop: int, out: Any, live: Any = None
) -> None:
    """Add [X 1]' D (X v + b) over all rows to `out` (d + 1,).

    It does nothing if the flag `live` is zero.
    """
    for lo, hi, part in rows.chunks():
        _kernels(rows).hessian_vector(part, curvature[lo:hi], v, b, 0, hi - lo, out, live)


def backward(rows: Rows, r: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1]' r over all rows to `out` (d + 1,)."""
    for lo, hi, part in rows.chunks():
        _kernels(rows).backward(part, r[lo:hi], 0, hi - lo, out)


def add_moments(rows: Rows, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s over all rows to `sums` (d + 1,), X.^2' s to `squares` (d + 1,)."""
    for lo, hi, part in rows.chunks():
        _kernels(rows).add_moments(part, weight[lo:hi], 0, hi - lo, sums, squares)


def squared_norms(rows: Rows, start: int, stop: int, norms: Any = None) -> tuple[float, float]:
    """Largest squared row norm and their sum; the norms themselves into `norms`. Waits."""
    found = [
        _kernels(rows).squared_norms(part, 0, hi - lo, None if norms is None else norms[lo:hi])
        for lo, hi, part in rows.chunks()
    ]
    return max(largest for largest, _ in found), sum(total for _, total in found)
