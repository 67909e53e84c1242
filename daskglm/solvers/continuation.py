"""Start Newton's method on a loss whose curvature jumps: its weight grows from step to step."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.reweighting import reweighted, weighted
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import newton_step
from daskglm.solvers.workload import curvature_ratio

# Factor by which the weight of the losses grows, and the share of the value that a step has to be
# expected to take for another step with the same weight. On 80 generated problems of 0.4 to 40 rows
# for each feature factors of 10, 5, 3 and 2 took 6.3 to 6.6 steps in the mean of logarithms and 47,
# 65, 35 and 34 at most; on 50 that are nearly separable 10, 3 and 2 took 13, 11.6 and 11.9. Half
# of the share took 3 to 14 % more (2026-11-28).
GROWTH, WORTH = 3.0, 0.1


def is_continued(objective: Objective, point: Point) -> bool:
    """Return whether steps at the full weight may turn rows on and off again and again.

    Those of squared hinges do: where few rows for each feature have curvature, the others say
    nothing of how far a step may go.
    """
    whole = isinstance(point.hessian, np.ndarray) and objective.margins.moves_alike
    return objective.loss.jumps and objective.is_penalised and whole


def continued(objective: Objective, point: Point, *, keep: bool) -> Generator[Iterate, None, Point]:
    """Take Newton steps while the weight of the losses grows to that of the objective.

    It begins where the losses curve a mean row as much as the penalty does. Returns the last point.
    Cost: 1 pass with a Hessian for each step, 2 for a damped one.
    """
    share = 1.0 / max(curvature_ratio(objective), 1.0)
    while share < 1.0:
        weak = reweighted(point, weighted(objective, share * objective.C))
        step = newton_step(weak.known_hessian, weak.gradient)
        slope = float(weak.gradient @ step)
        if not -0.5 * slope > WORTH * weak.value:
            share = GROWTH * share
            continue
        trial = weak.objective.at(weak.w + step, gram=True, keep=keep, beside=weak)
        found = backtrack(weak.objective, weak, trial, slope=slope, gram=True, keep=keep)
        if found is None:
            break
        point = reweighted(found, objective)
        yield Iterate(point)
    return point
