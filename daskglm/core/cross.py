"""Products of a factor's levels with other coefficients, of which those with levels are sparse."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class Cross:
    """A matrix (m, q) some of whose columns are stored sparsely.

    Parameters
    ----------
    dense : (m, k) array
        The columns that are not.
    sparse : (m, q - k) csr_array
        Those that are.
    is_sparse : (q,) array of bool
        Which columns are.
    """

    dense: np.ndarray
    sparse: sp.csr_array
    is_sparse: np.ndarray

    @classmethod
    def of(cls, dense: np.ndarray) -> Cross:
        """Return a matrix without sparse columns."""
        m, q = dense.shape
        return cls(dense, sp.csr_array((m, 0)), np.zeros(q, bool))

    @classmethod
    def zeros(cls, m: int, q: int) -> Cross:
        """Return a matrix of zeros."""
        return cls(np.zeros((m, 0)), sp.csr_array((m, q)), np.ones(q, bool))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, q)."""
        return len(self.dense), len(self.is_sparse)

    @property
    def nbytes(self) -> int:
        """Bytes of values and indices."""
        stored = self.sparse
        return int(
            self.dense.nbytes + stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes
        )

    @property
    def is_finite(self) -> bool:
        """Whether all entries are finite."""
        return bool(np.isfinite(self.dense).all() and np.isfinite(self.sparse.data).all())

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        """Multiply a vector (q,), or a matrix (q, K)."""
        found: np.ndarray = self.dense @ v[~self.is_sparse]
        return found + self.sparse @ v[self.is_sparse] if self.is_sparse.any() else found

    def transposed_times(self, u: np.ndarray) -> np.ndarray:
        """Multiply the transpose by a vector (m,), or a matrix (m, K)."""
        found = np.empty((len(self.is_sparse), *u.shape[1:]))
        found[~self.is_sparse] = self.dense.T @ u
        found[self.is_sparse] = self.sparse.T @ u
        return found

    def scaled(self, rows: np.ndarray | float = 1.0) -> Cross:
        """Return the matrix with each row times a number, or all of them times the same."""
        rows = np.broadcast_to(rows, len(self.dense))
        sparse = self.sparse.copy()
        sparse.data = sparse.data * np.repeat(rows, np.diff(sparse.indptr))
        return replace(self, dense=self.dense * rows[:, None], sparse=sparse)

    def gram(self) -> np.ndarray:
        """Return the product (q, q) of the transpose with the matrix."""
        kept, apart = np.flatnonzero(~self.is_sparse), np.flatnonzero(self.is_sparse)
        found = np.empty((len(self.is_sparse),) * 2)
        found[np.ix_(kept, kept)] = self.dense.T @ self.dense
        if len(apart):
            turned = self.sparse.T.tocsr()
            found[np.ix_(apart, kept)] = turned @ self.dense
            found[np.ix_(kept, apart)] = found[np.ix_(apart, kept)].T
            found[np.ix_(apart, apart)] = (turned @ self.sparse).toarray()
        return found

    def row_squares(self, columns: np.ndarray) -> np.ndarray:
        """Return each row's sum of squares (m,), of columns times these numbers (q,)."""
        found = np.square(self.dense) @ np.square(columns[~self.is_sparse])
        squares = self.sparse.copy()
        squares.data = np.square(squares.data)
        total: np.ndarray = found + squares @ np.square(columns[self.is_sparse])
        return total

    def taken(self, rows: np.ndarray, columns: np.ndarray) -> Cross:
        """Return some rows and columns, by masks."""
        dense = self.dense[np.ix_(rows, columns[~self.is_sparse])]
        sparse = self.sparse[np.flatnonzero(rows)][:, np.flatnonzero(columns[self.is_sparse])]
        return Cross(dense, sp.csr_array(sparse), self.is_sparse[columns])

    def to_dense(self) -> np.ndarray:
        """Return all entries, (m, q)."""
        found = np.empty(self.shape)
        found[:, ~self.is_sparse] = self.dense
        found[:, self.is_sparse] = self.sparse.toarray()
        return found
