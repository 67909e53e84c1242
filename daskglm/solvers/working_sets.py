"""Working sets of proximal Newton: features that are not zero, and those that violate most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import SAME_VALUE, Objective
from daskglm.objectives.restriction import Restriction
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.proximal_steps import (
    FOR_PRODUCTS,
    MOST_FORMED,
    Products,
    with_hessians,
    with_products,
)
from daskglm.solvers.workload import Workload

# Features of the first working set, and by how many times its nonzero coefficients a later one may
# be larger. Chosen.
FIRST_SET, GROWTH = 500, 3
# Share of all features from which a set is not worth a copy of its columns. Chosen.
WHOLE = 0.5
# Share of the bound at a point of all features to which the working set is solved. Chosen.
SET_SHARE = 0.1
# Features of a copy up to which it is not worth a smaller one, and the share of its features that
# a set must have where there are more. Chosen.
SMALL_COPY, LEAST_SHARE = 1000, 0.8
# Sets in a row that do not lower the objective, after which rounding is reached. Chosen.
MOST_LEVEL = 2
# Iterations on one working set at most. Chosen.
SET_ITERATIONS = 50


class KeptSet:
    """The last working set, whose columns workers keep a copy of."""

    def __init__(self) -> None:
        self.columns = np.empty(0, np.int64)
        self.key: int | None = None

    def restriction(self, objective: Objective, columns: np.ndarray) -> Restriction[Objective]:
        """Return the objective on these features, or on those of the copy if it has them all."""
        much = len(self.columns) <= max(SMALL_COPY, len(columns) / LEAST_SHARE)
        if self.key is not None and much and np.isin(columns, self.columns).all():
            return Restriction.of(objective, self.columns, self.key)
        found = Restriction.of(objective, columns)
        self.columns, self.key = columns, found.key
        return found


def with_working_sets(
    objective: Objective, w: np.ndarray, tol: float, begin: Point | None, kept: KeptSet
) -> Iterates:
    """Iterate over working sets, each with the columns of the one before that are not zero.

    The last one may be all features, where most of them are not zero.
    """
    point = objective.at(w) if begin is None else begin
    room, products = _room(FIRST_SET, point), Products()
    level = 0
    while level < MOST_LEVEL:
        yield Iterate(point)
        columns = working_set(objective, point, room)
        # features that nothing holds are proved at points of sets
        if len(columns) > WHOLE * objective.n_features and objective.penalty.is_held:
            return (yield from _with_all(objective, point, tol, products))
        part = kept.restriction(objective, columns)
        bound = min(objective.bounds.nominal(point), point.value)
        wanted = max(SET_SHARE * bound, 0.3 * tol * point.value)
        small = _solved(part, part.take(point.w), wanted, tol, products)
        trial = part.at_whole(small, point)
        # near the optimum values no longer tell, but gradients do
        better = trial.value < point.value or trial.gradient_norm < 0.5 * point.gradient_norm
        level = 0 if better else level + 1
        if trial.value <= point.value * (1.0 + SAME_VALUE):
            point = trial
        room = _room(room, point)
    return (yield from _last_digits(objective, point, tol))


def _with_all(objective: Objective, point: Point, tol: float, products: Products) -> Iterates:
    """Go on with all features."""
    workload = Workload.of(objective)
    if _by_hessians(workload, products):
        return (yield from with_hessians(objective, point.w, tol))
    point = objective.at(point.w, **FOR_PRODUCTS)
    for iterate in with_products(objective, point, tol, workload, products):
        point = iterate.point
        yield iterate
    return (yield from _last_digits(objective, point, tol))


def _last_digits(objective: Objective, point: Point, tol: float) -> Iterates:
    """Go on with the Hessian of all, if features are few: it proves more than gradients do."""
    if objective.n_features > costs.LARGEST_HESSIAN:
        return Reason.NO_PROGRESS
    return (yield from with_hessians(objective, point.w, tol))


def _room(before: int, point: Point) -> int:
    """Return how many features the next working set may have: no fewer than the one before."""
    return max(before, GROWTH * int(np.count_nonzero(point.w)))


def _by_hessians(workload: Workload, products: Products) -> bool:
    """Return whether to form Hessians: where they cost less than products, or would have."""
    formed = workload.size <= MOST_FORMED and workload.forms_hessian
    return formed or products.are_dear(workload)


def _solved(
    part: Restriction[Objective], w: np.ndarray, wanted: float, tol: float, products: Products
) -> Point:
    """Solve for a working set until the bound on its own suboptimality is `wanted`.

    Or until an iteration gains less than `SET_SHARE` of what was gained: early sets are not worth
    more.
    """
    objective = part.objective
    point = objective.at(w, **FOR_PRODUCTS)
    workload = Workload.of_columns(part)
    needed = objective.bounds.wants_hessian and objective.size <= MOST_FORMED
    if needed or _by_hessians(workload, products):
        points: Iterator[Iterate] = with_hessians(objective, w, tol)
    else:
        points = with_products(objective, point, tol, workload, products)
    values: list[float] = []
    for _, iterate in zip(range(SET_ITERATIONS), points, strict=False):
        point = iterate.point
        values.append(point.value)
        gained = values[0] - values[-1]
        if len(values) > 1 and objective.bounds.nominal(point) <= wanted:
            break
        if len(values) > 2 and values[-2] - values[-1] <= SET_SHARE * gained:
            break
    return point


def working_set(objective: Objective, point: Point, room: int) -> np.ndarray:
    """Return the features that are not zero or not penalised, and those farthest from optimal.

    Those that bounds fix at zero are left out.

    Parameters
    ----------
    room : int
        Features at most, unless more are not zero.

    Returns
    -------
    (k,) int array, in increasing order, with whole groups.
    """
    kinks, d = objective.penalty.feature_kinks, objective.n_features
    residual = np.abs(point.residual[:d])
    if kinks.groups:
        norms = kinks.group_norms(point.residual[:d]) / np.sqrt(np.diff(kinks.pointers))
        residual[kinks.members] = np.repeat(norms, np.diff(kinks.pointers))
    fixed = kinks.lower == kinks.upper
    chosen = (point.w[:d] != 0.0) | ((kinks.strengths == 0.0) & ~kinks.is_grouped & ~fixed)
    chosen = objective.margins.tied(chosen)
    more = room - int(np.count_nonzero(chosen))
    residual = objective.margins.tied(residual)
    residual[chosen] = 0.0
    violating = np.flatnonzero(residual)
    if 0 < more < len(violating):
        violating = violating[np.argpartition(-residual[violating], more - 1)[:more]]
    if more > 0:
        chosen[violating] = True
    for group in kinks.groups:
        if chosen[group].any():
            chosen[group] = True
    return np.flatnonzero(objective.margins.tied(chosen))
