"""Newton steps that a fit takes beyond `tol`, where they cost next to nothing.

A gap of 1e-6 leaves coefficients off by its root, and of canonical links sums of means and targets,
too. Where rows are few and in memory two more steps give all digits that there are.
"""

from __future__ import annotations

import math
from typing import Any

from daskglm.engines.local import Local
from daskglm.objectives.hessian_factor import UNIT
from daskglm.solvers.line_search import ROUNDING
from daskglm.solvers.linear_systems import newton_step

# Multiplications that a Hessian and its factorisation may take: a few milliseconds. Chosen.
MOST_WORK = 1e7
# Steps at most. Each squares the error, so that two leave what rounding leaves; where the loss is
# not convex, and its Hessian is the expected one, each leaves a share. Chosen.
MOST_STEPS = 20


def is_cheap(objective: Any) -> bool:
    """Return whether Newton's method on all rows costs next to nothing."""
    engine, size = objective.engine, float(objective.size)
    work = engine.facts.nonzeros * size * objective.outputs + size**3
    return isinstance(engine, Local) and engine.capabilities.device == "cpu" and work <= MOST_WORK


def polished(objective: Any, point: Any) -> Any:
    """Return a point after Newton steps that lower the value or the gradient; else the point.

    Only of smooth objectives with curvature, and where that is cheap. Cost: mostly 2 or 3 passes.
    """
    loss = objective.loss
    smooth = loss.differentiable and objective.is_smooth and not loss.is_quadratic
    if not smooth or point.gap is not None or point.certify is not None:
        return point
    if not (is_cheap(objective) and 0.0 < point.gradient_norm < math.inf):
        return point
    for _ in range(MOST_STEPS):
        here = point if point.gram is not None else objective.at(point.w, gram=True, exact=True)
        step = newton_step(here.gram, here.gradient)
        fall = -0.5 * float(here.gradient @ step)
        if not (fall > UNIT**2 * abs(here.value) and objective.is_inside(here.w + step)):
            break
        trial = objective.at(here.w + step, gram=True, exact=True, beside=here)
        level = trial.value <= here.value + ROUNDING * abs(here.value)
        if not (level and trial.gradient_norm < 0.9 * here.gradient_norm):
            break
        point = trial
    return point
