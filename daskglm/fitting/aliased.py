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
from daskglm.fitting.runner import objective_of
from daskglm.fitting.setup import loaded
from daskglm.losses.table import find
from daskglm.objectives.primal import Objective

# Features up to which dependent columns are looked for: a factor of their Gram takes seconds.
MOST_FEATURES = 5000
# Share of a column's squared norm that others before it leave of a dependent one: R's (1e-7)^2,
# which a product with the column's combination tells; by a Gram, which rounds more.
DEPENDENT, DOUBTFUL = 1e-14, 1e-9


def dependent_columns(data: Partitions, settings: FitConfig, client: Any) -> list[int]:
    """Return the numbers of the features that depend on those before them and the intercept.

    Rows count by their weight, and by the curvature of their loss where the fit starts. Cost: 1
    pass for a Gram, beside loading, and 1 for each column that it leaves in doubt.
    """
    if data.width is None or data.width > MOST_FEATURES:
        return []
    loss = find("logistic" if find(settings.loss).classifies else settings.loss)
    settings = replace(settings, loss=loss.full_name, solver="auto", class_weight=None)
    with loaded(data, settings, client) as on:
        problem, sides = on.problems[0]
        objective = objective_of(on.engine, problem, sides, loss, settings)
        if objective.only_side or not loss.differentiable:
            return []
        return _dependent(objective)


def _dependent(objective: Objective) -> list[int]:
    point = objective.at(objective.origin, gram=True, curved=True, exact=True)
    hessian, d = np.asarray(point.known_hessian), objective.n_features
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    empty = scale == 0.0
    scaled = hessian / np.outer(np.where(empty, 1.0, scale), np.where(empty, 1.0, scale))
    # the intercept, which is last, comes first
    order = np.roll(np.arange(len(scaled)), len(scaled) - d)
    kept = order[~empty[order]]
    found = [int(j) for j in order if empty[j]]
    passed = 0  # columns that are known to be independent
    while passed < len(kept):
        matrix = scaled[np.ix_(kept, kept)]
        at = _first_in_doubt(matrix, passed)
        if at is None:
            break
        before, j = kept[:at], kept[at]
        factor = scipy.linalg.lapack.dpotrf(matrix[:at, :at], lower=1)[0]
        combination = scipy.linalg.lapack.dpotrs(factor, matrix[:at, at], lower=1)[0]
        v = np.zeros(len(scaled))
        v[j], v[before] = 1.0 / scale[j], -combination / scale[before]
        left = float(v @ point.hessian_vector(v))
        depends = left <= DEPENDENT * (1.0 + float(combination @ combination))
        if depends:
            found.append(int(j))
            kept = np.delete(kept, at)
        passed = at if depends else at + 1
    return sorted(j for j in found if j < d)


def _first_in_doubt(matrix: np.ndarray, start: int) -> int | None:
    """Return the first column, from `start` on, that those before it nearly make up."""
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    end = failed - 1 if failed else len(matrix)
    small = np.flatnonzero(factor.diagonal()[:end] ** 2 <= DOUBTFUL)
    small = small[small >= start]
    if len(small):
        return int(small[0])
    return end if failed and end >= start else None
