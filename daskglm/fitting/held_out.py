"""How well models do on the rows that their folds hold out, and which strength that speaks for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskglm.core.batch_requests import HeldOutLosses
from daskglm.fitting.problem_grid import ProblemGrid
from daskglm.losses.base import Loss

# Rules by which a strength is selected: the least mean, or the strongest penalty whose mean is
# within one standard error of that.
SELECTIONS = ("min", "1se")


class HeldOut(NamedTuple):
    """Mean deviance and D^2 on the rows that each fold holds out, (values, folds).

    D^2 is nan for losses of no family.
    """

    deviance: np.ndarray
    d2: np.ndarray


def held_out(grid: ProblemGrid, paths: np.ndarray) -> HeldOut:
    """Score models (folds, values, size) on the rows that their folds hold out.

    Cost: 1 pass, 1 round.
    """
    loss, facts = grid.loss, grid.engine.facts
    mean = facts.target_sum / facts.weight
    margin = mean if loss.link is None else float(loss.link.of_mean(mean))
    sums = grid.objective.ask(HeldOutLosses(np.ascontiguousarray(paths), margin))
    weight, targets, losses = sums["weight"], sums["targets"], sums["losses"]
    deviance = (2.0 * losses / np.where(weight > 0.0, weight, 1.0)[:, None]).T
    if not (weight > 0.0).all():
        fold = int(np.argmin(weight))
        raise ValueError(f"cv: all rows that fold {fold} holds out have weight zero")
    if loss.family is None:
        return HeldOut(deviance, np.full(deviance.shape, np.nan))
    # Deviances are Bregman divergences: those from the mean of a fold are those from the mean of
    # all, less the weight times the divergence between both means.
    between = [_between(loss, each, margin) for each in targets / weight]
    of_mean = sums["constant"] - weight * between
    with np.errstate(divide="ignore", invalid="ignore"):
        d2 = 1.0 - losses / of_mean[:, None]
    return HeldOut(deviance, d2.T)


def _between(loss: Loss, mean: float, margin: float) -> float:
    """Return the loss of a mean at the margin of another."""
    return float(loss.row(mean, margin, loss.p1, loss.p2)[0])


def selected(deviance: np.ndarray, alphas: np.ndarray, rule: str) -> int:
    """Return the number of the strength that a rule of `SELECTIONS` selects.

    Parameters
    ----------
    deviance : (values, folds) array
        Means on the rows that folds hold out.
    alphas : (values,) array
    rule : {"min", "1se"}
        With "1se" the largest alpha whose mean over the folds is at most the least one plus its
        standard error, the standard deviation over the folds (n - 1) over the root of their number
        (Breiman et al. 1984, as glmnet's lambda.1se).
    """
    mean = deviance.mean(axis=1)
    best = int(mean.argmin())
    folds = deviance.shape[1]
    if rule == "min" or folds < 2:
        return best
    within = np.flatnonzero(mean <= mean[best] + standard_errors(deviance)[best])
    return int(within[np.argmax(alphas[within])])


def standard_errors(deviance: np.ndarray) -> np.ndarray:
    """Return the standard errors of means over the folds, (values,), of a (values, folds) array."""
    folds = deviance.shape[1]
    found: np.ndarray = deviance.std(axis=1, ddof=min(1, folds - 1)) / np.sqrt(folds)
    return found
