"""Further starts of problems that are not convex, and which end is taken.

Descent ends at a local optimum. Where others are lower nothing tells, but that descents from other
points end elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.outcome import Iteration
from daskglm.core.requests import Evaluate
from daskglm.fitting.driver import Record, Solution
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


def random_starts(objective: Objective) -> Iterator[np.ndarray]:
    """Draw points around the best constant, always the same ones; none where solves take long.

    Cost: 1 pass, and 1 for each.
    """
    if float(objective.engine.facts.nonzeros) * objective.size > MOST_WORK or not objective.size:
        return
    # curvatures of least squares are sums of squares of columns
    problem = replace(objective.problem, loss=LOSSES["squared"].ref)
    of_columns = Evaluate(objective.origin, objective.new_token(), diagonal=True, keep=False)
    squares = to_host(objective.engine.total(problem, of_columns)["diagonal"])
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


def lowest(ends: Sequence[Solution]) -> Solution:
    """Return the lowest end: the first, or one that converged."""
    first, *others = ends
    return min([first, *filter(_counts, others)], key=lambda end: end.point.value)


def is_lower(value: float, than: float) -> bool:
    """Return whether a value is lower than another by more than rounding."""
    return value < than - SAME_VALUES * abs(than)


def several(least: Solution, others: Sequence[Solution], tol: float, constant: float) -> bool:
    """Return whether ends that converged to `tol` are above the lowest one by more.

    Those above the best constant are no optima: losses that are not convex are flat far out.
    """
    values = [end.point.value for end in others if _counts(end) and end.point.value < constant]
    allowed = max(SAME_END * tol * abs(least.point.value), SAME_VALUES * abs(constant))
    return max(values, default=-math.inf) > least.point.value + allowed


def after(first: Solution, other: Solution, record: Record) -> Solution:
    """Return another end with the iterations of the first solve before its own."""
    known = first.history
    own = [] if other is first else other.history
    more: list[Iteration] = [{**each, "iteration": len(known) + k} for k, each in enumerate(own)]
    return replace(other, history=[*known, *more], cost=record.spent())


def _counts(end: Solution) -> bool:
    return end.reason.converged and end.point.value < math.inf
