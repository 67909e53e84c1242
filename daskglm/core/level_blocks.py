"""Factors whose levels a Gram of coded rows keeps apart, and which of the levels occur together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class Pairs:
    """Levels of two factors that occur in one row: the pattern of a CSR matrix.

    Parameters
    ----------
    indptr : (m + 1,) int64 array
        Where those of each level of the first factor begin.
    indices : int32 array
        Levels of the second one, ascending for each of the first.
    alone : (m + q,) array of bool
        Which levels a row with weight has without one of the other factor: of the first, then of
        the second.
    idle : array of bool, optional
        Of each of `indices`, whether no row with weight has the pair; default: some row has each.
    """

    indptr: np.ndarray
    indices: np.ndarray
    alone: np.ndarray
    idle: np.ndarray | None = None

    def matrix(self, values: np.ndarray, columns: int) -> sp.csr_array:
        """Return the matrix of these values, without the pairs that no row with weight has."""
        indptr, indices = self.indptr, self.indices
        if self.idle is not None:
            indptr = np.append(0, np.cumsum(~self.idle))[indptr]
            values, indices = values[~self.idle], indices[~self.idle]
        return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, columns))


@dataclass(frozen=True, eq=False)
class LevelBlocks:
    """Factors that are kept apart.

    Parameters
    ----------
    factors : tuple of (int, int)
        Coefficients [start, stop) of each; see `DataSummary.factors`.
    pairs : tuple of Pairs
        Of each two of them, in the order of `couples`.
    nested : int
        How many of the factors, from the first on, Hessians have as diagonal blocks; the levels of
        others are in a dense matrix, with all that is left.
    """

    factors: tuple[tuple[int, int], ...]
    pairs: tuple[Pairs, ...] = ()
    nested: int = 1

    @property
    def sizes(self) -> list[int]:
        """Number of levels of each factor."""
        return [stop - start for start, stop in self.factors]

    @property
    def slots(self) -> int:
        """Number of pairs of levels that occur."""
        return sum(len(each.indices) for each in self.pairs)

    def shape_of_gram(self, n_features: int) -> tuple[int, int]:
        """Return the shape of the Gram of so many features; see `Evaluate`."""
        total = sum(self.sizes)
        q = n_features + 1 - total
        return q + total + -(-self.slots // q), q


def distinct(keys: np.ndarray) -> np.ndarray:
    """Return each number once, ascending: by sorting, which takes a tenth of what hashing does."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]


def couples(factors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the numbers (a, b), a < b, of each two factors."""
    return list(itertools.combinations(range(len(factors)), 2))


@dataclass(frozen=True)
class LevelPairs:
    """Find which levels of factors occur in one row, whatever its weight, and which alone. 1 pass.

    Only for rows of codes in host memory.

    Parameters
    ----------
    factors : tuple of (int, int)
        Coefficients [start, stop); see `DataSummary.factors`.

    Reply: pairs, a `PairKeys`.
    """

    factors: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class PairKeys:
    """Pairs of levels that occur, as numbers; adding joins those of other rows.

    Parameters
    ----------
    keys : tuple of int64 arrays
        Of each two of the factors, in the order of `couples`: the level of the first, times one
        more than the levels of the second, plus the level of the second; ascending. A row without
        a level of one, that weighs something, counts as of a level after all of that. All that
        twice, and one more for a row without weight.
    """

    keys: tuple[np.ndarray, ...]

    def __add__(self, other: PairKeys) -> PairKeys:
        """Return the pairs of both."""
        both = zip(self.keys, other.keys, strict=True)
        return PairKeys(tuple(distinct(np.concatenate(each)) for each in both))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.keys)

    def blocks(self, factors: tuple[tuple[int, int], ...], nested: int = 1) -> LevelBlocks:
        """Return the factors with their pairs; `nested` is that of `LevelBlocks`."""
        found = LevelBlocks(factors)
        sizes, pairs = found.sizes, []
        for (a, b), keys in zip(couples(factors), self.keys, strict=True):
            m, q = sizes[a], sizes[b]
            once = keys >> 1  # that of a row with weight is before one without
            first = np.append(True, once[1:] != once[:-1])[: len(once)]
            rows, indices = np.divmod(once[first], q + 1)
            alone = np.zeros(m + q, bool)
            alone[rows[(rows < m) & (indices == q)]] = True
            alone[m + indices[(rows == m) & (indices < q)]] = True
            both = (rows < m) & (indices < q)
            counts = np.bincount(rows[both], minlength=m)
            indptr = np.append(0, np.cumsum(counts)).astype(np.int64)
            idle = (keys[first] & 1)[both] > 0
            only = idle if idle.any() else None
            pairs.append(Pairs(indptr, indices[both].astype(np.int32), alone, only))
        return LevelBlocks(factors, tuple(pairs), nested)
