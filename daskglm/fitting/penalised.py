"""From the penalty that a user asks for to the objective of one problem with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.column_requests import ColumnMoments
from daskglm.core.engine import Engine
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.losses.base import Loss
from daskglm.objectives.composite import Composite
from daskglm.penalties.builtin import penalty_of

# Share of a column's mean square below which its variance may be rounding: it is constant then.
CONSTANT = 1e-13


def composite_objective(
    engine: Engine,
    problem: Problem,
    loss: Loss,
    settings: FitConfig,
    columns: Sequence[str] | None,
    **given: Any,
) -> Composite:
    """Make the objective of one problem with the penalty of the settings.

    `columns` are names of features, `given` further arguments of `Objective`. Raises ValueError
    where the penalty does not fit the features. Cost: nothing; 1 pass to standardise.
    """
    d = engine.facts.n_features or 0
    asked = settings.penalty.for_features(d, columns)
    scale, passes = np.ones(d), 0.0
    if asked.standardize:
        scale = deviations(engine, problem)
        passes = 1.0
    none = math.isinf(given["C"])
    quadratic, terms = penalty_of(
        asked, scale, d + bool(settings.fit_intercept), strength=0.0 if none else 1.0
    )
    objective = Composite(engine, problem, loss, penalty=quadratic, terms=terms, **given)
    objective.passes += passes
    return objective


def deviations(engine: Engine, problem: Problem) -> np.ndarray:
    """Return the columns' weighted standard deviations, as glmnet has them: with 1 / sum(s).

    Of a constant column it is 1 here, so that its coefficient is penalised as it is. Cost: 1 pass.
    """
    totals = engine.total(problem, ColumnMoments())
    weight = float(totals["weight"])
    squares = np.asarray(totals["squares"]) / weight
    variance = squares - (np.asarray(totals["sums"]) / weight) ** 2
    constant = variance <= CONSTANT * squares
    return np.sqrt(np.where(constant, 1.0, variance))
