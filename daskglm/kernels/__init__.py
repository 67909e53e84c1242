"""Kernels by the kind of rows: modules with the same function names, chosen by the type of a block's X."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.kernels import csr, dense


class Pattern(NamedTuple):
    """Sparse rows whose stored values are all equal, as one-hot features have them: CSR without the array of values."""

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


def for_rows(X: Any) -> tuple[ModuleType, Any]:
    """Return the kernel module for the rows X and X in the form its functions take."""
    if isinstance(X, np.ndarray):
        return dense, X
    if sp.issparse(X) and X.format == "csr":
        return csr, (X.data, X.indices, X.indptr)
    if isinstance(X, Pattern):
        return csr, (X.value, X.indices, X.indptr)
    raise TypeError(f"no kernels for rows of type {type(X).__name__}")


def gram_side(n_features: int) -> int:
    """Side of the square array that `evaluate` wants for a Gram: d + 1, rounded up to whole register blocks of 4."""
    return (n_features + 4) // 4 * 4
