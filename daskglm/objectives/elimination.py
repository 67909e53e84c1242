"""Which factors' levels a Hessian has apart: the one rule for solvers and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.level_blocks import couples
from daskglm.objectives.margins import OneMargin

if TYPE_CHECKING:
    from daskglm.objectives.primal import Objective

Factors = tuple[tuple[int, int], ...]

# Coefficients up to which a Hessian is all entries: those looked at when fits end are.
MOST_WHOLE = 2000
# Share of the entries of a whole Hessian that one by blocks has at most, and bytes. Chosen.
MOST_ENTRIES, MOST_BYTES = 0.5, 2 << 30
# Share of the pairs of levels of two factors up to which those that rows can have are stored by
# themselves. A level with t of m levels of the other takes t^2 products of a sparse matrix, 10 ns
# each, or m^2 of a dense one, 0.1. By arithmetic.
FEW_PAIRS = 0.1
# Coefficients up to which a matrix of what is left is dense, and its Schur complement factorised:
# about a second, and 72 MB. Beyond, systems are solved by products. Chosen.
MOST_LEFT = 3000
# Bytes of a pair that is stored: its sum, and a number in the pattern.
PAIR_BYTES = 12


class Sizes(NamedTuple):
    """How large a Hessian with factors apart is.

    Parameters
    ----------
    nested : int
        Factors whose levels are diagonal blocks of their own; see `LevelBlocks`.
    levels : float
        Levels of these.
    left : float
        Coefficients that are left then.
    kept : float
        Those of no factor, with a constant.
    pairs : tuple of float
        Pairs of levels of two factors that rows can have, in the order of `couples`.
    """

    nested: int
    levels: float
    left: float
    kept: float
    pairs: tuple[float, ...]

    @classmethod
    def of(cls, summary: DataSummary, size: int, blocks: Factors) -> Sizes:
        """Return those of factors of rows, among so many coefficients."""
        sizes = [float(stop - start) for start, stop in blocks]
        rows, nested = float(summary.n_rows), nested_of(blocks, size)
        pairs = tuple(min(rows, sizes[a] * sizes[b]) for a, b in couples(blocks))
        levels = sum(sizes[:nested])
        return cls(nested, levels, size - levels, size + 1.0 - sum(sizes), pairs)

    @property
    def entries(self) -> float:
        """Sums that make the Hessian."""
        return (self.levels + self.left + 1.0) * self.kept + sum(self.pairs)


def nested_of(blocks: Factors, size: int) -> int:
    """Return how many factors must be diagonal blocks for what is left to be small."""
    left = size
    for count, (start, stop) in enumerate(blocks, 1):
        left -= stop - start
        if left <= MOST_LEFT:
            return count
    return len(blocks)


def blocks_of(objective: Objective) -> Factors:
    """Return coefficients [start, stop) of the factors that are apart, the eliminated one first.

    Only Hessians of smooth objectives of one margin over rows of codes in host memory have any.
    Not where margins have ends, at which expected curvatures take the place of a Hessian, nor
    around the centre of a proximal problem. Cost: nothing.
    """
    loss, penalty = objective.loss, objective.penalty
    suits = (
        isinstance(objective.margins, OneMargin)
        and objective.engine.capabilities.device == "cpu"
        and objective.xp is np
        and loss.differentiable
        and (loss.link is None or not loss.link.is_bounded)
        and penalty.is_smooth
        and penalty.quadratic.is_diagonal
        and objective.rows.view.columns is None
        and objective.problem.centre is None
    )
    return large_factors(objective.engine.facts, objective.size) if suits else ()


def large_factors(facts: DataSummary, size: int) -> Factors:
    """Return the largest factor and those with few pairs with it, if that saves enough.

    See `blocks_of`.
    """
    if size <= MOST_WHOLE or not facts.factors:
        return ()
    first, *others = sorted(facts.factors, key=lambda factor: factor[0] - factor[1])

    def share(other: tuple[int, int]) -> float:
        return facts.n_rows / (float(first[1] - first[0]) * max(other[1] - other[0], 1))

    blocks = first, *(each for each in others if share(each) <= FEW_PAIRS)
    sizes = Sizes.of(facts, size, blocks)
    complement = sizes.left**2
    saves = (
        sizes.left > 0
        and sizes.entries + complement <= MOST_ENTRIES * float(size) ** 2
        and 8.0 * (sizes.entries + complement) + PAIR_BYTES * sum(sizes.pairs) <= MOST_BYTES
    )
    return blocks if saves else ()
