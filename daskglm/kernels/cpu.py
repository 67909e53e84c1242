"""Rows and vectors in this process's memory: NumPy, SciPy CSR and numba kernels."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.kernels import csr, dense, margins, sweep, sweep_thresholds
from daskglm.kernels.records import read_only

__all__ = [
    "Pattern",
    "coefficients",
    "for_rows",
    "gram_without_curvature",
    "is_resident",
    "margins",
    "ordinal",
    "sweep_of",
    "to_host",
    "vector",
    "xp",
    "zeros",
]

xp = np
ordinal = sweep_thresholds


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


def for_rows(X: Any) -> tuple[ModuleType, Any]:
    """Return the kernel module for the rows X and X in the form its functions take."""
    if isinstance(X, np.ndarray):
        return dense, read_only(X)
    if sp.issparse(X) and X.format == "csr":
        return csr, (read_only(X.data), read_only(X.indices), read_only(X.indptr))
    if isinstance(X, Pattern):
        return csr, (read_only(X.value), read_only(X.indices), read_only(X.indptr))
    raise TypeError(f"no kernels for rows of type {type(X).__name__}")


def sweep_of(kernels: ModuleType) -> ModuleType:
    """Return the module that evaluates losses of one margin on rows with these kernels."""
    return sweep


def vector(values: Any, rows: Any, *, exact: bool = True) -> np.ndarray:
    """Return one number per row, read-only; float64 and uninitialised if `values` is None."""
    if values is not None:
        return read_only(np.asarray(values))
    return np.empty(len(rows) if isinstance(rows, np.ndarray) else len(rows[2]) - 1)


def zeros(*shape: int) -> np.ndarray:
    """Float64 zeros."""
    return np.zeros(shape)


def coefficients(w: np.ndarray, d: int) -> tuple[np.ndarray, float]:
    """Coefficients of features, and the intercept (zero where w has none)."""
    return w[:d], float(w[d]) if len(w) > d else 0.0


def kept_margins(rows: Any) -> int:
    """Vectors of margins that a block may hold: the two ends of a line search."""
    return 2


def gram_without_curvature(rows: Any) -> bool:
    """Return False: curvatures are an output of the same pass as the Gram."""
    return False


def is_resident(X: Any) -> bool:
    """Return whether rows are in a device's memory."""
    return False


def to_host(totals: dict[str, Any]) -> dict[str, Any]:
    """Return sums as NumPy arrays, which they are."""
    return totals
