"""The best constant of rows that an engine holds, from which pseudo R^2 are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.requests import EvaluateAlong, Problem, Request, Totals
from daskglm.losses.base import Loss
from daskglm.losses.table import JOINT_LOSSES
from daskglm.objectives.convex import Seen, least_of_several

# Relative fall of the sum of losses that is rounding.
SAME_VALUE = 1e-16


def null_value(engine: Engine, problem: Problem, loss: Loss, sides: Sequence[float]) -> float:
    """Return the least sum of losses that one margin beside the offsets has. 0 passes.

    Parameters
    ----------
    sides : sequence of float
        Weights of the positive and negative rows, or of all classes.

    Without offsets that is the margin of the mean target, or of the share of the positive rows.
    NaN for losses of all classes with an offset.
    """
    facts = engine.facts
    if loss.name in JOINT_LOSSES:
        shares = np.array([side for side in sides if side > 0.0])
        none = not facts.largest_offset
        return float(-shares @ np.log(shares / shares.sum())) if none else math.nan
    if loss.classifies and not min(sides) > 0.0:
        return 0.0
    start = loss.best_constant(*sides) if loss.classifies else _margin_of_mean(loss, engine)
    least = least_over_constants(
        lambda request: engine.total(problem, request), loss, start, search=facts.largest_offset > 0
    )
    return least if math.isfinite(least) else math.nan


def least_over_constants(
    ask: Callable[[Request], Totals], loss: Loss, start: float, *, search: bool
) -> float:
    """Return the least sum of losses of constants beside the offsets. 0 passes, some rounds.

    Parameters
    ----------
    ask : callable
        Passes a request about the loss to the rows.
    start : float
        The constant that is taken, or from which the best one is searched for.
    search : bool
    """
    best = math.inf

    def at(constants: list[float]) -> list[Seen]:
        nonlocal best
        points = np.empty((len(constants), 0))
        sums = ask(EvaluateAlong((), points, np.array(constants)[:, None]))
        values, slopes, hessians = (to_host(sums[k]) for k in ("values", "slopes", "hessians"))
        known = zip(constants, values, slopes[:, 0], hessians[:, 0, 0], strict=True)
        found = [Seen(*map(float, seen)) for seen in known]
        best = min([best, *(seen.value for seen in found if not math.isnan(seen.value))])
        return found

    if search:
        least_of_several(at, start, smooth=True, convex=loss.convex, enough=SAME_VALUE)
    else:
        at([start])
    return best


def _margin_of_mean(loss: Loss, engine: Engine) -> float:
    """Return the margin of the mean target; inside the domain where that is at its end."""
    facts = engine.facts
    with np.errstate(divide="ignore"):
        mean = facts.target_sum / facts.weight
        margin = float(mean if loss.link is None else loss.link.of_mean(mean))
    exact = math.isfinite(margin) and not facts.largest_offset
    return margin if exact else loss.start(facts)
