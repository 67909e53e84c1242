"""Newton steps that a fit takes beyond `tol`, where they cost next to nothing.

A gap of 1e-6 leaves coefficients off by its root, and of canonical links sums of means and targets,
too. Where rows are few and the Hessian is known, two more steps give all digits that there are.
"""

from __future__ import annotations

import math
from typing import Any

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


def polished(objective: Any, point: Any) -> Any:
    """Return a point after a Newton step that lowers the gradient; else the point.

    Only where a Hessian costs little, and of losses for which the digits beyond `tol` matter: those
    of exponential families, those without a penalty, as statistics wants them, and any whose
    solver knows gradients alone, which stops at `tol` and not beyond it as Newton's steps do.
    Cost: 1 pass, and 1 for the first Hessian after such a solver.
    """
    loss, size = objective.loss, float(objective.size)
    # points of dual solvers and of many problems have a gap of their own
    if point.gap is not None:
        return point
    smooth = math.isfinite(loss.self_concordance) or loss.continuous_curvature
    first = point.gram is None
    wanted = loss.family is not None or (smooth and (first or not objective.is_penalised))
    # a Newton step has found the optimum of a quadratic already
    if not (wanted and objective.is_smooth and (first or not loss.is_quadratic)):
        return point
    work = objective.engine.facts.nonzeros * size + size**3
    if not (work <= MOST_WORK and 0.0 < point.gradient_norm < math.inf):
        return point
    if first:
        point = objective.at(point.w, gram=True, exact=True, beside=point)
    step = newton_step(point.gram, point.gradient)
    fall = -0.5 * float(point.gradient @ step)
    if not (fall > LEAST_FALL * abs(point.value) and objective.is_inside(point.w + step)):
        return point
    trial = objective.at(point.w + step, gram=True, exact=True, beside=point)
    level = trial.value <= point.value + ROUNDING * abs(point.value)
    return trial if level and trial.gradient_norm < 0.9 * point.gradient_norm else point
