"""Columns that depend on others before them, which a fit without a penalty has no coefficients for.

They are found as R finds them, in the order of the columns, the intercept first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from daskglm.core.block_hessian import BlockHessian
from daskglm.data.partitions import Partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import objective_of
from daskglm.fitting.setup import loaded
from daskglm.losses.table import find
from daskglm.objectives.elimination import blocks_of, nested_of
from daskglm.objectives.primal import Objective

# Features up to which dependent columns are looked for where a Gram of all is formed: its factor
# takes seconds.
MOST_FEATURES = 5000
# Share of a column's squared norm that others before it leave of a dependent one: R's (1e-7)^2,
# which a product with the column's combination tells; by a Gram, which rounds more.
DEPENDENT, DOUBTFUL = 1e-14, 1e-9


def dependent_columns(data: Partitions, settings: FitConfig, client: Any) -> list[int]:
    """Return the numbers of the features that depend on those before them and the intercept.

    Rows count by their weight, and by the curvature of their loss where the fit starts. Of several
    factors of thousands of levels only levels without rows are told. Cost: 1
    pass for a Gram, beside loading, and 1 for each column that it leaves in doubt.
    """
    loss = find("logistic" if find(settings.loss).classifies else settings.loss)
    settings = replace(settings, loss=loss.full_name, solver="auto", class_weight=None)
    with loaded(data, settings, client) as on:
        problem, sides = on.problems[0]
        objective = objective_of(on.engine, problem, sides, loss, settings)
        if objective.only_side or not loss.differentiable:
            return []
        if objective.n_features > MOST_FEATURES and not blocks_of(objective):
            return []
        return _dependent(objective)


def _dependent(objective: Objective) -> list[int]:
    d, blocks = objective.n_features, objective.blocks
    if blocks and nested_of(blocks, objective.size) > 1:
        diagonal = objective.at(objective.origin, diagonal=True, keep=False).diagonal
        return [] if diagonal is None else np.flatnonzero(diagonal[:d] == 0.0).tolist()
    point = objective.at(objective.origin, gram=True, curved=True, exact=True)
    system = _system_of(point.known_hessian)
    size = np.sqrt(np.maximum(system.diagonal, 0.0))
    scale = np.where(size > 0.0, size, 1.0)
    scaled = system.matrix / np.outer(scale, scale)
    # the intercept, which is last, comes first
    order = np.roll(np.arange(len(size)), len(point.w) - d)
    kept = order[size[order] > 0.0]
    found = [*system.empty, *system.entries[size == 0.0].tolist()]
    passed = 0  # columns that are known to be independent
    while passed < len(kept):
        matrix = scaled[np.ix_(kept, kept)]
        at = _first_in_doubt(matrix, passed)
        if at is None:
            break
        before, j = kept[:at], kept[at]
        factor = scipy.linalg.lapack.dpotrf(matrix[:at, :at], lower=1)[0]
        combination = scipy.linalg.lapack.dpotrs(factor, matrix[:at, at], lower=1)[0]
        v = np.zeros(len(size))
        v[j], v[before] = 1.0 / scale[j], -combination / scale[before]
        left = float(system.whole(v) @ point.hessian_vector(system.whole(v)))
        depends = left <= DEPENDENT * (1.0 + float(combination @ combination))
        if depends:
            found.append(int(system.entries[j]))
            kept = np.delete(kept, at)
        passed = at if depends else at + 1
    return sorted(j for j in found if j < d)


class _System(NamedTuple):
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


def _system_of(hessian: Any) -> _System:
    if not isinstance(hessian, BlockHessian):
        matrix = np.asarray(hessian)
        return _System(matrix, matrix.diagonal(), np.arange(len(matrix)), [], lambda v: v)
    roots, cross, complement = hessian.schur
    levels, entries = hessian.parts_of(np.arange(len(hessian)))

    def whole(v: np.ndarray) -> np.ndarray:
        return hessian.joined(-(cross @ v) / roots, v)

    empty = levels[~(hessian.levels > 0.0)].tolist()
    return _System(complement, hessian.rest.diagonal(), entries, empty, whole)


def _first_in_doubt(matrix: np.ndarray, start: int) -> int | None:
    """Return the first column, from `start` on, that those before it nearly make up."""
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    end = failed - 1 if failed else len(matrix)
    small = np.flatnonzero(factor.diagonal()[:end] ** 2 <= DOUBTFUL)
    small = small[small >= start]
    if len(small):
        return int(small[0])
    return end if failed and end >= start else None
