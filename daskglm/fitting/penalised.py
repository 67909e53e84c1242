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
from daskglm.objectives.composite import Composite
from daskglm.objectives.multinomial_composite import MultinomialComposite
from daskglm.objectives.ordinal_composite import OrdinalComposite
from daskglm.objectives.output_bounds import contrasts
from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.resolved import ResolvedPenalty
from daskglm.solvers import get_solver

# Share of a column's mean square below which its variance may be rounding: it is constant then.
CONSTANT = 1e-13


def wants_composite(settings: FitConfig) -> bool:
    """Return whether a fit takes a `Composite`: for its penalty, or for the solver asked for.

    Solvers of kinks ask the objective for the terms of its penalty, of any penalty; those of the
    dual problem do not.
    """
    if not settings.penalty.is_plain:
        return True
    spec = None if settings.solver == "auto" else get_solver(settings.solver)
    if spec is None or spec.solves_dual or spec.rounds_corners:
        return False
    return spec.takes_kinks


def composite_objective(
    engine: Engine,
    problem: Problem,
    loss: Loss,
    settings: FitConfig,
    scale: np.ndarray | None = None,
    **given: Any,
) -> Composite:
    """Make the objective of one problem with the penalty of the settings.

    `scale` is that of `scale_of`, if it is known, `given` are further arguments of `Objective`.
    Raises ValueError where the penalty does not fit the features. Cost: nothing; 1 pass to
    standardise.
    """
    asked = settings.penalty.for_features(engine.facts.n_features or 0, None)
    passes = 0.0
    if scale is None:
        scale, passes = scale_of(engine, problem, asked)
    strength = 0.0 if math.isinf(given["C"]) else 1.0
    objective = with_strength(engine, problem, loss, asked, scale, strength, **given)
    objective.rows.meter.passes = objective.prepared = passes
    return objective


def multinomial_composite(
    engine: Engine, problem: Problem, loss: Loss, settings: FitConfig, **given: Any
) -> MultinomialComposite:
    """Make the objective of all classes with the penalty of the settings, alike for each class.

    `given` are further arguments of `MultinomialObjective`. Raises ValueError where the penalty
    does not fit the features. Cost: nothing; 1 pass to standardise.
    """
    K = len(given["classes"])
    basis = contrasts(K) if settings.penalty.is_smooth else np.eye(K)
    d, sets = engine.facts.n_features or 0, basis.shape[1]
    asked = settings.penalty.for_features(d, None)
    scale, passes = scale_of(engine, problem, asked)
    penalty, terms = penalty_of(
        asked.repeated(sets, d),
        np.tile(scale, sets),
        sets * (d + bool(given["fit_intercept"])),
        strength=0.0 if math.isinf(given["C"]) else 1.0,
    )
    objective = MultinomialComposite(
        engine, problem, loss, basis=basis, penalty=penalty, terms=terms, **given
    )
    objective.rows.meter.passes = objective.prepared = passes
    return objective


def ordinal_composite(
    engine: Engine, problem: Problem, loss: Loss, settings: FitConfig, **given: Any
) -> OrdinalComposite:
    """Make the objective of ordered classes with the penalty of the settings.

    `given` are further arguments of `OrdinalObjective`. Raises ValueError where the penalty does
    not fit the features. Cost: nothing; 1 pass to standardise.
    """
    d = engine.facts.n_features or 0
    asked = settings.penalty.for_features(d, None)
    scale, passes = scale_of(engine, problem, asked)
    penalty, terms = penalty_of(
        asked,
        scale,
        d + len(given["classes"]) - 1,
        strength=0.0 if math.isinf(given["C"]) else 1.0,
    )
    objective = OrdinalComposite(engine, problem, loss, penalty=penalty, terms=terms, **given)
    objective.rows.meter.passes = objective.prepared = passes
    return objective


def with_strength(
    engine: Engine,
    problem: Problem,
    loss: Loss,
    asked: ResolvedPenalty,
    scale: np.ndarray,
    strength: float,
    **given: Any,
) -> Composite:
    """Make an objective whose penalty is multiplied by a strength; `scale` is that of `scale_of`.

    Cost: nothing.
    """
    size = len(scale) + bool(given["fit_intercept"])
    quadratic, terms = penalty_of(asked, scale, size, strength=strength)
    return Composite(engine, problem, loss, penalty=quadratic, terms=terms, **given)


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
