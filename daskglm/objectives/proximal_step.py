"""The primal of a proximal step on the dual of a loss with corners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from daskglm.losses.base import Loss
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import Objective

# Mean loss, as a share of the largest target, below which no corner is rounded over less. Chosen.
SMALLEST = 1e-12


def smoothed(dual: Dual, width: float) -> Objective:
    """Return the primal with a proximal term around the dual variables as they are.

    It rounds the corners of the loss over this width.
    """
    objective = dual.objective
    problem, loss = objective.problem, objective.loss
    assert loss.smoothed is not None
    rounded = loss.smoothed(loss, width)
    around = (dual.number, width)
    rows = objective.engine, replace(problem, loss=rounded.ref, centre=around)
    given: dict[str, Any] = {
        "C": objective.scale,
        "fit_intercept": objective.fit_intercept,
        "intercept_radius": 2.0 if loss.classifies else objective.intercept_radius + width,
        "sides": objective.sides,
        "penalty": objective.penalty,
        "any_penalty": objective.bounds.any_penalty,
    }
    return Objective(*rows, rounded, **given)


def residual_unit(objective: Objective, value: float) -> float:
    """Return the size of residuals that widths are measured by, at a value of the objective.

    It is one for labels, the distance of a hinge's corner from zero. For numbers it is the mean
    loss, and more for slopes of unlike sizes, as of a quantile near one: the mean loss is small
    then beside residuals.
    """
    loss = objective.loss
    if loss.classifies:
        return 1.0
    largest = objective.engine.facts.largest_target
    mean = value / (objective.scale * objective.total_weight)
    low, high = box_of(loss)
    size = mean * (high - low) ** 2 / (-4.0 * low * high)
    return min(max(size, SMALLEST * largest), largest) or 1.0


def box_of(loss: Loss) -> tuple[float, float]:
    """Return the ends of the dual variables' domain, of a loss of numbers."""
    assert loss.dual is not None
    low, high = (loss.dual.into_domain(0.0, end, loss.p1, loss.p2) for end in (-2.0, 2.0))
    return low, high
