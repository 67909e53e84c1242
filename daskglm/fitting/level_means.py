"""Where solves start of a large factor without a penalty: at the means of its levels.

Newton's method from one constant wastes steps on levels whose means are far from it. With a log
link a level of e^k times the mean first overshoots its optimum, and comes back by one in each step
(McCullagh & Nelder start from the targets themselves, for that reason). A level alone has its
optimum where its mean is that of its targets, whatever the family: one pass tells all of them.
Levels whose targets are all at an end, as counts of zero, have no optimum: these start so far out
that what is left of their losses is nothing beside `tol`.
"""

from __future__ import annotations

import numpy as np

from daskglm.core.column_requests import ColumnTargets
from daskglm.fitting.separation import free_entries
from daskglm.losses.base import Loss
from daskglm.losses.links import LOGIT, Link
from daskglm.objectives.primal import Objective

# Share of the mean of a level's rows, and of what an end above leaves, to which its targets' mean
# is moved from an end: -23 of a margin with a log link. Chosen: 1e-10 of a loss is below any `tol`
# that rounding leaves to wish for.
NEAR_END = 1e-10
# Share of the weight below which rows without a level of the factor are none, but for rounding.
NO_WEIGHT = 1e-9


def at_level_means(objective: Objective, origin: np.ndarray) -> np.ndarray:
    """Return coefficients that give each level of the factor to be eliminated its own mean.

    Others are as at the origin, which is returned for penalised levels, and where margins are the
    means. With offsets it is the ratio to the mean that they give at the origin. Cost: 1 pass, or
    nothing.
    """
    link = _link_of(objective.loss)
    if link is None or not objective.blocks:
        return origin
    start, stop = objective.blocks[0]
    if not free_entries(objective)[start:stop].all():
        return origin
    totals = objective.ask(ColumnTargets(objective.start))
    sums = np.array([totals[name] for name in ("weights", "targets", "means")])
    levels = sums[:, start:stop]
    base = sums[:, -1:] - levels.sum(axis=1, keepdims=True)
    has_base = base[0, 0] > NO_WEIGHT * sums[0, -1]
    w = origin.copy()
    w[start:stop] += _shifts(objective.loss, link, levels)
    if objective.fit_intercept and has_base:
        shift = _shifts(objective.loss, link, base)[0]
        w[start:stop] -= shift
        w[-1] += shift
    return w if np.isfinite(w).all() else origin


def _link_of(loss: Loss) -> Link | None:
    """Return the link by which a level's mean gives its margin; None: start at the origin."""
    if loss.name == "logistic":
        return LOGIT
    return loss.link if loss.bends else None


def _shifts(loss: Loss, link: Link, sums: np.ndarray) -> np.ndarray:
    """Return by how much margins are to move for means to be those of targets, (k,).

    `sums` (3, k) are of weights, weighted targets and means. Where there is no weight it is zero.
    """
    weight, target, mean = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        target, mean = target / weight, mean / weight
        ends = loss.family.domain if loss.family is not None else None
        low, high = (0.0, 1.0) if ends is None else (ends.low, ends.high)
        if np.isfinite(low):
            target = np.maximum(target, low + NEAR_END * (mean - low))
        if np.isfinite(high):
            target = np.minimum(target, high - NEAR_END * (high - mean))
        found = link.of_mean(target) - link.of_mean(mean)
    return np.where(weight > 0.0, found, 0.0)
