"""The line search that solvers share: Armijo's rule on cached margins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Share of the decrease that the slope predicts which a step must reach (Nocedal & Wright,
# equation 3.4).
ARMIJO = 1e-4
# Share of a step that leads out of what a link takes, tried before its halves: Nocedal & Wright,
# equation 19.9.
NEARLY = 0.995
# Relative differences of the objective below this are rounding.
ROUNDING = 16 * np.finfo(float).eps


def backtrack(
    objective: Objective,
    point: Point,
    trial: Point,
    reference: float | None = None,
    *,
    slope: float | None = None,
    **how: Any,
) -> Point | None:
    """Search for a point that decreases the objective enough, from `trial` back towards `point`.

    The search takes cached margins of both points, so it makes no pass over X; only the accepted
    point is evaluated.

    Parameters
    ----------
    objective : Objective
    point, trial : Point
        Where the step begins and ends.
    reference : float, optional
        Value that Armijo's rule compares with (non-monotone searches); default: that at `point`.
    slope : float, optional
        Gradient at `point` times the step, if it is known.
    **how
        How to evaluate the accepted point: keywords of `Objective.at`.

    Returns
    -------
    Point or None
        The trial point if that is good enough or level in floating point; else the lowest of the
        first points that are; None if there is none.
    """
    reference = point.value if reference is None else reference
    slope = float(point.gradient @ (trial.w - point.w)) if slope is None else slope
    if trial.value <= reference + ARMIJO * slope:
        return trial
    # gradients can still shrink where values no longer tell; the driver sees whether they do
    if abs(trial.value - point.value) <= ROUNDING * abs(point.value):
        return trial

    # Newton's step may be exp(z) times too long where curvatures fall as exp(-z)
    t = 1.0
    while t > 1e-300 and slope < 0:
        # four step lengths share a request, which costs n losses for each but no pass
        steps = t * 0.5 ** np.arange(1, 5)
        if t == 1.0 and not math.isfinite(trial.value) and has_ends(objective):
            # steps that lead to an end of margins reach it fast: Nocedal & Wright, section 19.2
            steps[0] = NEARLY
        values = objective.between(point, trial, steps)
        good = np.flatnonzero(values <= reference + ARMIJO * steps * slope)
        if len(good):
            t = float(steps[good[np.argmin(values[good])]])
            if objective.loss.jumps and objective.penalty.is_smooth:
                t = _level(objective, point, trial, slope, 2.0 * t)
            w = point.w + t * (trial.w - point.w)
            found = objective.at(w, **how)
            # at an end of the margins that a link takes, rounding may put a margin outside
            return found if math.isfinite(found.value) or not has_ends(objective) else None
        t = float(steps[-1])
    return None


def _level(objective: Objective, point: Point, trial: Point, slope: float, far: float) -> float:
    """Return at which part of a step, below `far`, the objective is level, nearly.

    Its slope along a step is linear between corners of rows where curvatures jump, so that halves
    of a step may be far from the best. Cost: 0 passes, 2 rounds.
    """
    ends, slopes = [0.0, far], [slope, math.inf]
    for _ in range(2):
        within = np.linspace(ends[0], ends[1], 6)
        found = objective.slopes_between(point, trial, list(within[1:-1]))
        known = [slopes[0], *found, slopes[1]]
        k = int(np.argmax(np.array(known) >= 0.0))
        ends, slopes = list(within[k - 1 : k + 1]), known[k - 1 : k + 1]
    share = -slopes[0] / (slopes[1] - slopes[0]) if slopes[1] < math.inf else 0.5
    return float(ends[0] + share * (ends[1] - ends[0]))


def has_ends(objective: Objective) -> bool:
    """Return whether margins have an end, beyond which the objective is infinite."""
    link = objective.loss.link
    return link is not None and link.is_bounded
