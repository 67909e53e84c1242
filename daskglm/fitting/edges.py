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
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from daskglm.certificates.relative import relative_gap
from daskglm.core.outcome import Reason
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Record, Solution
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.linear_systems import newton_step
from daskglm.solvers.proximal_steps import model_minimum

# First distance, as a share of the mean target's own from the nearest end of what the family has:
# few rows are moved far. How fast it falls: Boyd & Vandenberghe 2004, section 11.3.1, find no
# difference between 3 and 100. Chosen.
FIRST, FALLS = 0.1, 0.1
# A fall by this times as much is one, where that is the last. Chosen.
NEARLY = 0.2
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
AHEAD = (1.0, 0.99, 0.9, 0.5)
# Tolerance of the models of a penalty with kinks. Chosen.
NEAR = 1e-6
# Steps that may prove the last end: each lowers the objective by a quarter of the distance times a
# row's weight at least, until the next ones double the digits. Chosen.
STEPS = 20

# Solves an objective from coefficients by a solver.
Solve = Callable[[Objective, Any, str, FitConfig], Solution]


def may_be_at_an_end(objective: Objective, solution: Solution, settings: FitConfig) -> bool:
    """Return whether a solve that ended without success may have an optimum at an end of margins.

    A finite bound says that it is inside.
    """
    stuck = solution.reason in (Reason.NO_PROGRESS, Reason.STALLED, Reason.NOT_FINITE) or (
        solution.reason is Reason.MAX_ITER and settings.max_iter is None
    )
    inside = math.isfinite(solution.relative_gap)
    return objective.loss.has_open_ends and stuck and not inside and _room(objective) > 0.0


def _solver_of(objective: Objective, name: str) -> str:
    """Return the solver for barriers: Newton's method where a Hessian is cheap, else as asked."""
    if objective.size > costs.LARGEST_HESSIAN:
        return name
    return "newton" if objective.penalty.is_smooth else "proximal_newton"


def from_inside(
    objective: Objective,
    solution: Solution,
    name: str,
    settings: FitConfig,
    record: Record,
    solve: Solve,
) -> Solution:
    """Return what targets that approach an end lead to, or the solution where that is lower.

    Parameters
    ----------
    objective : Objective
    solution : Solution
        Where a solve ended.
    name : str
        Its solver.
    settings : FitConfig
    record : Record
        Of that solve.
    solve : callable
        Solves another objective over the same rows; see `Solve`.
    """
    tol, room = float(settings.tol), _room(objective)
    mass = SLACK * objective.C * objective.total_weight
    each = objective.C * objective.total_weight / max(objective.engine.facts.n_used, 1)
    distance, w = FIRST * room, objective.origin
    if not math.isfinite(objective.at(w).value):
        w = solution.point.w
    by = _solver_of(objective, name)
    quiet = replace(settings, max_iter=None, callback=None, progress=False)
    end: Solution | None = None
    while True:
        moved = copy.copy(objective)
        moved.rows = objective.rows.with_problem(replace(objective.problem, inside=distance))
        begin = _begin(moved, moved.at(w), None if end is None else end.point)
        if not math.isfinite(begin.value):
            return solution
        enough = max(OF_DISTANCE * tol / (mass / begin.value + 1.0), LEAST * room)
        last = distance <= enough
        centred = CENTRED * distance * each / begin.value
        with warnings.catch_warnings(action="ignore"):
            wanted = replace(quiet, tol=min(OF_SOLVE * tol, centred), solver_options=None)
            end = solve(moved, begin.w, by, wanted)
        if not math.isfinite(end.point.value):
            return solution
        w = end.point.w
        if last:
            end = _centred(moved, end, tol)
            return _at_the_end(objective, solution, end, settings, (record, by))
        distance = enough if NEARLY * FALLS * distance <= enough else FALLS * distance


def _begin(moved: Objective, here: Point, before: Point | None) -> Point:
    """Return where to begin for a smaller distance: the end of the one before, or further on.

    At the end of the one before, with its Hessian H, the gradient g of the new objective is what
    the ends' pull has fallen by, so -H^-1 g is the path's tangent up to the new distance. Newton's
    step with the Hessian there leads out of what the link takes instead (Conn, Gould & Toint 1994).
    Cost: 1 to 4 passes.
    """
    if before is None or before.hessian is None or not math.isfinite(here.value):
        return here
    way = _way(moved, here, before.hessian)
    for share in AHEAD:
        there = moved.at(here.w + share * way)
        if there.value < here.value:
            return there
    return here


def _centred(moved: Objective, end: Solution, tol: float) -> Solution:
    """Return the end of the last solve with its gap, by further steps where it has none yet.

    A fall of the value that is rounding ends solves before they prove anything. Newton's steps are
    damped as Nesterov 2004, section 4.1.5, does where curvatures change at a bounded rate: such
    steps stay inside. Cost: 1 pass a step.
    """
    unproved = math.isnan(end.relative_gap) and end.reason.converged and moved.bounds.is_local
    if not unproved or moved.size > costs.LARGEST_HESSIAN:
        return end
    w = end.point.w
    for _ in range(STEPS):
        point, gap = moved.bounds.certificate(tol)(moved.at(w, gram=True, exact=True))
        if not math.isnan(gap):
            return replace(end, point=point, relative_gap=gap)
        if point.rates is None:
            break
        way = _way(moved, point, point.hessian)
        length = math.sqrt(max(float(way @ (point.hessian @ way)), 0.0))
        w = w + way / (1.0 + 0.5 * point.rates.rate * length)
    return end


def _way(objective: Objective, point: Point, hessian: Any) -> Any:
    """Return Newton's step from a point by this Hessian, with the penalty's kinks and bounds."""
    if objective.bounds.any_penalty:
        return model_minimum(objective, point, hessian, NEAR).w - point.w
    return newton_step(hessian, point.gradient)


def _at_the_end(
    objective: Objective,
    solution: Solution,
    end: Solution,
    settings: FitConfig,
    into: tuple[Record, str],
) -> Solution:
    """Return the lower one of a solution and the end of a solve with targets moved, with its gap.

    `into` is the record of the solution, where the point is written down as one of this solver. The
    end moves on along the path's tangent as far as it falls. Cost: 2 to 5 passes.
    """
    here, tol = objective.at(end.point.w), float(settings.tol)
    if not math.isfinite(here.value):
        return solution
    slack = end.point.objective.problem.inside * (
        SLACK * objective.C * objective.total_weight + here.value
    )
    left = end.relative_gap / (1.0 + end.relative_gap) * end.point.value + slack
    point = _begin(objective, here, end.point)
    if solution.point.value < point.value:
        point = solution.point
    # what is left at the lower point, nan where it is not known
    gap = relative_gap(left - min(left, here.value - point.value), point.value)
    convex = objective.loss.convex
    unproved = math.isnan(end.relative_gap) or not convex
    enough = slack <= tol * point.value and end.reason.converged if unproved else gap <= tol
    gap = gap if convex else math.nan
    norm = solution.point.gradient_norm
    ratio = solution.gradient_ratio * (point.gradient_norm / norm if norm > 0.0 else 1.0)
    record, by = into
    if point is not solution.point:
        record.add(point, gap, by)
    return replace(
        solution,
        point=point,
        reason=Reason.EDGE if enough else solution.reason,
        relative_gap=gap,
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
