"""Points of several objectives with kinks on the same rows, evaluated by one pass for all of them.

Each objective trains on the rows of a fold. Points are those that `Objective.at` makes, but for the
rounding of their sums, which is that of `worker.batched`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from daskglm.core.batch_requests import EvaluateMany
from daskglm.objectives.batched import BatchObjective, rounding_of_tiles
from daskglm.objectives.margins import Sums
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective


class Place(NamedTuple):
    """Which rows a problem trains on, and what their targets are.

    Parameters
    ----------
    fold : int
        The fold that is held out; -1: none.
    of : int
        Index of the class that is positive, see `EvaluateMany`; 0 for a regression.
    """

    fold: int
    of: int = 0


class Trial(NamedTuple):
    """Coefficients at which a solver wants its objective, the gradient and the Hessian.

    Parameters
    ----------
    objective : Objective
        Made by `adapted`.
    place : Place
    w : (size,) array
    exact : bool
        Whether the Hessian is summed in float64, whatever the dtype of the rows.
    """

    objective: Objective
    place: Place
    w: np.ndarray
    exact: bool = False


def adapted(objective: Objective) -> Objective:
    """Return an objective, changed in place: its bounds allow for the rounding of these sums.

    Points that it evaluated before must not be used again.
    """
    objective.rounding = rounding_of_tiles(
        objective.engine.facts,
        objective.loss,
        fit_intercept=objective.fit_intercept,
        penalty=objective.penalty.quadratic,
    )
    return objective


def evaluate_together(rows: BatchObjective, trials: Sequence[Trial]) -> list[Point]:
    """Evaluate all trials, with their Hessians, which train on these rows.

    Requests go by the objective of the batch, which counts the passes. Cost: 1 pass, 1 round for
    all of them.
    """
    W = np.array([trial.objective.penalty.kinks.clip(trial.w) for trial in trials])
    fold = np.array([trial.place.fold for trial in trials])
    of = np.array([trial.place.of for trial in trials])
    exact, grams = any(trial.exact for trial in trials), tuple(range(len(trials)))
    totals = rows.ask(EvaluateMany(W, of, fold, rows.classes, gram=grams, exact=exact))
    losses = np.where(rows.roles[:, fold] == 0, totals["values"], 0.0).sum(axis=0)
    points = []
    for k, (objective, *_) in enumerate(trials):
        sums = Sums(losses[k], totals["gradients"][0, k], totals["grams"][0, k])
        known = exact or objective.rounding.is_exact
        point = objective.point_of(sums, W[k], objective.new_token(), exact=known)
        if objective.fit_intercept:
            point = replace(point, near=_distance_of_intercept(point))
        points.append(point)
    return points


def _distance_of_intercept(point: Point) -> float:
    """Bound the distance of the intercept from the best one for these coefficients.

    As `OneMargin.near_constants`, but without a look at the rows: a change of the intercept by
    t is one of all margins, so that the curvature h along it is at least exp(-M |t|) h there, with
    the self-concordance M. Slopes then differ in sign between t and -t where
    h (1 - exp(-M t)) / M is larger than the slope here. Infinite where none is.
    """
    objective, rounding = point.objective, point.objective.rounding
    assert point.hessian is not None
    rate = objective.loss.self_concordance
    slope = abs(float(point.gradient[-1])) + point.error.slopes + point.error.adding
    curvature = float(point.hessian[-1, -1]) * (1.0 - rounding.gram(exact=point.exact))
    curvature *= math.exp(-rate * rounding.margin_error(point.w))
    share = rate * slope / curvature if curvature > 0.0 < rate else math.inf
    return -math.log1p(-share) / rate if share < 1.0 else math.inf
