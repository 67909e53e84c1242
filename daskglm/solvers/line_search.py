"""The line search that solvers share: Armijo's rule on cached margins."""

from __future__ import annotations

import numpy as np

from daskglm.objectives.primal import Objective, Point

# Share of the decrease that the slope predicts which a step must reach (Nocedal & Wright,
# equation 3.4).
ARMIJO = 1e-4
# Step lengths asked for in one request while backtracking; each costs n losses, none a pass.
STEPS_PER_REQUEST = 4
# Shortest part of a step that is tried: where few rows have curvature, Newton's step may be 1e16
# times too long.
SHORTEST_STEP = 1e-30
# Relative differences of the objective below this are rounding.
ROUNDING = 16 * np.finfo(float).eps


def backtrack(
    objective: Objective,
    point: Point,
    trial: Point,
    reference: float | None = None,
    *,
    slope: float | None = None,
    gram: bool = False,
    keep: bool = True,
    exact: bool = False,
) -> Point | None:
    """The trial point if it decreases the objective enough, else the lowest of the first points
    between that do.

    Search between the two points uses their cached margins, so it makes no pass over X; only the
    accepted point is evaluated. `reference` replaces the value at `point` in Armijo's rule
    (non-monotone searches), and `slope` is the gradient there times the step, where that is known.
    None where no step helps. A trial that is level in floating point is taken: gradients can shrink
    where values no longer tell, and whether they do is for the driver to see.
    """
    reference = point.value if reference is None else reference
    slope = float(point.gradient @ (trial.w - point.w)) if slope is None else slope
    if trial.value <= reference + ARMIJO * slope:
        return trial
    if abs(trial.value - point.value) <= ROUNDING * abs(point.value):
        return trial
    t = 1.0
    while t > SHORTEST_STEP and slope < 0:
        steps = t * 0.5 ** np.arange(1, STEPS_PER_REQUEST + 1)
        values = objective.between(point, trial, steps)
        good = np.flatnonzero(values <= reference + ARMIJO * steps * slope)
        if len(good):
            t = float(steps[good[np.argmin(values[good])]])
            return objective.at(
                point.w + t * (trial.w - point.w), gram=gram, keep=keep, exact=exact
            )
        t = float(steps[-1])
    return None
