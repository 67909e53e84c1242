"""Newton steps that a fit takes beyond `tol`, where they cost next to nothing.

A gap of 1e-6 leaves coefficients off by its root, and of canonical links sums of means and targets,
too. Where rows are few and the Hessian is known, two more steps give all digits that there are.
"""

from __future__ import annotations

import math

from daskglm.objectives.batched import AnyObjective, BatchObjective
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.line_search import ROUNDING
from daskglm.solvers.linear_systems import newton_step

# Multiplications that a Hessian and its factorisation may take: a few milliseconds. Chosen.
MOST_WORK = 1e7
# Steps at most. Each squares the error, so that two leave what rounding leaves; where the loss is
# not convex, and its Hessian is the expected one, each leaves a share. Chosen.
MOST_STEPS = 20
# Share of the value by which a step must be expected to lower it: between the fall that is left at
# coefficients with eleven digits, and what rounding of gradients makes of none. Chosen.
LEAST_FALL = 1e-22


def polished(objective: AnyObjective, point: Point, *, moved: bool, rough: bool) -> Point:
    """Return a point after a Newton step that lowers the gradient; else the point.

    Only where a Hessian costs little, and where the digits beyond `tol` matter. Cost: 1 pass, and 1
    for the Hessian at a point where it is not known.

    Parameters
    ----------
    moved : bool
        Whether the solver has left its start.
    rough : bool
        Whether it ends at `tol` (`solvers.Iterate`).
    """
    # points of dual solvers and of many problems have a gap of their own
    if isinstance(objective, BatchObjective) or point.gap is not None:
        return point
    if not (objective.penalty.is_smooth and _is_wanted(objective, point, rough)):
        return point
    unknown, size = point.hessian is None, float(objective.size)
    work = objective.engine.facts.nonzeros * size + size**3
    if (unknown and not moved) or not (work <= MOST_WORK and 0.0 < point.gradient_norm < math.inf):
        return point
    if unknown:
        point = objective.at(point.w, gram=True, exact=True, beside=point)
    step = newton_step(point.known_hessian, point.gradient)
    fall = -0.5 * float(point.gradient @ step)
    if not (fall > LEAST_FALL * abs(point.value) and objective.is_inside(point.w + step)):
        return point
    trial = objective.at(point.w + step, gram=True, exact=True, beside=point)
    level = trial.value <= point.value + ROUNDING * abs(point.value)
    return trial if level and trial.gradient_norm < 0.9 * point.gradient_norm else point


def _is_wanted(objective: Objective, point: Point, rough: bool) -> bool:
    """Return whether the digits beyond `tol` matter.

    They do for exponential families, and without a penalty, as statistics wants them; and after
    rough solvers. A Newton step has found the optimum of a quadratic already.
    """
    loss = objective.loss
    smooth = loss.has_smooth_curvature
    if point.hessian is None and rough:
        return smooth
    bare = smooth and not objective.is_penalised and point.hessian is not None
    return not loss.is_quadratic and (loss.family is not None or bare)
