"""Proximal Newton: for penalties with kinks or bounds, and for any strength of each feature.

Each iteration minimises the quadratic model of the smooth part plus the penalty itself (Lee, Sun &
Saunders 2014), over all features, or over a working set of them where there are many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.composite import Composite, Restriction
from daskglm.objectives.point import Point
from daskglm.objectives.primal import SAME_VALUE
from daskglm.objectives.quadratic_model import predicted, with_same_hessian
from daskglm.penalties.descent import Minimum, minimise
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING, backtrack
from daskglm.solvers.newton import is_inexact, keeps_margins, sample_sizes
from daskglm.solvers.owlqn import owlqn
from daskglm.solvers.sdca import sdca
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.workload import Workload, curvature_ratio

# Features of the first working set, and by how many times its nonzero coefficients a later one may
# be larger. Chosen.
FIRST_SET, GROWTH = 500, 3
# Share of the bound at a point of all features to which the working set is solved. Chosen.
SET_SHARE = 0.1
# Features of a copy up to which it is not worth a smaller one, and the share of its features that
# a set must have where there are more. Chosen.
SMALL_COPY, LEAST_SHARE = 1000, 0.8
# Sets in a row that do not lower the objective, after which rounding is reached. Chosen.
MOST_LEVEL = 2
# Coefficients up to which a model's minimum takes less time than a pass. Chosen.
SMALL_MODEL = 500
# Steps whose fall rounding hides that are still taken. Chosen.
HIDDEN_STEPS = 2
# Iterations on one working set at most. Chosen.
SET_ITERATIONS = 50
# Features of a working set at most, unless they are in groups: its Hessian is dense, 200 MB of so
# many. Chosen.
MOST_SET = 5000
# Share of them that coefficients may be which are not zero: others must have room. Chosen.
FULL_SET = 0.8


class KeptSet:
    """The last working set, whose columns workers keep a copy of."""

    def __init__(self) -> None:
        self.columns = np.empty(0, np.int64)
        self.key: int | None = None

    def restriction(self, objective: Composite, columns: np.ndarray) -> Restriction:
        """Return the objective on these features, or on those of the copy if it has them all."""
        much = len(self.columns) <= max(SMALL_COPY, len(columns) / LEAST_SHARE)
        if self.key is not None and much and np.isin(columns, self.columns).all():
            return objective.restricted(self.columns, self.key)
        found = objective.restricted(columns)
        self.columns, self.key = columns, found.key
        return found


def proximal_newton(
    objective: Composite,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    begin: Point | None = None,
    kept: KeptSet | None = None,
    **state: Any,
) -> Iterates:
    """Minimise models of the smooth part plus the penalty, damped by a line search.

    Up to `costs.LARGEST_HESSIAN` features the Hessian of all is formed, and samples of growing size
    come first, as in Newton's method. Cost: 1 pass and 1 round for an accepted unit step. With more
    features a working set of them is solved for, whose columns workers copy. Cost: 1 pass with all
    features for each set, 1 to copy its columns, and passes over these. If a set of more than
    `MOST_SET` features is wanted, dual ascent takes over, or OWL-QN where the ridge is small.

    Parameters
    ----------
    tol : float
        Wanted bound on relative suboptimality, by which models are minimised.
    begin : Point, optional
        The objective at w, if it is known; its Hessian serves the first two steps.
    kept : KeptSet, optional
        Working set of an earlier solve of the same rows.
    **state
        Of a solve to resume: state of OWL-QN, which had taken over.
    """
    if state:
        return (yield from owlqn(objective, w, tol=tol, **state))
    if objective.n_features > costs.LARGEST_HESSIAN:
        return (yield from _with_working_sets(objective, w, tol, begin, kept or KeptSet()))
    if begin is None and objective.is_origin(w) and not objective.loss.is_quadratic:
        w = _from_samples(objective, w, tol)
    return (yield from _with_all(objective, w, tol, begin))


def _with_all(
    objective: Composite, w: np.ndarray, tol: float, begin: Point | None = None
) -> Iterates:
    """Iterate with the Hessian of all features."""
    keep = keeps_margins(objective)
    known = begin is not None and begin.gram is not None
    point = begin if known else objective.at(w, gram=True, keep=keep)
    assert point is not None
    exact, before, hessian = point.exact, None, point.gram
    hidden = 0
    while True:
        yield Iterate(point)
        hessian = hessian if point.gram is None else point.gram
        found = model_minimum(objective, point, hessian, tol, before)
        fall = change_of_model(objective, point, found)
        if point.gram is not None and not point.exact and is_inexact(point, -fall, tol):
            # from here on all Hessians are summed in float64
            exact = True
            point = objective.at(point.w, gram=True, keep=keep, exact=True)
            continue
        if not fall < 0.0:
            # where rounding hides the fall gradients may still fall: this bounds it
            fall = -float((found.w - point.w) @ (found.slope - point.gradient))
            hidden += 1
            if not fall < 0.0 or hidden > HIDDEN_STEPS:
                return Reason.NO_PROGRESS
        if point.gram is not None and objective.loss.is_quadratic:
            yield Iterate(predicted(point, found.w))
        # the Hessian of a point nearby may do once more
        same = objective.loss.is_quadratic and point.gram is not None
        gram, known = not (known or same), False
        trial = objective.at(found.w, gram=gram, keep=keep, beside=point, exact=exact)
        if same:
            trial = with_same_hessian(trial, point)
        accepted = backtrack(objective, point, trial, slope=fall, gram=gram, keep=keep, exact=exact)
        if accepted is None and point.gram is None:
            point = objective.at(point.w, gram=True, keep=keep, exact=exact)
            continue
        if accepted is None:
            return Reason.NO_PROGRESS
        before, point = point, accepted
        # where values no longer fall, steps at least halve what is left until that is rounding
        if not (point.value < before.value or point.gradient_norm < 0.5 * before.gradient_norm):
            yield Iterate(point)
            return Reason.NO_PROGRESS


def model_minimum(
    objective: Composite, point: Point, hessian: Any, tol: float, before: Point | None = None
) -> Minimum:
    """Minimise the model around a point with a Hessian of it or of a point nearby.

    Small models are minimised to 1e-3 of what `tol` allows, whatever the residual was. Of large
    ones a tenth of the residual may be left at first, and then a share that falls as the square of
    the rate at which it fell from `before` (Eisenstat & Walker 1996, choice 2).
    """
    share = 1e-3 * math.sqrt(min(tol, 1.0))
    if objective.size > SMALL_MODEL:
        rate = 1.0 if before is None else point.gradient_norm / max(before.gradient_norm, 1e-300)
        share = max(share, min(0.1, 0.9 * rate * rate))
    return minimise(hessian, point.gradient, point.w, objective.terms, share)


def change_of_model(objective: Composite, point: Point, found: Minimum) -> float:
    """Return the change of the smooth part's tangent and of the penalty from the point.

    Armijo's rule for objectives with kinks compares with it (Tseng & Yun 2009, equation 9). Where
    it is rounding it is bounded by the step's square in the norm of the Hessian (Lee, Sun &
    Saunders 2014, proposition 2.4): gradients can still shrink there.
    """
    step = found.w - point.w
    before = objective.terms.value(point.w)
    fall = float(point.gradient @ step) + (objective.terms.value(found.w) - before)
    if abs(fall) <= ROUNDING * (float(np.abs(point.gradient) @ np.abs(step)) + before):
        return min(fall, -float(step @ (found.slope - point.gradient)))
    return fall


def _from_samples(objective: Composite, w: np.ndarray, tol: float) -> np.ndarray:
    """Return the minimum of random samples of the rows, each larger than the last.

    As `newton.from_samples`, each is solved to its statistical accuracy; or w, where samples would
    not pay.
    """
    sizes = sample_sizes(objective.engine.facts, objective.size, tol)
    if not objective.engine.capabilities.cheap_samples:
        return w
    n = objective.engine.facts.n_rows
    for k, fraction in enumerate(sizes):
        part = objective.sample(fraction, seed=20 + k)
        least = min(10.0 * objective.size / (fraction * n), 0.03)
        point = part.at(w, gram=True)
        while True:
            found = model_minimum(objective, point, point.gram, tol)
            fall = change_of_model(objective, point, found)
            if not -0.5 * fall > least * point.value:
                break
            trial = part.at(found.w, gram=True, beside=point)
            accepted = backtrack(part, point, trial, slope=fall, gram=True)
            if accepted is None:
                break
            point = accepted
        better = found.w if objective.is_inside(found.w) else point.w
        if not math.isfinite(float(better @ better)):
            return w
        w = better
    return w


# ---- working sets
def _with_working_sets(
    objective: Composite, w: np.ndarray, tol: float, begin: Point | None, kept: KeptSet
) -> Iterates:
    """Iterate over working sets: features that are not zero, and those that violate most."""
    point = objective.at(w) if begin is None else begin
    room = _room(FIRST_SET, objective, point)
    level = 0
    while level < MOST_LEVEL:
        yield Iterate(point)
        columns = working_set(objective, point, room)
        full = np.count_nonzero(point.w) > FULL_SET * MOST_SET
        if (full or len(columns) > MOST_SET) and not objective.is_grouped:
            return (yield from _without_hessians(objective, point.w, tol))
        part = kept.restriction(objective, columns)
        bound = min(objective.nominal_bound(point), point.value)
        wanted = max(SET_SHARE * bound, 0.3 * tol * point.value)
        small = _solved(part, part.take(point.w), wanted, tol)
        trial = part.at_whole(small, point)
        # near the optimum values no longer tell, but gradients do
        better = trial.value < point.value or trial.gradient_norm < 0.5 * point.gradient_norm
        level = 0 if better else level + 1
        if trial.value <= point.value * (1.0 + SAME_VALUE):
            point = trial
        room = _room(room, objective, point)
    return Reason.NO_PROGRESS


def _room(before: int, objective: Composite, point: Point) -> int:
    """Return how many features the next working set may have: no fewer than the one before."""
    room = GROWTH * int(np.count_nonzero(point.w))
    return max(before, room if objective.is_grouped else min(room, MOST_SET))


def _without_hessians(objective: Composite, w: np.ndarray, tol: float) -> Iterates:
    """Go on where working sets are large: by dual ascent, or by OWL-QN if the ridge is too small.

    A solve that resumes is back here after one working set, so that dual variables are not kept.
    """
    if not objective.has_dual or curvature_ratio(objective) > costs.LARGE_SET_RATIO:
        return (yield from owlqn(objective, w, tol=tol))
    ascent = sdca(objective, w, tol=tol)
    while True:
        try:
            iterate = next(ascent)
        except StopIteration as end:
            reason: Reason = end.value
            return reason
        yield replace(iterate, resume=dict, save_rows=None)


def _solved(part: Restriction, w: np.ndarray, wanted: float, tol: float) -> Point:
    """Solve for a working set until the bound on its own suboptimality is `wanted`.

    Or until an iteration gains less than `SET_SHARE` of what was gained: early sets are not worth
    more.
    """
    points: Iterator[Iterate] = _with_all(part, w, tol)
    values: list[float] = []
    for _, iterate in zip(range(SET_ITERATIONS), points, strict=False):
        point = iterate.point
        values.append(point.value)
        gained = values[0] - values[-1]
        if len(values) > 1 and part.nominal_bound(point) <= wanted:
            break
        if len(values) > 2 and values[-2] - values[-1] <= SET_SHARE * gained:
            break
    return point


def working_set(objective: Composite, point: Point, room: int) -> np.ndarray:
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
    terms, d = objective.feature_terms, objective.n_features
    residual = np.abs(point.residual[:d])
    if terms.groups:
        norms = terms.group_norms(point.residual[:d]) / np.sqrt(np.diff(terms.pointers))
        residual[terms.members] = np.repeat(norms, np.diff(terms.pointers))
    fixed = terms.lower == terms.upper
    chosen = (point.w[:d] != 0.0) | ((terms.strengths == 0.0) & ~terms.is_grouped & ~fixed)
    chosen = objective.tied(chosen)
    more = room - int(np.count_nonzero(chosen))
    residual = objective.tied(residual)
    residual[chosen] = 0.0
    violating = int(np.count_nonzero(residual))
    if more > 0 and violating:
        most = min(more, violating)
        chosen[np.argpartition(-residual, most - 1)[:most]] = True
    for group in terms.groups:
        if chosen[group].any():
            chosen[group] = True
    return np.flatnonzero(objective.tied(chosen))


def cost(workload: Workload) -> float:
    """Foresee the passes of proximal Newton; infinite for penalties that all solvers take."""
    if not workload.kinked:
        return math.inf
    if workload.coefficients > costs.LARGEST_HESSIAN:
        return costs.WORKING_SET_PASSES + workload.vectors(costs.WORKING_SET_VECTORS)
    return workload.newton_steps * (1.0 + workload.gram + workload.factorisation)


SPEC = SolverSpec(
    "proximal_newton",
    proximal_newton,
    max_iter=100,
    settings=("tol",),
    takes_kinks=True,
    takes_groups=True,
    cost=cost,
)
