"""Ordinal fits between settings and solvers: classes, where they start, what they give back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.arguments import plain_label
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution
from daskglm.fitting.penalised import with_penalty
from daskglm.fitting.unpenalised import warn_if_dependent
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import link_of_loss
from daskglm.objectives.ordered import Ordered
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Margins are scaled up to this size: the loss of rows on their own side of all thresholds is less
# than the least normal number then, and 0.7 for rows on a threshold.
LARGE = 1e8
# Loss of a row, over its weight, that counts as none.
NONE = 1e-300


def ordinal_objective(
    engine: Engine, problem: Problem, weights: tuple[float, ...], loss: Loss, settings: FitConfig
) -> Objective:
    """Make the objective of all classes, which have these weights, in the order of their labels.

    Classes without weight are left out. Raises ValueError where fewer than two are left.
    """
    labels = sorted(label for label, _, _ in engine.facts.classes)
    held = [(label, weight) for label, weight in zip(labels, weights, strict=True) if weight > 0.0]
    if len(held) < 2:
        raise ValueError(
            f"only the class {plain_label(held[0][0])!r} has weight: thresholds between classes "
            "want two"
        )
    margins = Ordered(
        engine.facts.n_features or 0,
        classes=tuple(label for label, _ in held),
        shares=np.array([weight for _, weight in held], float),
        link=link_of_loss(loss.name),
    )
    C = settings.weight_of_losses(sum(weights))
    return with_penalty(engine, problem, loss, settings, margins, C=C)


def start_of_ordinal(start: Any, objective: Objective, labels: np.ndarray) -> np.ndarray:
    """Return where an ordinal fit starts, from coefficients (d,) and thresholds (K - 1,).

    Raises ValueError for other shapes, and for thresholds that do not increase.
    """
    if start is None:
        return np.asarray(objective.origin)
    coef, thresholds = np.ravel(start[0]), np.atleast_1d(start[1])
    d, m = objective.n_features, len(labels) - 1
    if np.atleast_2d(start[0]).shape != (1, d) or thresholds.shape != (m,):
        raise ValueError(
            f"warm_start has coefficients of shape {np.shape(start[0])} and thresholds of shape "
            f"{np.shape(start[1])}; this fit has {m + 1} classes and {d} features: it wants "
            f"({d},) and ({m},)"
        )
    held = objective.margins.places_among(labels)
    # of a class that is left out the thresholds are not needed: the lower one of the next is
    w = np.append(coef, thresholds[np.array(held[1:]) - 1])
    if not objective.is_inside(w):
        raise ValueError(f"warm_start has thresholds {thresholds}, which do not increase")
    return w


def coefficients(
    objective: Objective, w: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (1, d) and thresholds (K - 1,) of all labels.

    A class that was left out lies between equal thresholds, so that it has no probability; at an
    end it lies so far beyond that this is within the rounding of the others.
    """
    d, held = objective.n_features, objective.margins.places_among(labels)
    found = w[d:]
    thresholds = np.empty(len(labels) - 1)
    for k in range(len(thresholds)):
        below = int(np.searchsorted(held, k, side="right"))  # classes with weight up to k
        beyond = objective.loss.rest_margin
        if below == 0:
            thresholds[k] = found[0] - beyond * (held[0] - k)
        elif below == len(held):
            thresholds[k] = found[-1] + beyond * (k + 1 - held[-1])
        else:
            thresholds[k] = found[below - 1]
    return w[None, :d], thresholds


def is_separated(objective: Objective, point: Point) -> bool:
    """Return whether every row lies between the thresholds of its class, beyond rounding.

    Then there is no optimum without a penalty. Cost: 1 pass.
    """
    largest = float(np.abs(point.w).max(initial=0.0))
    if not largest > 0.0:
        return False
    # a power of two: margins are scaled exactly
    scale = 2.0 ** math.ceil(math.log2(LARGE / largest))
    scaled = objective.at(scale * point.w, keep=False).value
    return scaled <= NONE * objective.total_weight


def settled_ordinal(objective: Objective, solution: Solution) -> Solution:
    """Return the solution as it should be reported: separable classes have none without a penalty.

    Cost: 1 pass without a penalty, and what `warn_if_dependent` takes.
    """
    if objective.is_penalised or not math.isfinite(solution.point.value):
        return solution
    if objective.bounds.any_penalty and objective.penalty.is_held:
        return solution
    if is_separated(objective, solution.point):
        return replace(solution, reason=Reason.SEPARABLE)
    if not objective.bounds.any_penalty:
        warn_if_dependent(objective, solution.point)
    return solution


def ordinal_statistics(objective: Objective, point: Point) -> dict[str, float]:
    """Return the fields of a `Report` that come from the likelihood.

    - log_likelihood, and deviance, which is minus twice that;
    - null_deviance: that of the best thresholds alone, with the offsets;
    - dispersion: 1;
    - aic, bic: by the number of coefficients and thresholds. Not with a penalty, which leaves that
      number open.

    Cost: nothing; with offsets some rounds, and a pass if margins are not cached.
    """
    if not math.isfinite(point.value):
        return {}
    facts = objective.engine.facts
    penalty = objective.penalty.value(point.w)
    deviance = 2.0 * (point.value - penalty) / objective.C
    margins = Ordered.of(objective)
    shares = margins.shares
    if facts.largest_offset:
        start = objective.origin[objective.n_features :]
        null = 2.0 * margins.best_thresholds(objective, point, start, share=0.0)[1]
    else:
        null = -2.0 * float(shares @ np.log(shares / shares.sum()))
    found = {
        "deviance": deviance,
        "null_deviance": null,
        "dispersion": 1.0,
        "log_likelihood": -0.5 * deviance,
    }
    if objective.penalty.is_smooth and not objective.penalty.quadratic.largest:
        found["aic"] = 2.0 * objective.size + deviance
        found["bic"] = math.log(facts.n_used) * objective.size + deviance
    return found
