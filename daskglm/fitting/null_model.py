"""The best constant of rows that an engine holds, from which pseudo R^2 are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from daskglm.core.asking import Asking
from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import EvaluateAlong
from daskglm.fitting.likelihoods import has_likelihood
from daskglm.losses.base import Loss
from daskglm.losses.table import JOINT_LOSSES
from daskglm.objectives.convex import Seen, least_of_several

# Relative fall of the sum of losses that is rounding.
SAME_VALUE = 1e-16


def null_value(
    asking: Asking, facts: DataSummary, loss: Loss, sides: Sequence[float]
) -> Callable[[], float]:
    """Return what returns the least sum of losses that one margin beside the offsets has.

    The first of its requests is put off until others are asked, or the value is. Cost: 0 passes.

    Parameters
    ----------
    asking : Asking
    facts : DataSummary
    loss : Loss
    sides : sequence of float
        Weights of the positive and negative rows, or of all classes.

    Without offsets that is the margin of the mean target, or of the share of the positive rows.
    NaN for losses of all classes with an offset, and those without a likelihood.
    """
    if not has_likelihood(loss):
        return lambda: math.nan
    if loss.name in JOINT_LOSSES:
        shares = np.array([side for side in sides if side > 0.0])
        none = not facts.largest_offset
        known = float(-shares @ np.log(shares / shares.sum())) if none else math.nan
        return lambda: known
    if loss.classifies and not min(sides) > 0.0:
        return lambda: 0.0
    start = loss.best_constant(*sides) if loss.classifies else _margin_of_mean(loss, facts)
    least = least_over_constants(asking, loss, start, search=facts.largest_offset > 0)
    return lambda: found if math.isfinite(found := least().value) else math.nan


def least_over_constants(
    asking: Asking, loss: Loss, start: float, *, search: bool
) -> Callable[[], Seen]:
    """Return what returns the constant beside the offsets with the least sum of losses.

    The first request is put off; a search takes some more. Cost: 0 passes.

    Parameters
    ----------
    asking : Asking
    start : float
        The constant that is taken, or from which the best one is searched for.
    search : bool
    """
    first = asking.later(_about([start]))

    def at(constants: list[float]) -> list[Seen]:
        sums = first() if constants == [start] else asking(_about(constants))
        values, slopes, hessians = (to_host(sums[k]) for k in ("values", "slopes", "hessians"))
        known = zip(constants, values, slopes[:, 0], hessians[:, 0, 0], strict=True)
        return [Seen(*map(float, seen)) for seen in known]

    def least() -> Seen:
        if not search:
            return at([start])[0]
        return least_of_several(at, start, smooth=True, convex=loss.convex, enough=SAME_VALUE)

    return least


def _about(constants: list[float]) -> EvaluateAlong:
    return EvaluateAlong((), np.empty((len(constants), 0)), np.array(constants)[:, None])


def _margin_of_mean(loss: Loss, facts: DataSummary) -> float:
    """Return the margin of the mean target; inside the domain where that is at its end."""
    with np.errstate(divide="ignore"):
        mean = facts.target_sum / facts.weight
        margin = float(mean if loss.link is None else loss.link.of_mean(mean))
    exact = math.isfinite(margin) and not facts.largest_offset
    return margin if exact else loss.start(facts)
