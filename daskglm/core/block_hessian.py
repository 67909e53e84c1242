"""Hessians whose part by the levels of one factor is diagonal, and their Schur complements.

No row has two of the levels, so that no two of them meet. With D the levels' part, A that of all
other coefficients and B the products of both, levels times others, a system is solved by the Schur
complement S = A - B'D^-1 B (Nocedal & Wright, section 16.2, of another block matrix).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from daskglm.core.matrices import mirror_upper


class Schur(NamedTuple):
    """What elimination of the levels leaves.

    Parameters
    ----------
    roots : (m,) array
        Roots of D; one where D is zero.
    cross : (m, q) array
        B over those roots.
    complement : (q, q) array
        S.
    """

    roots: np.ndarray
    cross: np.ndarray
    complement: np.ndarray


@dataclass(frozen=True, eq=False)
class BlockHessian:
    """A symmetric matrix (n, n) with a diagonal block, n = m + q.

    Parameters
    ----------
    start : int
        The first coefficient of the block.
    levels : (m,) array
        D, the diagonal of the block.
    cross : (m, q) array
        B, its rows times the other columns.
    rest : (q, q) array
        A, all of it.
    """

    start: int
    levels: np.ndarray
    cross: np.ndarray
    rest: np.ndarray

    @classmethod
    def of_sums(
        cls, gram: np.ndarray, start: int, scale: float, diagonal: np.ndarray
    ) -> BlockHessian:
        """Return `scale` times the Gram of an `Evaluate` with a block, plus a diagonal (n,).

        Where that is shorter by one, there is no constant among the coefficients.
        """
        m = gram.shape[0] - gram.shape[1]
        q = len(diagonal) - m
        rest = scale * gram[:q, :q]
        mirror_upper(rest)
        found = cls(start, scale * gram[-m:, -1], scale * gram[-m:, :q], rest)
        return found.plus_diagonal(diagonal)

    # ---- as of an array
    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return len(self), len(self)

    def __len__(self) -> int:
        return len(self.levels) + len(self.rest)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return self.levels.nbytes + self.cross.nbytes + self.rest.nbytes

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, (n,)."""
        return self.joined(self.levels, self.rest.diagonal())

    def any(self) -> bool:
        """Return whether any entry is not zero."""
        return bool(self.levels.any() or self.rest.any())

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        """Multiply a vector (n,)."""
        levels, rest = self.parts_of(v)
        return self.joined(
            self.levels * levels + self.cross @ rest, self.cross.T @ levels + self.rest @ rest
        )

    # ---- parts
    @property
    def is_finite(self) -> bool:
        """Whether all entries are finite."""
        return all(bool(np.isfinite(each).all()) for each in (self.levels, self.cross, self.rest))

    @property
    def stop(self) -> int:
        """One past the last coefficient of the block."""
        return self.start + len(self.levels)

    def parts_of(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of a vector by the levels, and by the others."""
        return v[self.start : self.stop], np.concatenate([v[: self.start], v[self.stop :]])

    def joined(self, levels: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the vector (n,) of such parts."""
        return np.concatenate([rest[: self.start], levels, rest[self.start :]])

    def plus_diagonal(self, diagonal: np.ndarray) -> BlockHessian:
        """Return the sum with a diagonal matrix, (n,) array."""
        levels, rest = self.parts_of(diagonal)
        return replace(self, levels=self.levels + levels, rest=self.rest + np.diag(rest))

    def times(self, scale: float) -> BlockHessian:
        """Return the matrix times a number."""
        parts = (scale * each for each in (self.levels, self.cross, self.rest))
        return BlockHessian(self.start, *parts)

    def principal(self, entries: np.ndarray) -> BlockHessian:
        """Return the rows and columns of these entries: their numbers, ascending, or a mask."""
        chosen = np.zeros(len(self), bool)
        chosen[entries] = True
        levels, rest = self.parts_of(chosen)
        return BlockHessian(
            int(chosen[: self.start].sum()),
            self.levels[levels],
            self.cross[np.ix_(levels, rest)],
            self.rest[np.ix_(rest, rest)],
        )

    def to_dense(self) -> np.ndarray:
        """Return all entries, (n, n)."""
        found = np.zeros(self.shape)
        own = np.arange(self.start, self.stop)
        others = np.delete(np.arange(len(self)), own)
        found[own, own] = self.levels
        found[np.ix_(own, others)] = self.cross
        found[np.ix_(others, own)] = self.cross.T
        found[np.ix_(others, others)] = self.rest
        return found

    @cached_property
    def schur(self) -> Schur:
        """The Schur complement of the levels; those without curvature count as absent."""
        roots = np.sqrt(self.levels)
        roots[~(roots > 0.0)] = 1.0
        cross = self.cross / roots[:, None]
        return Schur(roots, cross, self.rest - cross.T @ cross)


def principal(hessian: np.ndarray | BlockHessian, entries: np.ndarray) -> np.ndarray | BlockHessian:
    """Return the rows and columns of a Hessian by these entries: ascending numbers, or a mask."""
    if isinstance(hessian, BlockHessian):
        return hessian.principal(entries)
    return hessian[np.ix_(entries, entries)]
