"""Rows and vectors in this process's memory: NumPy, SciPy CSR and numba kernels."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from daskglm.kernels import margins, storages, sweep, sweep_thresholds
from daskglm.kernels.pattern import Pattern
from daskglm.kernels.records import read_only

__all__ = [
    "Pattern",
    "coefficients",
    "for_rows",
    "gram_without_curvature",
    "is_resident",
    "margins",
    "ordinal",
    "to_host",
    "vector",
    "xp",
    "zeros",
]

xp = np
ordinal = sweep_thresholds


def for_rows(X: Any) -> tuple[ModuleType, Any]:
    """Return the kernels of rows in host memory, and the rows X as they take them."""
    return sweep, storages.arrays_of(X)


def vector(values: Any, rows: Any, *, exact: bool = True) -> np.ndarray:
    """Return one number per row, read-only; float64 and uninitialised if `values` is None."""
    if values is not None:
        return read_only(np.asarray(values))
    return np.empty(storages.count_rows(rows))


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
