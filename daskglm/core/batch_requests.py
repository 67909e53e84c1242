"""Requests about many problems at once: the rows of one W, each with its class and its fold.

Like those of `requests`, they are frozen, picklable and complete, and replies are dictionaries of
sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class EvaluateMany:
    """Evaluate loss and gradient of many problems, the rows of W (P, d or d + 1), at once. 1 pass.

    Parameters
    ----------
    classes : tuple
        Positive labels; empty: a regression.
    of : (P,) array
        Index into `classes` of each problem.
    fold : (P,) array
        Fold that is held out of each problem; -1: none.
    gram : tuple of int
        Problems whose Grams to form.
    by_group : bool
        Whether gradients and Grams are by group of rows, instead of over the rows that are trained
        on.
    part : tuple (every, first)
        Of the tiles of rows, read each `every`-th beginning with number `first`.
    anchors : (Q, size) array, optional
        Points with which margins are compared.
    anchor : (P,) array, optional
        The anchor of each problem.
    score : bool
        Whether only rows held out are evaluated: values, zero for other groups, and counts.
    exact : bool
        Whether Grams are summed in float64, whatever the dtype of the rows.

    Reply: values (groups, P), gradients (groups or 1, P, size), counts (P, 4) of rows held out
    (weight of positive ones predicted right, of positive ones, the same of negative ones), moments
    (P,), sums over all rows of (margin less that of the anchor) ** `summation.MOMENT`, grams
    (groups or 1, Grams, size, size). Of wide sparse rows there are no Grams.
    """

    W: np.ndarray
    of: np.ndarray
    fold: np.ndarray
    classes: tuple[Any, ...] = ()
    gram: tuple[int, ...] = ()
    by_group: bool = False
    part: tuple[int, int] = (1, 0)
    anchors: np.ndarray | None = None
    anchor: np.ndarray | None = None
    score: bool = False
    exact: bool = False


@dataclass(frozen=True)
class WeighGroups:
    """Add up weights of the rows by group of the problem's folds and by class. 0 passes.

    Reply: weights (groups, classes).
    """

    classes: tuple[Any, ...]


@dataclass(frozen=True)
class ScoreHeldOut:
    """What is needed to score models on the rows that their folds hold out. 1 pass.

    Parameters
    ----------
    W : (folds, models, K, d or with intercept d + 1) array
        Several models for each fold, of K = 1 problem for two classes, else one per class.
    classes : tuple
        All labels, in order.
    gather : bool
        Whether the decision values themselves are wanted.

    Reply: counts (folds, models, classes, classes), numbers of rows by true and predicted class,
    weights, the same sums of row weights, and losses (folds, models), weighted sums of -log of the
    probability of the true class, which is clipped as scikit-learn's `log_loss` does. With `gather`
    instead values: `GatheredRows`.
    """

    W: np.ndarray
    classes: tuple[Any, ...]
    gather: bool = False


@dataclass(frozen=True)
class HeldOutLosses:
    """Add up the losses of regressions on the rows that their folds hold out. 1 pass.

    Parameters
    ----------
    W : (folds, models, d or with intercept d + 1) array
        Several models for each fold.
    margin : float
        Constant that is compared with them, without the rows' offsets.

    Reply: losses (folds, models), and for each fold constant, weight and targets (folds,): losses
    of the constant, and sums of weights and of weighted targets.
    """

    W: np.ndarray
    margin: float


@dataclass(frozen=True)
class GatheredRows:
    """Rows that were gathered, in runs; adding joins the runs.

    `runs` maps (partition, first row of a block, first row in it, fold) to classes (n,) as numbers,
    weights (n,) and decision values (n, models, K). Its order is that of the user's data, whichever
    workers answered.
    """

    runs: dict[tuple[int, int, int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]

    def __add__(self, other: GatheredRows) -> GatheredRows:
        return GatheredRows(self.runs | other.runs)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for run in self.runs.values() for array in run)

    def of(self, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return classes, weights and decision values of all rows that a fold holds out, in order.

        There must be at least one run.
        """
        runs = [self.runs[key] for key in sorted(self.runs) if key[3] == fold]
        codes, weights, values = (np.concatenate(parts) for parts in zip(*runs, strict=True))
        return codes, weights, values


BatchRequest = EvaluateMany | WeighGroups | ScoreHeldOut | HeldOutLosses
