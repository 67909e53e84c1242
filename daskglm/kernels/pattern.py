"""Sparse rows whose stored values are all equal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.core.summation import AT_ONCE


class Pattern(NamedTuple):
    """CSR without the array of values: all stored values are equal (one-hot features)."""

    value: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.indices)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the value."""
        return self.value.dtype


def without_values(rows: Any) -> Any:
    """Return sparse rows with equal values as a `Pattern`, others as they are."""
    if not sp.issparse(rows) or rows.nnz < 2:
        return rows
    for at in range(0, rows.nnz, AT_ONCE):  # most rows are told by the first of them
        if not (rows.data[at : at + AT_ONCE] == rows.data[0]).all():
            return rows
    return Pattern(rows.data[:1].copy(), rows.indices, rows.indptr, rows.shape)


def with_values(X: Any) -> Any:
    """Return rows as a CSR matrix: a `Pattern` gets its values back."""
    if not isinstance(X, Pattern):
        return X
    return sp.csr_matrix((np.full(X.nnz, X.value[0]), X.indices, X.indptr), shape=X.shape)
