"""Statistics of a fit to a family: deviances, dispersion, likelihood and information criteria."""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from daskglm.core.asking import Asking
from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.requests import Problem, ResidualSums
from daskglm.fitting.null_model import least_over_constants
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Shares of the way to the best constant, the first that can be evaluated is taken. Chosen.
SHORT = (1.0, 1.0 - 1e-12, 1.0 - 1e-9, 1.0 - 1e-6, 1.0 - 1e-3, 0.0)
# Of the problems of an engine: those of a path share them, and a search takes some rounds.
_null_deviances: WeakKeyDictionary[Engine, dict[Problem, float]] = WeakKeyDictionary()


def statistics_of(objective: Objective, point: Point) -> dict[str, float]:
    """Return those fields of a `Report` that losses of families have; empty for others.

    - deviance: twice the sum of the losses, weights included;
    - null_deviance: that of the best constant, with the offsets;
    - dispersion: Pearson's statistic over rows of weight above zero less coefficients;
    - log_likelihood: with the dispersion of the family, or else deviance / n;
    - aic, bic: by the number of coefficients, and 1 for an estimated dispersion. Not with a
      penalty, which leaves that number open.

    Cost: 0 passes where the margins are cached, else 1, and some rounds.
    """
    loss, facts = objective.loss, objective.engine.facts
    if loss.family is None or not math.isfinite(point.value):
        return {}
    at, asking = (point.token, point.w), Asking(objective.ask)
    penalty = objective.penalty.value(to_host(point.w))
    deviance = 2.0 * (point.value - penalty) / objective.C
    free = facts.n_used - objective.size
    is_plain = not objective.penalty.quadratic.largest and objective.penalty.is_smooth
    if point.prediction is not None:
        # of least squares Pearson's statistic is the deviance
        known = _null_deviance_of(objective, point.prediction.base)
        dispersion = deviance / free if free > 0 else math.nan
        found = {"deviance": deviance, "null_deviance": known, "dispersion": dispersion}
        if not is_plain:
            return found
        at = (objective.new_token(), point.w)  # nothing was evaluated there
        null = None
    else:
        found, null = {"deviance": deviance}, _null_deviance(objective, asking)

    fixed = phi = loss.family.dispersion
    if phi is None:
        count = facts.n_used if loss.family.variance_by_weight else objective.total_weight
        phi = deviance / count if deviance > 0.0 else None
    sums = asking(ResidualSums(at, phi))
    if null is not None:
        found["null_deviance"] = null()
    found["dispersion"] = float(sums["pearson"]) / free if free > 0 else math.nan
    likelihood = float(sums["likelihood"])
    found["log_likelihood"] = likelihood
    if is_plain:
        parameters = objective.size + (fixed is None)
        found["aic"] = 2.0 * (parameters - likelihood)
        found["bic"] = math.log(facts.n_used) * parameters - 2.0 * likelihood
    return found


def at_best_constant(objective: Objective, origin: np.ndarray) -> np.ndarray:
    """Let solves start at the best constant, the offsets added to it, and return that.

    Then no descent ends above that. Cost: some rounds, and 1 pass where links bound margins;
    nothing without offsets, or for Poisson's log link, of which `Loss.start` is the best constant.
    """
    loss, facts = objective.loss, objective.engine.facts
    is_known = not facts.largest_offset or loss.name == "poisson"
    if is_known or not (loss.bends and objective.fit_intercept and objective.outputs == 1):
        return origin
    before = objective.start
    best = least_over_constants(Asking(objective.ask), loss, before, search=True)()
    if math.isfinite(best.value):
        known = _null_deviances.setdefault(objective.engine, {})
        known[objective.problem] = 2.0 * best.value
        shift = best.at - before
        bounded = loss.link is not None and loss.link.is_bounded
        # at the end of what a link takes rounding may put a margin outside: stay short of it
        for share in SHORT if math.isfinite(shift) else ():
            objective.start = before + share * shift
            if not bounded or math.isfinite(objective.at(objective.origin).value):
                break
    moved: np.ndarray = to_host(objective.origin)
    return moved


def _null_deviance_of(objective: Objective, origin: Point) -> float:
    """Return the deviance of the best constant of least squares, by the point at w = 0."""
    if origin.w.any():
        return math.nan
    fall = 0.0
    if objective.fit_intercept and origin.hessian is not None:
        fall = 0.5 * float(origin.gradient[-1]) ** 2 / float(origin.hessian.diagonal()[-1])
    return 2.0 * (origin.value - objective.penalty.value(origin.w) - fall) / objective.C


def _null_deviance(objective: Objective, asking: Asking) -> Callable[[], float]:
    """Return what returns the deviance of the best constant, offsets added to it.

    It is the same for any penalty. What it asks first is put off.
    """
    facts, loss = objective.engine.facts, objective.loss
    known = _null_deviances.setdefault(objective.engine, {})
    if objective.problem in known:
        return lambda: known[objective.problem]
    start, search = loss.start(facts), True
    if not facts.largest_offset and not loss.bends:
        start, search = facts.target_sum / facts.weight, False
    elif not facts.largest_offset and loss.link is not None and loss.link.is_bounded:
        search = False
    least = least_over_constants(asking, loss, start, search=search)

    def found() -> float:
        known[objective.problem] = 2.0 * least().value
        return known[objective.problem]

    return found
