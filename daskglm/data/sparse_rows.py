"""Sparse matrices as canonical CSR, every index checked before a routine in C or a kernel follows
it.

SciPy and CuPy trust the arrays of a matrix once it is made. One index out of range then reads or
writes memory of others, in the best case ending the process. The sweep that checks them also tells
whether they are sorted, which SciPy would sweep them for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.device import on_device, to_host
from daskglm.data.containers import plain
from daskglm.data.values import Place, as_float
from daskglm.kernels.structure import CANONICAL, IN_RANGE, fault

ADVICE = "the matrix is damaged; its check_format() finds such faults: build it again"


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix or array: of SciPy, CuPy, or with their `tocsr`."""
    return not isinstance(X, np.ndarray) and hasattr(X, "tocsr")


def to_csr(X: Any, place: Place) -> Any:
    """X in CSR, converted once its indices are known to be in range; CSR as it is, unchecked.

    Raises
    ------
    ValueError
        For indices out of range, with the place.
    """
    if len(X.shape) != 2:
        raise ValueError(
            f"{place}X has {len(X.shape)} dimension(s); expected rows and columns (reshape to 2-D)"
        )
    kind = getattr(X, "format", None)
    if kind == "csr":
        return X
    if kind == "dok":
        X, kind = X.tocoo(), "coo"
    n, d = X.shape
    if kind == "csc":
        _check_compressed(X, "column", "row", n, place)
    elif kind == "bsr":
        if X.data.ndim != 3:
            raise ValueError(
                f"{place}X (BSR): data has {X.data.ndim} dimension(s), not 3; {ADVICE}"
            )
        R, C = X.data.shape[1:]
        _check_compressed(X, "block row", "block column", d // C, place, majors=n // R)
    elif kind == "coo":
        _check_coordinates(X, place)
        X = type(X)((_summable(X.data), (X.row, X.col)), shape=X.shape)
    elif kind == "dia" and (X.data.ndim != 2 or len(X.offsets) != len(X.data)):
        raise ValueError(
            f"{place}X (DIA): {len(X.offsets)} offsets for data of shape {tuple(X.data.shape)}; "
            f"{ADVICE}"
        )
    return X.tocsr()


def canonical(X: Any, place: Place) -> Any:
    """Return a sparse matrix as CSR of floats in canonical format, on the device where X is.

    The user's arrays are never reordered. Integers become floats before values of one place are
    summed.

    Raises
    ------
    ValueError
        For indices out of range, with the partition and row; for values that are not numbers.
    """
    X = to_csr(X, place)
    ordered = check_csr(X, place)
    nnz = int(X.indptr[-1])
    data, indices = X.data[:nnz], X.indices[:nnz]
    if not ordered:
        X = _summed(X, data, indices)
        data, indices = X.data, X.indices
    data = as_float(data, f"{place}X")
    if on_device(X):
        return type(X)((data, indices, X.indptr), shape=X.shape)
    index = np.int32 if nnz < 2**31 - 1 and X.shape[1] < 2**31 - 1 else np.int64
    rows = sp.csr_matrix(X.shape, dtype=data.dtype)
    rows.data = np.ascontiguousarray(data)
    rows.indices = np.ascontiguousarray(indices, dtype=index)
    rows.indptr = np.ascontiguousarray(X.indptr, dtype=index)
    return rows


def check_csr(X: Any, place: Place) -> bool:
    """Return whether CSR is in canonical format; raise ValueError for indices out of range."""
    return _check_compressed(X, "row", "column", X.shape[1], place)


def checked_chunk(X: Any, block_id: tuple[int, ...] = (0,)) -> Any:
    """Check indices of a chunk of a dask array, before SciPy joins chunks, and return the chunk."""
    X = plain(X)
    if is_sparse(X):
        X = to_csr(X, Place(block_id[0]))
        check_csr(X, Place(block_id[0]))
    return X


# ---- pieces
def _summable(data: Any) -> Any:
    """Values as floats whose sums cannot overflow; True and True stay True."""
    return data if data.dtype.kind == "b" else as_float(data, "X")


def _summed(X: Any, data: Any, indices: Any) -> Any:
    """Return a copy with sorted indices and one value for each place."""
    made = type(X) if on_device(X) else sp.csr_matrix
    data = _summable(data)
    copied = made((data.copy(), indices.copy(), X.indptr.copy()), shape=X.shape)
    copied.sum_duplicates()
    return copied


def _check_compressed(
    X: Any, major: str, minor: str, width: int, place: Place, majors: int | None = None
) -> bool:
    """Check indptr and indices of CSR, CSC or BSR.

    Its `major` lines hold indices below `width`.
    """
    kind = X.format.upper()
    majors = X.shape[0 if major == "row" else 1] if majors is None else majors
    stored = min(len(X.data), len(X.indices))
    for name in ("indices", "indptr"):
        values = getattr(X, name)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(
                f"{place}X ({kind}): {name} has dtype {values.dtype} and {values.ndim} "
                f"dimension(s), not integers and 1; {ADVICE}"
            )
    if len(X.indptr) != majors + 1:
        raise ValueError(
            f"{place}X ({kind}): indptr has {len(X.indptr):,} numbers for {majors:,} {major}s, not "
            f"{majors + 1:,}; {ADVICE}"
        )
    if on_device(X):
        found = _state_on_device(X.indices, X.indptr, stored, width)
        if found >= IN_RANGE:
            indices, indptr = (X.indices, X.indptr)
        else:
            indices = to_host(X.indices)
            indptr = to_host(X.indptr)
    else:
        indices, indptr = X.indices, X.indptr
        found = fault(_whole(indices), np.ascontiguousarray(indptr, np.int64), stored, width)[0]
    if found >= IN_RANGE:
        return bool(X.has_canonical_format) if on_device(X) else found == CANONICAL
    _, line, at = fault(_whole(indices), np.ascontiguousarray(indptr, np.int64), stored, width)
    begin, end = int(indptr[line]), int(indptr[line + 1])
    where = place.row(line) if major == "row" else f"{place}{major} {line:,}"
    if at >= 0:
        raise ValueError(
            f"{where} of X ({kind}) has the {minor} index {int(indices[at]):,}, which is not among "
            f"its {width:,} {minor}s; {ADVICE}"
        )
    raise ValueError(
        f"{where} of X ({kind}): indptr goes from {begin:,} to {end:,}; it must begin at 0, never "
        f"decrease, and end within the {stored:,} values stored; {ADVICE}"
    )


def _whole(indices: Any) -> np.ndarray:
    """Indices as the kernel takes them: contiguous, 32 or 64 bits, signed."""
    dtype = indices.dtype if indices.dtype in (np.int32, np.int64) else np.int64
    return np.ascontiguousarray(indices, dtype=dtype)


def _state_on_device(indices: Any, indptr: Any, stored: int, width: int) -> int:
    """Return whether indices on a device are in range; only their extremes are copied."""
    starts, ends = indptr[:-1], indptr[1:]
    right = int(indptr[0]) == 0 and int(indptr[-1]) <= stored
    if right and len(ends):
        right = not bool((ends < starts).any())
    nnz = int(indptr[-1])
    if right and nnz:
        right = int(indices[:nnz].min()) >= 0 and int(indices[:nnz].max()) < width
    return IN_RANGE if right else IN_RANGE - 1


def _check_coordinates(X: Any, place: Place) -> None:
    """Check the coordinates of a COO matrix."""
    for name, where, size in (("row", X.row, X.shape[0]), ("column", X.col, X.shape[1])):
        if len(where) != len(X.data) or where.dtype.kind not in "iu":
            raise ValueError(
                f"{place}X (COO): {len(where):,} {name} indices of dtype {where.dtype} for "
                f"{len(X.data):,} values; {ADVICE}"
            )
        if len(where) and (int(where.min()) < 0 or int(where.max()) >= size):
            host = to_host(where)
            at = int(np.argmax((host < 0) | (host >= size)))
            other = int(X.row[at])
            line = f"{place.row(other)} of X (COO)" if name == "column" else f"{place}X (COO)"
            raise ValueError(
                f"{line} has the {name} index {int(host[at]):,}, which is not among its {size:,} "
                f"{name}s; {ADVICE}"
            )
