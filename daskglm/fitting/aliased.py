"""Columns that depend on others before them, which a fit without a penalty has no coefficients for.

They are found as R finds them, in the order of the columns, the intercept first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from daskglm.data.partitions import Partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.independence import first_in_doubt, is_looked_at, system_of
from daskglm.fitting.runner import objective_of
from daskglm.fitting.setup import loaded
from daskglm.losses.table import find
from daskglm.objectives.elimination import nested_of
from daskglm.objectives.primal import Objective

# Share of a column's squared norm that others before it leave of a dependent one: R's (1e-7)^2,
# which a product with the column's combination tells.
DEPENDENT = 1e-14


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
        return _dependent(objective) if is_looked_at(objective) else []


def _dependent(objective: Objective) -> list[int]:
    d, blocks = objective.n_features, objective.blocks
    if blocks and nested_of(blocks, objective.size) > 1:
        diagonal = objective.at(objective.origin, diagonal=True, keep=False).diagonal
        return [] if diagonal is None else np.flatnonzero(diagonal[:d] == 0.0).tolist()
    point = objective.at(objective.origin, gram=True, curved=True, exact=True)
    system = system_of(point.known_hessian)
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
        at = first_in_doubt(matrix, passed)
        if at is None:
            break
        before, j = kept[:at], kept[at]
        combination = np.empty(0)  # the levels that are eliminated may make up the first one
        if at:
            factor = scipy.linalg.lapack.dpotrf(matrix[:at, :at], lower=1)[0]
            combination = scipy.linalg.lapack.dpotrs(factor, matrix[:at, at], lower=1)[0]
        v = np.zeros(len(size))
        v[j], v[before] = 1.0 / scale[j], -combination / scale[before]
        whole = system.whole(v)
        left = float(whole @ point.hessian_vector(whole))
        depends = left <= DEPENDENT * (1.0 + float(combination @ combination))
        if depends:
            entry = int(system.entries[j])
            if entry == d:  # it comes before the levels that make it up, of which the last depends
                entry = int(np.flatnonzero(np.abs(whole[:d]) > 0.5 * v[j])[-1])
            found.append(entry)
            kept = np.delete(kept, at)
        passed = at if depends else at + 1
    return sorted(j for j in found if j < d)
