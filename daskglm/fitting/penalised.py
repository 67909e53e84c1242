"""From the penalty that a user asks for to the objective of one problem with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.column_requests import ColumnMoments
from daskglm.core.engine import Engine
from daskglm.core.requests import Problem
from daskglm.data.partitions import Partitions
from daskglm.fitting.config import FitConfig
from daskglm.losses.base import Loss
from daskglm.objectives.margins import Margins
from daskglm.objectives.primal import Objective
from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.resolved import ResolvedPenalty
from daskglm.solvers import get_solver

# Share of a column's mean square below which its variance may be rounding: it is constant then.
CONSTANT = 1e-13


def wants_any_penalty(settings: FitConfig) -> bool:
    """Return whether a fit wants bounds that hold for any penalty: for its own, or for its solver.

    Solvers of kinks ask the objective for those of its penalty, of any penalty; those of the dual
    problem do not.
    """
    if not settings.penalty.is_plain:
        return True
    spec = None if settings.solver == "auto" else get_solver(settings.solver)
    if spec is None or spec.solves_dual or spec.rounds_corners:
        return False
    return spec.takes_kinks


def with_penalty(
    engine: Engine,
    problem: Problem,
    loss: Loss,
    settings: FitConfig,
    margins: Margins,
    *,
    scale: np.ndarray | None = None,
    **given: Any,
) -> Objective:
    """Make the objective of one problem with the penalty of the settings.

    Parameters
    ----------
    margins : Margins
    scale : (d,) array, optional
        That of `scale_of`, if it is known.
    **given
        Further arguments of `Objective`.

    Raises ValueError where the penalty does not fit the features. Cost: nothing; 1 pass to
    standardise.
    """
    if not wants_any_penalty(settings):
        return Objective(engine, problem, loss, margins=margins, **given)
    d, passes, sets = margins.width, 0.0, margins.sets
    asked = settings.penalty.for_features(d, None)
    if scale is None:
        scale, passes = scale_of(engine, problem, asked)
    if sets > 1:
        asked, scale = asked.repeated(sets, d), np.tile(scale, sets)
    strength = 0.0 if math.isinf(given["C"]) else 1.0
    given["penalty"] = penalty_of(asked, scale, margins.size, strength=strength)
    objective = Objective(engine, problem, loss, margins=margins, any_penalty=True, **given)
    objective.rows.meter.passes = objective.prepared = passes
    return objective


def scale_of(engine: Engine, problem: Problem, asked: ResolvedPenalty) -> tuple[np.ndarray, float]:
    """Return what a penalty multiplies coefficients by, (d,), and the passes that took."""
    if not asked.standardize:
        return np.broadcast_to(np.ones(1), engine.facts.n_features or 0), 0.0
    return deviations(engine, problem), 1.0


def with_columns(settings: FitConfig, data: Partitions) -> FitConfig:
    """Return settings whose penalty has arrays for the columns of the data, if these are known.

    Raises ValueError, before any loading, for names and lengths that do not fit them.
    """
    if settings.penalty.is_plain or data.width is None:
        return settings
    found = settings.penalty.for_features(data.width, data.columns)
    groups = None
    if found.groups is not None:
        groups = np.zeros(data.width, np.int64)
        for k, group in enumerate(found.groups):
            groups[group] = k
    penalty = replace(
        settings.penalty,
        penalty_factor=found.factors,
        lower_bounds=found.lower,
        upper_bounds=found.upper,
        groups=groups,
    )
    return replace(settings, penalty=penalty)


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
