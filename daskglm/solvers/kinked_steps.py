"""Solve proximal steps whose penalty has kinks: of all features, or of working sets of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.certificates.far_columns import apart
from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.penalties.descent import Minimum, minimise
from daskglm.penalties.product_descent import minimise_by_products
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.proximal_steps import FOR_PRODUCTS, change_of_model
from daskglm.solvers.working_sets import WHOLE, KeptSet, working_set

# Share of the curvature of all rows that a model has at least: where few rows are within corners.
# Chosen.
SMALL = 1e-9
# Share of a model's residual that is left. With 1e-6 hinges on rcv1_binary took as many points, and
# two to four times as long: models of few rows within corners are singular but for `SMALL`
# (260 and 630 coefficients, 2026-11-28).
MODEL_SHARE = 0.03
# Coefficients up to which Hessians are formed. Chosen.
MOST_FORMED = 1000
# Of columns of zeros.
TINY = 1e-300
# Features from which working sets are solved for, and of the first one; by how many times its
# nonzero coefficients a later one may be larger. Chosen.
FIRST_SET, GROWTH = 50, 2
# Share of the bound of all features to which a working set is solved. Chosen.
SET_SHARE = 0.1
# Iterations on a working set at most. Chosen.
SET_ITERATIONS = 15


def step_solver(objective: Objective) -> Callable[[Objective, np.ndarray], Iterates]:
    """Return the solver of proximal steps of an objective. Cost: that of a survey, if none was."""
    if objective.rounding.squares is None:
        objective.bounds.survey()
    squares = objective.rounding.squares
    assert squares is not None
    if objective.margins.constants == 1:
        # of columns with means far from zero a share would be more than the curvature there is
        squares = apart(objective.rounding, objective.total_weight)
    few = objective.n_features <= FIRST_SET or not objective.penalty.is_held
    kept = KeptSet()

    def solve(primal: Objective, w: np.ndarray) -> Iterates:
        # columns of a sample are not worth a copy
        if few or primal.is_sample:
            return newton_with_kinks(squares, primal, w)
        return newton_on_sets(squares, kept, primal, w)

    return solve


def newton_with_kinks(squares: np.ndarray, primal: Objective, w: np.ndarray) -> Iterates:
    """Proximal Newton for a step whose penalty has kinks, where few rows may be within corners.

    `squares` (d,) are the weighted sums of squares of the columns, less their means where there is
    an intercept. Cost: 1 pass for an accepted unit step, 2 for a damped one; more where the Hessian
    would be large, and is multiplied by vectors instead.
    """
    formed = primal.size <= MOST_FORMED
    how: dict[str, Any] = {"gram": True, "exact": True} if formed else FOR_PRODUCTS
    point = primal.at(w, **how)
    most = np.full(primal.size, primal.total_weight)
    most[: primal.n_features] = np.maximum(squares, TINY)
    least = SMALL * primal.C * primal.loss.smoothness * most
    while True:
        yield Iterate(point)
        found = _minimum(point, least)
        fall = change_of_model(primal, point, found)
        if not fall < 0.0:
            return Reason.NO_PROGRESS
        trial = primal.at(found.w, beside=point, **how)
        accepted = backtrack(primal, point, trial, slope=fall, **how)
        if accepted is None:
            return Reason.NO_PROGRESS
        point = accepted


def _minimum(point: Point, least: np.ndarray) -> Minimum:
    """Minimise the model around a point, with `least` (size,) added to the Hessian's diagonal.

    To a constant's entry it is not added where there is as much curvature: a share of that is more
    than a column with a large mean has beside it.
    """
    kinks, d = point.objective.penalty.kinks, point.objective.n_features
    known = point.diagonal if point.hessian is None else point.hessian.diagonal()
    assert known is not None
    least = np.append(least[:d], np.maximum(least[d:] - known[d:], 0.0))
    if point.hessian is not None:
        hessian = point.hessian + np.diag(least)
        return minimise(hessian, point.gradient, point.w, kinks, MODEL_SHARE)

    def product(v: np.ndarray) -> np.ndarray:
        return point.hessian_vector(v) + least * v

    def sweeps(
        v: np.ndarray, slope: np.ndarray, wanted: float, most: int
    ) -> tuple[np.ndarray, int]:
        return point.objective.column_sweeps(point, v, slope, wanted, most, least)

    return minimise_by_products(
        product,
        known + least,
        point.gradient,
        point.w,
        kinks,
        MODEL_SHARE,
        sweeps if point.objective.sweeps_columns else None,
    )


def newton_on_sets(
    squares: np.ndarray, kept: KeptSet, primal: Objective, w: np.ndarray
) -> Iterates:
    """Solve a proximal step for working sets of features.

    Cost: 1 pass with all features for each set, 1 to copy its columns, and passes over these.
    """
    point = primal.at(w)
    room = FIRST_SET
    while True:
        room = max(room, GROWTH * int(np.count_nonzero(point.w[: primal.n_features])))
        columns = working_set(primal, point, room)
        if len(columns) > WHOLE * primal.n_features:
            return (yield from newton_with_kinks(squares, primal, point.w))
        yield Iterate(point)
        part = kept.restriction(primal, columns)
        steps = newton_with_kinks(squares[part.columns], part.objective, part.take(point.w))
        small = next(steps).point
        wanted = SET_SHARE * _open(small)
        for _, iterate in zip(range(SET_ITERATIONS), steps, strict=False):
            small = iterate.point
            if _open(small) <= wanted:
                break
        trial = part.at_whole(small, point)
        if not trial.value < point.value:
            return Reason.NO_PROGRESS
        point = trial


def _open(point: Point) -> float:
    """Return what the gradient by features leaves open, as if the intercept was the best one."""
    found: float = point.objective.bounds.nominal(replace(point, near=0.0))
    return found
