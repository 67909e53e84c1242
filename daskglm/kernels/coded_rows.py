"""Rows of categories by their codes, beside dense columns: the record of X of a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

# Dtypes of the arrays with a row for each row.
KINDS = (
    ("narrow", np.uint8),
    ("middle", np.uint16),
    ("wide", np.uint32),
    ("dense", np.float32, np.float64),
)


class Tables(NamedTuple):
    """What the levels of all code columns stand for, shared by the blocks of a data set.

    Coefficients of different code columns are disjoint ranges.

    Parameters
    ----------
    first : (p,) int64 array
        Number of each code column's first level among all levels, ascending from 0.
    indptr : (levels + 1,) int64 array
        Where each level's row begins in `columns` and `values`. A row may be empty (a reference
        level, or a missing value), a single one, or the values of a basis.
    columns : (nnz,) int64 array
        Coefficients, ascending within a level.
    values : (nnz,) float64 array
    ranks : (p,) int64 array
        Place of each code column where they are in the order of their coefficients.
    width : int
        Coefficients of all code columns.
    """

    first: np.ndarray
    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    ranks: np.ndarray
    width: int


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows with a code in each of some columns, and numbers in others.

    A row is the sum of its levels' rows of the tables, and then the numbers. Code columns are
    counted in the order narrow, middle, wide. `coded_checks.checked` looks at the codes.

    Parameters
    ----------
    narrow, middle, wide : (n, ...) uint8, uint16 and uint32 arrays in C order
    dense : (n, k) float32 or float64 array in C order
    tables : Tables
    """

    narrow: np.ndarray
    middle: np.ndarray
    wide: np.ndarray
    dense: np.ndarray
    tables: Tables

    def __post_init__(self) -> None:
        """Raise ValueError for arrays of other dtypes, dimensions or lengths."""
        for (name, *dtypes), part in zip(KINDS, self.parts, strict=True):
            if not isinstance(part, np.ndarray) or part.ndim != 2 or part.dtype not in dtypes:
                raise ValueError(
                    f"{name} of coded rows is {told(part)}, not an array of two "
                    f"dimensions and dtype {' or '.join(np.dtype(dtype).name for dtype in dtypes)}"
                )
        if len(rows := {len(part) for part in self.parts}) > 1:
            raise ValueError(f"the arrays of coded rows have {sorted(rows)} rows")

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The arrays with a row for each row."""
        return self.narrow, self.middle, self.wide, self.dense

    @property
    def ndim(self) -> int:
        """Dimensions, as of an array."""
        return 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and coefficients of codes and numbers."""
        return len(self.dense), int(self.tables.width) + self.dense.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the numbers, if there are any."""
        return self.dense.dtype if self.dense.shape[1] else np.dtype(np.float64)

    @property
    def nnz(self) -> int:
        """Codes and numbers of all rows."""
        return len(self.dense) * (len(self.tables.first) + self.dense.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of codes and numbers, without the shared tables."""
        return sum(part.nbytes for part in self.parts)

    def astype(self, dtype: Any) -> Coded:
        """Return the same rows with numbers of this dtype."""
        return replace(self, dense=self.dense.astype(dtype))

    def __getitem__(self, rows: Any) -> Coded:
        """Return some rows, by their numbers, a mask, or as a slice."""
        narrow, middle, wide, dense = (part[rows] for part in self.parts)
        return Coded(narrow, middle, wide, dense, self.tables)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """Return the products with the columns of V (d, K), (n, K), by NumPy."""
        tables = self.tables
        shape = len(tables.indptr) - 1, tables.width
        of_levels = sp.csr_matrix((tables.values, tables.columns, tables.indptr), shape=shape)
        levels = of_levels @ V[: tables.width]
        found = self.dense @ V[tables.width :]
        columns = (part[:, j] for part in self.parts[:3] for j in range(part.shape[1]))
        for first, codes in zip(tables.first, columns, strict=True):
            found += levels[codes.astype(np.intp) + first]
        return found


def told(part: Any) -> str:
    """Return what an error says of something that is no such array."""
    if not isinstance(part, np.ndarray):
        return f"a {type(part).__name__}"
    return f"of dtype {part.dtype} and shape {part.shape}"
