"""Whether columns depend on others, told by a Hessian: at no cost where a fit has one anyhow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from daskglm.core.block_hessian import BlockHessian
from daskglm.core.device import to_host
from daskglm.objectives.elimination import blocks_of, nested_of
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterates

# Features up to which dependent columns are looked for where a Gram of all is formed: its factor
# takes seconds.
MOST_FEATURES = 5000
# Share of a column's squared norm that others before it leave, from which a Hessian tells that it
# does not depend on them: roundings of sums in float64, and of products in float32, are below.
# Chosen.
DOUBTFUL, DOUBTFUL_SINGLE = 1e-9, 1e-4


class ColumnsInDoubt(Exception):
    """Columns may depend on others: they are to be looked for before a fit."""


def is_looked_at(objective: Objective) -> bool:
    """Return whether columns that depend on others are looked for."""
    if objective.only_side or not objective.loss.differentiable:
        return False
    return objective.n_features <= MOST_FEATURES or bool(blocks_of(objective))


def of_independent_columns(
    objective: Objective, w: Any, iterates: Iterates, *, with_hessian: bool
) -> Iterates:
    """Pass on the iterates of a solver, and look at the first Hessian of all rows.

    Cost: nothing; 1 pass at w where the solver has none (`with_hessian`).

    Raises
    ------
    ColumnsInDoubt
        Where columns may depend on others.
    """
    looked = not is_looked_at(objective)
    if not (looked or with_hessian):
        _look(objective, objective.at(w, gram=True, keep=False, exact=True))
        looked = True
    while True:
        try:
            iterate = next(iterates)
        except StopIteration as end:
            if not looked:
                _look(objective, objective.at(iterate.point.w, gram=True, keep=False, exact=True))
            return end.value
        if not looked and iterate.point.hessian is not None:
            _look(objective, iterate.point)
            looked = True
        yield iterate


def _look(objective: Objective, point: Point) -> None:
    hessian = point.known_hessian
    if blocks_of(objective) and nested_of(objective.blocks, objective.size) > 1:
        doubtful = not (hessian.diagonal() > 0.0).all()
    else:
        system = system_of(hessian)
        size = np.sqrt(np.maximum(system.diagonal, 0.0))
        doubtful = bool(system.empty) or not (size > 0.0).all()
        if not doubtful:
            scaled = system.matrix / np.outer(size, size)
            enough = DOUBTFUL if point.exact else DOUBTFUL_SINGLE
            doubtful = first_in_doubt(scaled, 0, enough) is not None
    if doubtful:
        raise ColumnsInDoubt


class System(NamedTuple):
    """What columns leave of each other once levels are eliminated, if there are any.

    Parameters
    ----------
    matrix : (q, q) array
        The Hessian, or the Schur complement of its levels.
    diagonal : (q,) array
        That of the Hessian.
    entries : (q,) array
        Numbers of these coefficients.
    empty : list of int
        Levels without a row of weight.
    whole : callable
        Makes a vector of all coefficients of one of these, whose levels follow.
    """

    matrix: np.ndarray
    diagonal: np.ndarray
    entries: np.ndarray
    empty: list[int]
    whole: Callable[[np.ndarray], np.ndarray]


def system_of(hessian: Any) -> System:
    """Return what a Hessian says of columns."""
    if not isinstance(hessian, BlockHessian):
        matrix = np.asarray(to_host(hessian))
        return System(matrix, matrix.diagonal(), np.arange(len(matrix)), [], lambda v: v)
    roots, cross, complement = hessian.schur
    levels, entries = hessian.parts_of(np.arange(len(hessian)))

    def whole(v: np.ndarray) -> np.ndarray:
        return hessian.joined(-(cross @ v) / roots, v)

    empty = levels[~(hessian.levels > 0.0)].tolist()
    return System(complement, hessian.rest.diagonal(), entries, empty, whole)


def first_in_doubt(matrix: np.ndarray, start: int, enough: float = DOUBTFUL) -> int | None:
    """Return the first column, from `start` on, that those before it nearly make up.

    They leave `enough` of its squared norm, or less.
    """
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    end = failed - 1 if failed else len(matrix)
    small = np.flatnonzero(factor.diagonal()[:end] ** 2 <= enough)
    small = small[small >= start]
    if len(small):
        return int(small[0])
    return end if failed and end >= start else None
