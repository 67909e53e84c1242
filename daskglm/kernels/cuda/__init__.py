"""Rows and vectors on an NVIDIA GPU: CuPy arrays, kernels of our own in CUDA C++, libraries for the
rest.

The only package that imports CuPy. It offers what `kernels.cpu` offers for NumPy, and the way of
rows to the device.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cupy as xp
import cupyx.scipy.sparse as cusparse
import numpy as np
from cupyx import errstate
from cupyx.scipy.linalg import solve_triangular

from daskglm.kernels.cuda import (
    coded,
    collective,
    csr,
    dense,
    margins,
    ordinal,
    outputs,
    several,
    sparse,
    streamed,
)
from daskglm.kernels.cuda.ball import Ball
from daskglm.kernels.cuda.dual import OnDevice
from daskglm.kernels.cuda.memory import Upload, adopt_rmm, available
from daskglm.kernels.cuda.points import finish
from daskglm.kernels.storages import arrays_of, columns_copy

__all__ = [
    "Ball",
    "OnDevice",
    "Upload",
    "add_csc_copy",
    "available",
    "coefficients",
    "collective",
    "fetch",
    "finish",
    "for_rows",
    "gram_without_curvature",
    "inverse",
    "is_resident",
    "kept_margins",
    "margins",
    "move",
    "ordinal",
    "outputs",
    "several",
    "solve_positive",
    "take",
    "take_columns",
    "to_host",
    "vector",
    "vector_dtype",
    "wait",
    "xp",
    "zeros",
]
# Share of the rows' bytes that vectors beside them may take, if that allows one of margins.
VECTORS_SHARE = 0.15
adopt_rmm()
# Least pivot of a factor; with smaller ones the host takes an eigendecomposition.
SINGULAR = 1e-7


def for_rows(X: Any) -> tuple[ModuleType, Any]:
    """Return the kernel module for rows on the device, and the rows as its functions take them."""
    if isinstance(X, dense.Rows):
        return dense, X
    if isinstance(X, csr.Rows | coded.Rows):
        return sparse, X
    if isinstance(X, streamed.Rows):
        return streamed, X
    if isinstance(X, xp.ndarray):
        return dense, dense.Rows(X)
    if cusparse.issparse(X) and X.format == "csr":
        return sparse, csr.Rows(X.data, X.indices, X.indptr, X.shape, pattern=False)
    raise TypeError(f"no kernels for rows of type {type(X).__name__}")


def move(raw: Any, shape: tuple[int, int], share: float, buffer: int, upload: Upload) -> Any:
    """Host rows as rows for the device's kernels.

    Parameters
    ----------
    raw : ndarray, or tuple of arrays of CSR or coded rows
        As `cpu.for_rows` gives them.
    share : float
        Part of the rows to keep on the device; if not all, the others are streamed through two
        buffers of `buffer` bytes.
    upload : Upload
        Makes the copies; its `finish` must follow.
    """
    n = shape[0] if share >= 1.0 else int(share * shape[0])
    resident = _resident(raw, n, shape[1], upload) if n else None
    if resident is not None and n == shape[0]:
        return resident
    tables = coded.tables_of(raw, upload) if coded.is_coded(raw) else None
    return streamed.Rows(raw, shape, resident, buffer, tables)


def _resident(raw: Any, n: int, d: int, upload: Upload) -> Any:
    """Copy the first n rows to the device."""
    if not isinstance(raw, tuple):
        return dense.Rows(upload.copy(raw[:n]))
    if coded.is_coded(raw):
        return coded.resident(raw, n, upload)
    data, indices, indptr = raw
    pattern, stop = len(data) == 1, int(indptr[n])
    values = upload.copy(data if pattern else data[:stop])
    return csr.Rows(
        values, upload.copy(indices[:stop]), upload.copy(indptr[: n + 1]), (n, d), pattern=pattern
    )


def add_csc_copy(rows: Any, room: int) -> int:
    """Make the CSC copy of sparse rows on the device if `room` bytes allow it; return its bytes."""
    # the copy itself, and as much again while it is made
    needed = 3 * rows.nbytes if isinstance(rows, csr.Rows) else 0
    if not needed or needed > room or rows.indices.dtype != np.int32:
        return 0
    csr.add_csc_copy(rows)
    return int(rows.nbytes)


def take(rows: Any, numbers: np.ndarray) -> Any:
    """Copy some rows, by their numbers, of rows that are wholly on the device."""
    chosen = xp.asarray(numbers)
    if isinstance(rows, dense.Rows):
        return dense.Rows(rows.X[chosen])
    if isinstance(rows, coded.Rows):
        return rows.take(chosen)
    data = xp.ones(rows.indices.size, rows.data.dtype) if rows.pattern else rows.data
    some = cusparse.csr_matrix((data, rows.indices, rows.indptr), shape=(rows.n, rows.d))[chosen]
    values = rows.data if rows.pattern else some.data
    return csr.Rows(values, some.indices, some.indptr, some.shape, pattern=bool(rows.pattern))


def take_columns(rows: Any, columns: np.ndarray) -> Any:
    """Copy the columns of these ascending numbers; the copy is wholly on the device.

    Of rows that are streamed the columns are taken in host memory. Rows without any column are
    sparse ones, since kernels of dense rows divide threads among columns.
    """
    if not len(columns):
        places = xp.zeros(0, np.int32), xp.zeros(rows.n + 1, np.int32)
        return csr.Rows(xp.zeros(0, vector_dtype(rows)), *places, (rows.n, 0), pattern=False)
    if isinstance(rows, dense.Rows):
        return dense.Rows(xp.ascontiguousarray(xp.take(rows.X, xp.asarray(columns), axis=1)))
    if isinstance(rows, csr.Rows):
        return csr.take_columns(rows, columns)
    if isinstance(rows, coded.Rows):
        return rows.take_columns(columns)
    copy = columns_copy(rows.X, rows.d, columns, pattern=rows.pattern)
    copy.count(0, rows.n)
    copy.allocate()
    copy.fill(0, rows.n)
    upload = Upload()
    taken = _resident(arrays_of(copy.X), rows.n, len(columns), upload)
    upload.finish()
    return taken


def kept_margins(rows: Any) -> int:
    """Return how many vectors of margins (8 bytes a row) a block may keep beside y and curvatures.

    One is enough: if another point's margins are needed, they are computed again, by one more pass.
    """
    row = VECTORS_SHARE * rows.nbytes / max(rows.n, 1) - 2 * np.dtype(vector_dtype(rows)).itemsize
    return int(min(max(row // 8, 1), 3))


def gram_without_curvature(rows: Any) -> bool:
    """Return whether a Gram needs no kept curvatures: if a tile in shared memory forms it."""
    return not rows.sparse and rows.d <= dense.NARROW


def is_resident(rows: Any) -> bool:
    """Return whether rows are wholly in the device's memory."""
    return not isinstance(rows, streamed.Rows)


def vector(values: Any, rows: Any, *, exact: bool = True) -> Any:
    """Return one number per row, float64 if `exact`, else of the rows' dtype.

    It is uninitialised if `values` is None.
    """
    dtype = np.dtype(np.float64) if exact else vector_dtype(rows)
    if values is None:
        return xp.empty(rows.n, dtype)
    return xp.asarray(
        values if isinstance(values, xp.ndarray) else np.asarray(values, dtype=dtype), dtype=dtype
    )


def vector_dtype(rows: Any) -> Any:
    """Dtype of the values of rows, and of vectors beside them that need not be exact."""
    return rows.dtype


def zeros(*shape: int) -> Any:
    """Float64 zeros."""
    return xp.zeros(shape)


def solve_positive(matrix: Any, rhs: Any) -> Any:
    """Solve a positive definite system on the device, scaled to a unit diagonal.

    Returns None if the matrix is (nearly) singular.
    """
    factor, scale = _factor(matrix)
    if factor is None:
        return None
    half = solve_triangular(factor, rhs / scale, lower=True)
    return solve_triangular(factor, half, lower=True, trans="T") / scale


def inverse(matrix: Any) -> Any:
    """Inverse of a positive definite matrix on the device; None where it is (nearly) singular."""
    factor, scale = _factor(matrix)
    if factor is None:
        return None
    root = solve_triangular(factor, xp.diag(1.0 / scale), lower=True)
    return root.T @ root


def _factor(matrix: Any) -> tuple[Any, Any]:
    """Cholesky factor of a matrix scaled to a unit diagonal, or None; and the scale."""
    scale = xp.sqrt(xp.maximum(xp.diag(matrix), 0.0))
    scale = xp.where(scale == 0.0, 1.0, scale)
    try:
        # else a factorisation that fails leaves what is not specified
        with errstate(linalg="raise"):
            factor = xp.linalg.cholesky(matrix / scale[:, None] / scale[None, :])
    except np.linalg.LinAlgError:
        return None, scale
    return (factor if float(xp.diag(factor).min()) > SINGULAR else None), scale


def coefficients(w: Any, d: int) -> tuple[Any, int]:
    """W on the device, and whether it ends in an intercept."""
    return xp.asarray(w), int(len(w) > d)


def describe() -> str:
    """Return name and memory of the current GPU."""
    found = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
    return f"{found['name'].decode()}, {found['totalGlobalMem'] / 2**30:.3g} GiB"


def wait() -> None:
    """Return when the work on this thread's current stream is done."""
    xp.cuda.get_current_stream().synchronize()


def fetch(*numbers: Any) -> list[float]:
    """Numbers on the device as floats: one copy and one wait."""
    found: list[float] = xp.stack(numbers).get().tolist()
    return found


def to_host(totals: dict[str, Any]) -> dict[str, Any]:
    """Return sums as NumPy arrays, by one copy and one wait for all that are float64."""
    there = {key: value for key, value in totals.items() if isinstance(value, xp.ndarray)}
    packed = {
        key: value for key, value in there.items() if value.dtype == np.float64 and value.size
    }
    if len(packed) > 1:
        flat = xp.concatenate([value.reshape(-1) for value in packed.values()]).get()
        cuts = np.cumsum([value.size for value in packed.values()])[:-1]
        parts = zip(packed.items(), np.split(flat, cuts), strict=True)
        totals = totals | {key: part.reshape(value.shape) for (key, value), part in parts}
    return {
        key: value.get() if isinstance(value, xp.ndarray) else value
        for key, value in totals.items()
    }
