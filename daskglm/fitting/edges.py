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
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs

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
# Largest relative gap to which a distance is solved before the next: it need be no more exact than
# what the distance leaves, and no less than keeps Newton's method near the path. Chosen.
LOOSE = 0.01

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
    distance, w, last = FIRST * room, objective.origin, False
    if not math.isfinite(objective.at(w).value):
        w = solution.point.w
    while True:
        moved = copy.copy(objective)
        moved.problem = replace(objective.problem, inside=distance)
        value = moved.at(w).value
        if not math.isfinite(value):
            return solution
        leaves = distance * (mass / value + 1.0)
        last = leaves <= OF_DISTANCE * tol or distance <= LEAST * room
        enough = OF_SOLVE * tol if last else max(min(LOOSE, leaves), OF_SOLVE * tol)
        end = solve(moved, w, enough)
        objective.passes, objective.waited = moved.passes, moved.waited
        if not math.isfinite(end.point.value):
            return solution
        w = end.point.w
        if last:
            return _at_the_end(objective, solution, end, distance, settings, record)
        distance = max(FALLS * distance, LEAST * room)


def _at_the_end(
    objective: Objective,
    solution: Solution,
    end: Solution,
    distance: float,
    settings: FitConfig,
    record: Record,
) -> Solution:
    """Return the lower one of a solution and the end of a solve with targets moved, with its gap.

    Cost: 1 pass.
    """
    point, tol = objective.at(end.point.w), float(settings.tol)
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
