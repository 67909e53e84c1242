"""Points of several objectives with kinks on the same rows, evaluated by one pass for all of them.

Each objective trains on the rows of a fold. Points are those that `Objective.at` makes, but for the
rounding of their sums, which is that of `worker.batched`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from daskglm.certificates.constants import Intercept
from daskglm.certificates.rounding import FLOAT32, Rounding
from daskglm.core.batch_requests import EvaluateMany
from daskglm.core.summation import LEAST_ROWS
from daskglm.objectives.batched import BatchObjective
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


@dataclass(frozen=True, eq=False)
class Trial:
    """Coefficients at which a solver wants its objective, the gradient and the Hessian.

    Parameters
    ----------
    objective : Objective
        Made by `Many.adapted`.
    place : Place
    w : (size,) array
    exact : bool
        Whether the Hessian is summed in float64, whatever the dtype of the rows.
    """

    objective: Objective
    place: Place
    w: np.ndarray
    exact: bool = False


class Many:
    """Objectives with kinks that share their passes.

    Parameters
    ----------
    rows : BatchObjective
        Of the same rows, by which requests go; it counts the passes.
    """

    def __init__(self, rows: BatchObjective) -> None:
        self.rows = rows

    def adapted(self, objective: Objective) -> Objective:
        """Return an objective, changed in place: its bounds allow for the rounding of these sums.

        Points that it evaluated before must not be used again.
        """
        facts = objective.engine.facts
        objective.rounding = Rounding(
            facts,
            objective.loss,
            Intercept.of(fit_intercept=objective.fit_intercept),
            on_device=False,
            run=LEAST_ROWS,
            penalty=objective.penalty.quadratic,
        )
        if facts.sparse:
            # tiles of sparse rows are made dense, so that their Grams are summed in float32
            objective.rounding.roundoff = FLOAT32
        return objective

    def evaluate(self, trials: Sequence[Trial]) -> list[Point]:
        """Evaluate all trials, with their Hessians. Cost: 1 pass, 1 round for all of them."""
        W = np.array([trial.objective.penalty.kinks.clip(trial.w) for trial in trials])
        fold = np.array([trial.place.fold for trial in trials])
        of = np.array([trial.place.of for trial in trials])
        exact, grams = any(trial.exact for trial in trials), tuple(range(len(trials)))
        totals = self.rows.ask(
            EvaluateMany(W, of, fold, self.rows.classes, gram=grams, exact=exact)
        )
        trained = self.rows.roles[:, fold] == 0
        losses = np.where(trained, totals["values"], 0.0).sum(axis=0)
        sums = zip(trials, W, losses, totals["gradients"][0], totals["grams"][0], strict=True)
        return [
            _point(trial.objective, w, float(loss), gradient, gram, exact=exact)
            for trial, w, loss, gradient, gram in sums
        ]


def _point(
    objective: Objective,
    w: np.ndarray,
    loss: float,
    gradient: np.ndarray,
    gram: np.ndarray,
    *,
    exact: bool,
) -> Point:
    """Make a point of an objective from sums of losses."""
    penalty, pull = objective.penalty.quadratic.value_and_gradient(w)
    hessian = objective.scale * gram
    objective.penalty.quadratic.add_to(hessian)
    point = Point(
        objective,
        w,
        objective.scale * loss + penalty + objective.penalty.kinks.value(w),
        objective.scale * gradient + pull,
        objective.new_token(),
        hessian,
        exact=exact or objective.rounding.is_exact,
    )
    return replace(point, near=_distance_of_intercept(point)) if objective.fit_intercept else point


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
