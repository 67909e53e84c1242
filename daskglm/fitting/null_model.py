"""The best constant of rows that an engine holds, from which pseudo R^2 are measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from daskglm.core.engine import Engine
from daskglm.core.inference_requests import ConstantSums
from daskglm.core.requests import Problem
from daskglm.losses.base import Loss
from daskglm.losses.table import JOINT_LOSSES
from daskglm.objectives.convex import Seen, least_of_several


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
    best = [math.inf]

    def ask(margins: list[float]) -> list[Seen]:
        sums = engine.total(problem, ConstantSums(tuple(margins)))
        known = (sums[name].tolist() for name in ("values", "slopes", "curvatures"))
        found = [Seen(*seen) for seen in zip(margins, *known, strict=True)]
        best[0] = min([best[0], *(seen.value for seen in found if seen.value == seen.value)])
        return found

    start = loss.best_constant(*sides) if loss.classifies else _margin_of_mean(loss, engine)
    if facts.largest_offset:
        least_of_several(ask, start, smooth=True, convex=loss.convex)
    else:
        ask([start])
    return best[0] if math.isfinite(best[0]) else math.nan


def _margin_of_mean(loss: Loss, engine: Engine) -> float:
    """Return the margin of the mean target; inside the domain where that is at its end."""
    facts = engine.facts
    with np.errstate(divide="ignore"):
        mean = facts.target_sum / facts.weight
        margin = float(mean if loss.link is None else loss.link.of_mean(mean))
    exact = math.isfinite(margin) and not facts.largest_offset
    return margin if exact else loss.start(facts)
