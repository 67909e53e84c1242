"""Further starts of problems that are not convex, and which end is taken.

Descent ends at a local optimum. Where others are lower nothing tells, but that descents from other
points end elsewhere.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.outcome import Iteration, Reason
from daskglm.core.requests import Evaluate
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective

# Multiplications of a Hessian up to which solves from random starts are taken too: each then takes
# some milliseconds. Chosen.
MOST_WORK = 1e6
# Random starts, and how far from the best constant: by how much a feature then moves margins, as a
# root mean square over rows. Of 19 problems (among 4,600, most with exposures over decades) of
# which the best constant and the convex loss had missed a lower optimum, starts at 3 found it for
# 18, nearer ones for 13 to 16. Chosen.
DISTANCES = (0.3, 1.0, *6 * (3.0,))
# Newton's steps from each: those that take more are far out, or in a valley. Chosen.
MOST_STEPS = 50
# Value of a start beside that of the best constant above which it lies where functions overflow.
# Chosen.
FAR = 1e6
# Ends of two solves of which each is within `tol` of one optimum are at most so many times `tol`
# apart.
SAME_END = 4.0
# Difference of values below which two ends are one, since values are rounded, as a share of that of
# the best constant. Chosen.
SAME_VALUES = 1e-10


# Precision of solves of which only the neighbourhood of an optimum is wanted. Chosen.
LOOSE = 1e-4

Solve = Callable[[Objective, np.ndarray, str, FitConfig], Solution]


class OtherStarts:
    """Solves of one problem from other starts than the one that was asked for.

    They are the optimum of a convex loss of the same link, and random points where that costs
    little.

    Parameters
    ----------
    objective, convex : Objective
        The problem, and that of the convex loss.
    name : str
        The solver.
    settings : FitConfig
    solve : callable
        Takes an objective, where to start, a solver and settings; returns the end.
    """

    def __init__(
        self, objective: Objective, convex: Objective, name: str, settings: FitConfig, solve: Solve
    ) -> None:
        self.objective, self.convex, self.name, self.solve = objective, convex, name, solve
        self.settings = replace(settings, callback=None, progress=False)
        self.tol, self.loose = float(settings.tol), max(float(settings.tol), LOOSE)

    def lowest_end(self, first: Solution) -> Solution:
        """Return the lowest end, with the iterations of the first solve before its own.

        Where ends differ by more than the tolerance there are several local optima, and none is
        told to be the least of all.
        """
        ends = [first]
        w = self._optimum_beside()
        if np.isfinite(w).all() and self.objective.is_inside(self.objective.xp.asarray(w)):
            ends.append(self._end_from(w))
        roughly = list(self._rough_ends())
        constant = self.objective.at(self.objective.origin).value
        lower = _lowest([_lowest(ends, self.tol, constant), *roughly], self.tol, constant)
        if any(lower is end for end in roughly):
            ends.append(self._end_from(to_host(lower.point.w)))
        least = _lowest(ends, self.tol, constant)
        known = (ends, self.tol), (roughly, self.loose)
        if any(_differ(least, others, tol, constant) for others, tol in known):
            least = replace(least, reason=Reason.SEVERAL_OPTIMA)
        return _after(first, least)

    def _end_from(self, w: np.ndarray) -> Solution:
        return self.solve(self.objective, w, self.name, self.settings)

    def _optimum_beside(self) -> np.ndarray:
        """Return about the optimum of the convex loss."""
        convex = self.convex
        settings = replace(
            self.settings,
            tol=self.loose,
            stop="gap",
            loss=convex.loss.full_name,
            solver_options=None,
        )
        with warnings.catch_warnings(action="ignore"):
            end = self.solve(convex, convex.origin, "newton", settings)
        self.objective.rows.meter.absorb(convex.rows.meter)
        w: np.ndarray = to_host(end.point.w)
        return w

    def _rough_ends(self) -> Iterator[Solution]:
        """Solve from random starts by Newton's method."""
        settings = replace(self.settings, tol=self.loose, solver_options=None, max_iter=MOST_STEPS)
        by_newton = "newton" if self.objective.penalty.is_smooth else "proximal_newton"
        for w in random_starts(self.objective):
            yield self.solve(self.objective, w, by_newton, settings)


def random_starts(objective: Objective) -> Iterator[np.ndarray]:
    """Draw points around the best constant, always the same ones; none where solves take long.

    Cost: 1 pass, and 1 for each.
    """
    if float(objective.engine.facts.nonzeros) * objective.size > MOST_WORK or not objective.size:
        return
    # curvatures of least squares are sums of squares of columns
    problem = replace(objective.problem, loss=LOSSES["squared"].ref)
    of_columns = Evaluate(objective.origin, objective.new_token(), diagonal=True, keep=False)
    squares = to_host(objective.rows.with_problem(problem).ask(of_columns)["diagonal"])
    with np.errstate(divide="ignore"):
        scales = np.where(squares > 0.0, np.sqrt(objective.total_weight / squares), 0.0)
    centre = objective.at(objective.origin)
    rng = np.random.default_rng(0)
    for distance in DISTANCES:
        w = objective.xp.asarray(
            to_host(centre.w) + distance * scales * rng.standard_normal(len(scales))
        )
        if objective.is_inside(w) and objective.at(w).value <= FAR * abs(centre.value):
            yield to_host(w)


def _lowest(ends: Sequence[Solution], tol: float, constant: float) -> Solution:
    """Return the first end, or one that converged and is lower by more than the tolerance."""
    least = ends[0]
    for end in ends[1:]:
        if _counts(end) and _is_lower(end, least, tol, constant):
            least = end
    return least


def _differ(least: Solution, ends: Sequence[Solution], tol: float, constant: float) -> bool:
    """Return whether ends that converged to `tol` are above the lowest one by more.

    Those above the best constant are no optima: losses that are not convex are flat far out.
    """
    below = [end for end in ends if _counts(end) and end.point.value < constant]
    return any(_is_lower(least, end, SAME_END * tol, constant) for end in below)


def _is_lower(end: Solution, other: Solution, tol: float, constant: float) -> bool:
    value = end.point.value
    return value < other.point.value - max(tol * abs(value), SAME_VALUES * abs(constant))


def _counts(end: Solution) -> bool:
    return end.reason.converged and end.point.value < math.inf


def _after(first: Solution, other: Solution) -> Solution:
    """Return another end with the iterations of the first solve before its own."""
    known = first.history
    own = [] if other.history is known else other.history
    more: list[Iteration] = [{**each, "iteration": len(known) + k} for k, each in enumerate(own)]
    return replace(other, history=[*known, *more])
