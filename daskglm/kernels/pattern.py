"""Sparse rows whose stored values are all equal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
