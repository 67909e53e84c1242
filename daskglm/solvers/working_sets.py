"""Working sets of proximal Newton: features that are not zero, and those that violate most."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import SAME_VALUE, Objective
from daskglm.objectives.restriction import Restriction
from daskglm.solvers import costs
from daskglm.solvers.first_set import FIRST_SET
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.proximal_steps import (
    FOR_PRODUCTS,
    MOST_FORMED,
    Products,
    with_hessians,
    with_products,
)
from daskglm.solvers.workload import Workload

# By how many times the nonzero coefficients of a working set a later one may be larger. Chosen.
GROWTH = 3
# Share of a set's coefficients from which it was too small if so many are not zero, and by how many
# times these the next one may be larger: sweeps leave out at once what stays zero. Of 0.6, 0.75,
# 0.9 and 2 this share took least time, or within 10 % of that, on ten fits of four kinds of sparse
# rows; 0.6 up to twice as long (2026-11-28).
FULL, MOST_GROWTH = 0.9, 50
# Share of its strength that pulls at a coefficient of zero which joins the set, if there is room:
# many of these are wanted soon, and then nothing is copied again. Chosen.
NEAR = 0.9
# Violating features outside of a set, as a share of the coefficients that are not zero, up to which
# the next one is solved to the end; and products that this takes: 20 to 90, of 400 to 13,000
# coefficients (2026-11-28). Chosen from these.
FEW_NEW, LAST_PRODUCTS = 0.02, 25.0
# Share of all features from which a set is not worth a copy of its columns. Chosen.
WHOLE = 0.5
# Share of the bound at a point of all features to which the working set is solved; and of `tol` to
# which the last one is. Chosen.
SET_SHARE, TOL_SHARE = 0.1, 0.5
# Features of a copy up to which it is not worth a smaller one, the share of its features that a set
# must have where there are more, and that of the last set, which takes most iterations. Chosen.
SMALL_COPY, LEAST_SHARE, LAST_SHARE = 1000, 0.6, 0.9
# Sets in a row that do not lower the objective, after which rounding is reached. Chosen.
MOST_LEVEL = 2
# Iterations on one working set at most. Chosen.
SET_ITERATIONS = 50


class KeptSet:
    """The last working set, whose columns workers keep a copy of."""

    def __init__(self) -> None:
        self.columns = np.empty(0, np.int64)
        self.key: int | None = None

    def restriction(
        self,
        objective: Objective,
        columns: np.ndarray,
        point: Point | None = None,
        *,
        last: bool = False,
    ) -> Restriction[Objective]:
        """Return the objective on these features, or on those of the copy if it has them all.

        With a `point`, if it has all that are to move from there: others are left for later.
        """
        most = max(SMALL_COPY, len(columns) / LEAST_SHARE)
        if last:
            most = len(columns) / LAST_SHARE
        if self.key is not None and len(self.columns) <= most:
            wanted = columns if point is None else _moving(objective, point, columns)
            if np.isin(wanted, self.columns).all():
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
    room, products = _room(_first_room(objective), point), Products()
    level, last, size = 0, False, objective.n_features
    found: Point | None = None
    key = None
    # what a strong penalty leaves of coefficients counts, however little it changes values
    more = begin is None and _ends_by_hessian(objective) and point.gradient_norm > 0.0
    while level < MOST_LEVEL:
        yield Iterate(point, more=more)
        more = False
        columns = working_set(objective, point, room, NEAR)
        whole = len(columns) > WHOLE * objective.n_features
        # features that nothing holds are proved at points of sets
        if (whole or _wants_all(point, size)) and objective.penalty.is_held:
            return (yield from _with_all(objective, point, tol, products))
        part, size = kept.restriction(objective, columns, point, last=last), len(columns)
        wanted = TOL_SHARE * tol * point.value
        if not last:
            wanted = max(SET_SHARE * min(point.nominal_bound, point.value), wanted)
        w = part.take(point.w)
        # workers know the point at which the same set was left
        same = found is not None and key == part.key and bool((found.w == w).all())
        found = _solved(part, w, wanted, tol, products, found if same else None, last=last)
        key = part.key
        trial = part.at_whole(found, point)
        # near the optimum values no longer tell, but gradients do
        better = trial.value < point.value or trial.gradient_norm < 0.5 * point.gradient_norm
        level = 0 if better else level + 1
        if trial.value <= point.value * (1.0 + SAME_VALUE):
            point = trial
        room, last = _room(room, point), _misses_few(part, point)
    return (yield from _last_digits(objective, point, tol))


def _with_all(objective: Objective, point: Point, tol: float, products: Products) -> Iterates:
    """Go on with all features."""
    workload = Workload.of(objective)
    if _ends_by_hessian(objective) or _by_hessians(workload, products):
        return (yield from with_hessians(objective, point.w, tol))
    point = objective.at(point.w, **FOR_PRODUCTS)
    for iterate in with_products(
        objective, point, tol, workload, products, TOL_SHARE * tol * point.value
    ):
        point = iterate.point
        yield iterate
    return (yield from _last_digits(objective, point, tol))


def _ends_by_hessian(objective: Objective) -> bool:
    """Return whether one Hessian of all features, which are few enough, leads to the optimum."""
    return objective.loss.is_quadratic and objective.n_features <= costs.LARGEST_HESSIAN


def _wants_all(point: Point, size: int) -> bool:
    """Return whether to leave sets for all features, where one Hessian of these is the end.

    If the last set, of this size, was too small, or one of twice the nonzero features is no set.
    """
    nonzero, most = int(np.count_nonzero(point.w)), WHOLE * point.objective.n_features
    too_small = nonzero > FULL * size or 2 * nonzero > most
    return too_small and _ends_by_hessian(point.objective)


def _last_digits(objective: Objective, point: Point, tol: float) -> Iterates:
    """Go on with the Hessian of all, if features are few: it proves more than gradients do."""
    if objective.n_features > costs.LARGEST_HESSIAN:
        return Reason.NO_PROGRESS
    return (yield from with_hessians(objective, point.w, tol))


def _moving(objective: Objective, point: Point, columns: np.ndarray) -> np.ndarray:
    """Return those of some features that are not zero, not penalised, or not optimal at a point."""
    kinks = objective.penalty.feature_kinks.restricted(columns, len(columns))
    w = point.w[columns]
    moving = kinks.violated(w, point.gradient[columns]) | (w != 0.0)
    return columns[moving | ((kinks.strengths == 0.0) & ~kinks.is_grouped)]


def _first_room(objective: Objective) -> int:
    """Return how many features the first working set may have: less of few dense ones.

    Their Hessian takes two passes over all.
    """
    if objective.engine.facts.sparse:
        return FIRST_SET
    return min(FIRST_SET, round(math.sqrt(2.0 * costs.DENSE_HESSIAN_VALUES * objective.n_features)))


def _room(before: int, point: Point) -> int:
    """Return how many features the next working set may have: no fewer than the one before."""
    nonzero, objective = int(np.count_nonzero(point.w)), point.objective
    room = max(before, GROWTH * nonzero)
    if _ends_by_hessian(objective):
        # that of half of the features costs a quarter of that of all
        room = min(room, int(WHOLE * objective.n_features))
    if not _is_full(point, before):
        return room
    # a set may be solved for anew, all features are not left again
    return max(room, min(MOST_GROWTH * nonzero, int(WHOLE * objective.n_features)))


def _is_full(point: Point, size: int) -> bool:
    """Return whether a set of this size was too small, where larger ones cost little more."""
    return point.objective.sweeps_columns and bool(np.count_nonzero(point.w) > FULL * size)


def _misses_few(part: Restriction[Objective], point: Point) -> bool:
    """Return whether few features outside of a working set violate optimality at a point."""
    d = part.whole.n_features
    outside = part.whole.penalty.feature_kinks.violated(point.w[:d], point.gradient[:d])
    outside[part.columns] = False
    return bool(np.count_nonzero(outside) <= FEW_NEW * np.count_nonzero(point.w))


def _by_hessians(workload: Workload, products: Products, *, last: bool = False) -> bool:
    """Return whether to form Hessians: where they cost less than products, or would have."""
    formed = workload.forms_hessian
    if last and not formed:
        hessian = workload.gram + workload.factorisation
        formed = hessian <= LAST_PRODUCTS * workload.tron_product
    return (workload.size <= MOST_FORMED and formed) or products.are_dear(workload)


def _solved(
    part: Restriction[Objective],
    w: np.ndarray,
    wanted: float,
    tol: float,
    products: Products,
    begin: Point | None,
    *,
    last: bool,
) -> Point:
    """Solve for a working set, from w or a point known there, until its own bound is `wanted`.

    If it is not the `last` one, until an iteration gains less than `SET_SHARE` of what was gained,
    or a set is full: such ones are not worth more.
    """
    objective = part.objective
    point = begin or objective.at(w, **FOR_PRODUCTS)
    workload = Workload.of_columns(part)
    needed = objective.bounds.wants_hessian and objective.size <= MOST_FORMED
    if needed or _by_hessians(workload, products, last=last):
        points: Iterator[Iterate] = with_hessians(
            objective, w, tol, begin, 0.0 if needed else wanted
        )
    else:
        if point.diagonal is None:
            point = objective.at(w, **FOR_PRODUCTS)
        points = with_products(objective, point, tol, workload, products, wanted, last=last)
    values: list[float] = []
    for _, iterate in zip(range(SET_ITERATIONS), points, strict=False):
        point = iterate.point
        values.append(point.value)
        gained = values[0] - values[-1]
        if len(values) > 1 and point.nominal_bound <= wanted:
            break
        if last or len(values) == 1:
            continue
        slow = len(values) > 2 and values[-2] - values[-1] <= SET_SHARE * gained
        if slow or _is_full(point, objective.size):
            break
    return point


def working_set(objective: Objective, point: Point, room: int, near: float = 1.0) -> np.ndarray:
    """Return the features that are not zero or not penalised, and those farthest from optimal.

    Those that bounds fix at zero are left out.

    Parameters
    ----------
    room : int
        Features at most, unless more are not zero.
    near : float
        By what strengths of the penalty are multiplied where violations are told.

    Returns
    -------
    (k,) int array, in increasing order, with whole groups.
    """
    kinks, d = objective.penalty.feature_kinks, objective.n_features
    residual = kinks.times(near).residual(point.w[:d], point.gradient[:d])
    np.abs(residual, out=residual)
    if kinks.groups:
        norms = kinks.group_norms(residual) / np.sqrt(np.diff(kinks.pointers))
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
