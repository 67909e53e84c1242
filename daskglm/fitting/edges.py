"""Optima at an end of the margins that a link takes, which no solver reaches by itself.

A count of zero with the identity link has the loss z, a share of one with the log link -z: nothing
keeps such rows from the end of their margins, z = 0, steps towards it end there, and all others end
with them. Targets that are moved inside of what the family has by a small distance give each row a
barrier: a count of d has the loss z - d log(z). So the same loss is solved for distances that fall
tenfold, each from the end of the one before (Boyd & Vandenberghe 2004, section 11.3). What the last
one leaves of the objective is proved in `docs/certificates.md`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from daskglm.core.outcome import Reason
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Record, Solution
from daskglm.objectives.bounds import relative_gap
from daskglm.objectives.composite import Composite
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.linear_systems import newton_step
from daskglm.solvers.proximal_steps import model_minimum

# First distance, as a share of the mean target's own from the nearest end of what the family has:
# few rows are moved far. How fast it falls: Boyd & Vandenberghe 2004, section 11.3.1, find no
# difference between 3 and 100. Chosen.
FIRST, FALLS = 0.1, 0.1
# Last share of the mean target's distance: margins at an end are about as large, and are summed in
# float64. Chosen.
LEAST = 1e-12
# A distance d leaves at most d times this for each row of weight one, and d times the value: see
# `docs/certificates.md`. The largest of the four losses is below 3 (Poisson with the square root).
SLACK = 3.0
# Share of the wanted bound that the last distance may take; the last solve has a half of the rest.
OF_DISTANCE, OF_SOLVE = 0.4, 0.25
# Largest bound at which a point counts as near the path, over the distance times a row's weight.
# Newton's method is near its quadratic convergence there: with margins of d / slope a row moves the
# curvature by its half where the bound is an eighth of that. Chosen.
CENTRED = 0.02
# Shares of the way along the path's tangent at which the next distance may begin. Chosen.
AHEAD = (1.0, 0.9, 0.5)
# Tolerance of the model that gives the tangent where a penalty has kinks. Chosen.
NEAR = 1e-6

# Solves an objective from coefficients to a tolerance.
Solve = Callable[[Objective, Any, float], Solution]


def may_be_at_an_end(objective: Objective, solution: Solution, settings: FitConfig) -> bool:
    """Return whether a solve that ended without success may have an optimum at an end of margins.

    A finite bound says that it is inside.
    """
    stuck = solution.reason in (Reason.NO_PROGRESS, Reason.STALLED, Reason.NOT_FINITE) or (
        solution.reason is Reason.MAX_ITER and settings.max_iter is None
    )
    inside = math.isfinite(solution.relative_gap)
    return objective.loss.has_open_ends and stuck and not inside and _room(objective) > 0.0


def solver_of(objective: Objective, name: str) -> str:
    """Return the solver for barriers: Newton's method where a Hessian is cheap, else as asked."""
    if objective.size > costs.LARGEST_HESSIAN:
        return name
    return "newton" if objective.is_smooth else "proximal_newton"


def from_inside(
    objective: Objective, solution: Solution, settings: FitConfig, record: Record, solve: Solve
) -> Solution:
    """Return what targets that approach an end lead to, or the solution where that is lower.

    Parameters
    ----------
    objective : Objective
    solution : Solution
        Where a solve ended.
    settings : FitConfig
    record : Record
        Of that solve.
    solve : callable
        Solves another objective over the same rows; see `Solve`.
    """
    tol, room = float(settings.tol), _room(objective)
    mass = SLACK * objective.scale * objective.total_weight
    each = objective.scale * objective.total_weight / max(objective.engine.facts.n_used, 1)
    distance, w = FIRST * room, objective.origin
    if not math.isfinite(objective.at(w).value):
        w = solution.point.w
    end: Solution | None = None
    while True:
        moved = copy.copy(objective)
        moved.problem = replace(objective.problem, inside=distance)
        begin = _begin(moved, w, None if end is None else end.point)
        if not math.isfinite(begin.value):
            return solution
        last = distance * (mass / begin.value + 1.0) <= OF_DISTANCE * tol
        last = last or distance <= LEAST * room
        centred = CENTRED * distance * each / begin.value
        end = solve(moved, begin.w, min(OF_SOLVE * tol, centred))
        objective.passes, objective.waited = moved.passes, moved.waited
        if not math.isfinite(end.point.value):
            return solution
        w = end.point.w
        if last:
            gap = _proved(moved, end, tol)
            objective.passes = moved.passes
            return _at_the_end(objective, solution, replace(end, relative_gap=gap), settings, record)
        distance = max(FALLS * distance, LEAST * room)


def _begin(moved: Objective, w: Any, before: Point | None) -> Point:
    """Return where to begin for a smaller distance: the end of the one before, or further on.

    At the end of the one before, with its Hessian H, the gradient g of the new objective is what
    the ends' pull has fallen by, so -H^-1 g is the path's tangent up to the new distance. Newton's
    step with the Hessian there leads out of what the link takes instead (Conn, Gould & Toint 1994).
    Cost: 1 pass, and 1 to 3.
    """
    here = moved.at(w)
    if before is None or before.gram is None or not math.isfinite(here.value):
        return here
    if isinstance(moved, Composite):
        way = model_minimum(moved, here, before.gram, NEAR).w - here.w
    else:
        way = newton_step(before.gram, here.gradient)
    for share in AHEAD:
        there = moved.at(here.w + share * way)
        if there.value < here.value:
            return there
    return here


def _proved(moved: Objective, end: Solution, tol: float) -> float:
    """Return the gap of the last solve, by a Hessian in float64 where it has none. Cost: 1 pass."""
    if not math.isnan(end.relative_gap) or not moved.is_local or moved.size > costs.LARGEST_HESSIAN:
        return end.relative_gap
    point = moved.at(end.point.w, gram=True, exact=True)
    gap: float = moved.certificate(tol)(point)[1]
    return gap


def _at_the_end(
    objective: Objective, solution: Solution, end: Solution, settings: FitConfig, record: Record
) -> Solution:
    """Return the lower one of a solution and the end of a solve with targets moved, with its gap.

    Cost: 1 pass.
    """
    point, tol = objective.at(end.point.w), float(settings.tol)
    distance = end.point.objective.problem.inside
    if not math.isfinite(point.value):
        return solution
    slack = distance * (SLACK * objective.scale * objective.total_weight + point.value)
    gap = end.relative_gap
    left = gap / (1.0 + gap) * end.point.value + slack
    if solution.point.value < point.value:
        left = max(left - (point.value - solution.point.value), 0.0)
        point = solution.point
    norm = solution.point.gradient_norm
    ratio = solution.gradient_ratio * (point.gradient_norm / norm if norm > 0.0 else 1.0)
    found = relative_gap(left, point.value)
    proved = objective.loss.convex and found <= tol
    likely = math.isnan(gap) and end.reason.converged and slack <= tol * point.value
    reason = Reason.EDGE if proved or likely else solution.reason
    return replace(
        solution,
        point=point,
        reason=reason if settings.stop == "gap" else solution.reason,
        relative_gap=found if objective.loss.convex else math.nan,
        gradient_ratio=ratio,
        history=record.history,
        cost=record.spent(),
    )


def _room(objective: Objective) -> float:
    """Return how far the mean target is from the nearest end of what the family has."""
    facts, family = objective.engine.facts, objective.loss.family
    if family is None or not facts.weight > 0.0:
        return 0.0
    mean = facts.target_sum / facts.weight
    return min(mean - family.domain.low, family.domain.high - mean)
