"""Hessians whose part by the levels of one factor is diagonal, and their Schur complements.

No row has two of the levels, so that no two of them meet. With D the levels' part, A that of all
other coefficients and B the products of both, levels times others, a system is solved by the Schur
complement S = A - B'D^-1 B (Nocedal & Wright, section 16.2, of another block matrix). Where another
factor has too many levels for a dense A, that is such a matrix, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.core.cross import Cross
from daskglm.core.level_blocks import LevelBlocks, couples
from daskglm.core.matrices import mirror_upper


class Schur(NamedTuple):
    """What elimination of the levels leaves.

    Parameters
    ----------
    roots : (m,) array
        Roots of D; one where D is zero.
    cross : Cross
        B over those roots.
    complement : (q, q) array
        S.
    """

    roots: np.ndarray
    cross: Cross
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
    cross : Cross
        B, its rows times the other columns, (m, q).
    rest : (q, q) array or BlockHessian
        A, all of it.
    alone : (m + k,) array of bool, optional
        Of the levels, and those k of a block of the rest, which may have curvature beside that of
        their pairs: some row has them without one of the other block. Default: that is not known.
    """

    start: int
    levels: np.ndarray
    cross: Cross
    rest: np.ndarray | BlockHessian
    alone: np.ndarray | None = None

    @classmethod
    def of_sums(
        cls, gram: np.ndarray, blocks: LevelBlocks, scale: float, diagonal: np.ndarray
    ) -> BlockHessian:
        """Return `scale` times the Gram of an `Evaluate` with blocks, plus a diagonal (n,).

        The first factor's levels are the diagonal block, those of the next the diagonal block of
        the rest, for as many as are `nested`. Where `diagonal` is shorter by one, there
        is no constant among the coefficients.
        """
        found = _of_parts(_parts_of(gram, blocks, scale, len(diagonal)), 0)
        assert isinstance(found, cls)
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
        """Multiply a vector (n,), or a matrix (n, K)."""
        levels, rest = self.parts_of(v)
        return self.joined(
            (self.levels * levels.T).T + self.cross @ rest,
            self.cross.transposed_times(levels) + self.rest @ rest,
        )

    # ---- parts
    @property
    def is_finite(self) -> bool:
        """Whether all entries are finite."""
        rest = self.rest
        known = rest.is_finite if isinstance(rest, BlockHessian) else np.isfinite(rest).all()
        return bool(known and np.isfinite(self.levels).all()) and self.cross.is_finite

    @property
    def stop(self) -> int:
        """One past the last coefficient of the block."""
        return self.start + len(self.levels)

    def parts_of(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of a vector, or rows of a matrix, by the levels, and by the others."""
        return v[self.start : self.stop], np.concatenate([v[: self.start], v[self.stop :]])

    def joined(self, levels: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the vector (n,), or the matrix, of such parts."""
        return np.concatenate([rest[: self.start], levels, rest[self.start :]])

    def plus_diagonal(self, diagonal: np.ndarray) -> BlockHessian:
        """Return the sum with a diagonal matrix, (n,) array."""
        levels, rest = self.parts_of(diagonal)
        held = bool(levels.any())
        if isinstance(self.rest, BlockHessian):
            found: Any = self.rest.plus_diagonal(rest)
            held |= bool(self.rest.parts_of(rest)[0].any())
        else:
            found = self.rest + np.diag(rest)
        alone = None if held else self.alone
        return replace(self, levels=self.levels + levels, rest=found, alone=alone)

    def times(self, scale: float) -> BlockHessian:
        """Return the matrix times a number."""
        rest = self.rest
        rest = rest.times(scale) if isinstance(rest, BlockHessian) else scale * rest
        cross = self.cross.scaled(scale)
        return replace(self, levels=scale * self.levels, cross=cross, rest=rest)

    def principal(self, entries: np.ndarray) -> BlockHessian:
        """Return the rows and columns of these entries: their numbers, ascending, or a mask."""
        chosen = np.zeros(len(self), bool)
        chosen[entries] = True
        if chosen.all():
            return self
        levels, rest = self.parts_of(chosen)
        return BlockHessian(
            int(chosen[: self.start].sum()),
            self.levels[levels],
            self.cross.taken(levels, rest),
            principal(self.rest, np.flatnonzero(rest)),
        )

    def to_dense(self) -> np.ndarray:
        """Return all entries, (n, n)."""
        found = np.zeros(self.shape)
        own = np.arange(self.start, self.stop)
        others = np.delete(np.arange(len(self)), own)
        found[own, own] = self.levels
        found[np.ix_(own, others)] = cross = self.cross.to_dense()
        found[np.ix_(others, own)] = cross.T
        found[np.ix_(others, others)] = dense(self.rest)
        return found

    @property
    def is_nested(self) -> bool:
        """Whether the rest has a diagonal block, too."""
        return isinstance(self.rest, BlockHessian)

    @cached_property
    def scaled_cross(self) -> tuple[np.ndarray, Cross]:
        """Roots of D, one where D is zero, and B over those."""
        roots = np.sqrt(self.levels)
        roots[~(roots > 0.0)] = 1.0
        return roots, self.cross.scaled(1.0 / roots)

    @cached_property
    def schur(self) -> Schur:
        """The Schur complement of the levels; those without curvature count as absent."""
        roots, cross = self.scaled_cross
        return Schur(roots, cross, dense(self.rest) - cross.gram())


def principal(hessian: np.ndarray | BlockHessian, entries: np.ndarray) -> np.ndarray | BlockHessian:
    """Return the rows and columns of a Hessian by these entries: ascending numbers, or a mask."""
    if isinstance(hessian, BlockHessian):
        return hessian.principal(entries)
    return hessian[np.ix_(entries, entries)]


def dense(matrix: np.ndarray | BlockHessian) -> np.ndarray:
    """Return all entries of a matrix."""
    return matrix.to_dense() if isinstance(matrix, BlockHessian) else matrix


# ---- from sums
class _Factor(NamedTuple):
    """What was summed of one factor: its first coefficient, and products of its levels.

    Parameters
    ----------
    start : int
    levels : (m,) array
        With themselves.
    dense : (m, k) array
        With coefficients that no factor has.
    sparse : dict of int to csr_array
        With the levels of each factor after it.
    alone : dict of int to array
        `Pairs.alone`, for each factor after it.
    """

    start: int
    levels: np.ndarray
    dense: np.ndarray
    sparse: dict[int, sp.csr_array]
    alone: dict[int, np.ndarray]


class _Parts(NamedTuple):
    """All that was summed: of each factor, and (k, k) of coefficients that no factor has."""

    factors: Sequence[_Factor]
    kept: np.ndarray
    nested: int


def _parts_of(gram: np.ndarray, blocks: LevelBlocks, scale: float, size: int) -> _Parts:
    sizes, q = blocks.sizes, gram.shape[1]
    k, tops = size - sum(sizes), [*(q + np.cumsum([0, *sizes])).tolist()]
    kept = scale * gram[:k, :k]
    mirror_upper(kept)
    sparse: list[dict[int, sp.csr_array]] = [{} for _ in sizes]
    alone: list[dict[int, np.ndarray]] = [{} for _ in sizes]
    slots, at = scale * gram[tops[-1] :].ravel(), 0
    for (a, b), pairs in zip(couples(blocks.factors), blocks.pairs, strict=True):
        values = slots[at : at + len(pairs.indices)]
        sparse[a][b] = pairs.matrix(values, sizes[b])
        alone[a][b] = pairs.alone
        at += len(values)
    rows = [scale * gram[top : top + m] for top, m in zip(tops, sizes, strict=False)]
    of = zip(blocks.factors, rows, sparse, alone, strict=True)
    factors = [_Factor(start, row[:, -1], row[:, :k], *own) for (start, _), row, *own in of]
    return _Parts(factors, kept, blocks.nested)


def _of_parts(parts: _Parts, a: int) -> BlockHessian | np.ndarray:
    """Return the matrix of all coefficients but those of the factors before number `a`."""
    if a == len(parts.factors):
        return parts.kept
    own, sizes = parts.factors[a], [len(each.levels) for each in parts.factors]
    starts = [each.start for each in parts.factors]

    def place(b: int, gone: int) -> int:
        """Return where a factor begins once those before number `gone` are left out."""
        return starts[b] - sum(
            m for m, at in zip(sizes[:gone], starts, strict=False) if at < starts[b]
        )

    rest = _of_parts(parts, a + 1)
    rest = dense(rest) if a + 1 >= parts.nested else rest
    is_sparse, found = np.zeros(len(rest), bool), sp.csr_array((sizes[a], 0))
    for b in sorted(own.sparse, key=lambda b: starts[b]):
        begin = place(b, a + 1)
        is_sparse[begin : begin + sizes[b]] = True
        found = sp.csr_array(sp.hstack([found, own.sparse[b]], format="csr"))
    cross = Cross(own.dense, found, is_sparse)
    return BlockHessian(place(a, a), own.levels, cross, rest, own.alone.get(a + 1))
