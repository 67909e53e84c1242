"""How the labels of a block become targets and row weights of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.requests import Problem
from daskglm.data.blocks import Block
from daskglm.kernels import backend_of
from daskglm.kernels.records import NO_NUMBERS
from daskglm.losses.table import loss_of
from daskglm.worker.fold_assignment import trained_on


class Targets(NamedTuple):
    """What a problem makes of the columns beside the rows, where the rows are.

    These are targets (-1 and +1, or numbers), row weights (empty: all one) and offsets of margins
    (empty: all zero), one a row or, (n, K), one for each class.
    """

    y: Any
    weight: Any
    offset: Any


def signs_of(labels: Sequence[Any], positive: Any) -> np.ndarray:
    """+1 for the positive label, -1 for all others, as int8."""
    return np.array([1 if label == positive else -1 for label in labels], np.int8)


def targets_of(block: Block, problem: Problem) -> Targets:
    """Return targets and weights of a block under a problem.

    They follow from its positive class, its class weights, the fold that it trains on, how far
    targets are to be inside of what the family has, and a target that is given for all. Where the
    loss depends on differences from the target alone, an offset is taken from the target.
    """
    y, weight, offset = block.moved or (block.y, block.weight, block.offset)
    weight = NO_NUMBERS if weight is None else weight
    xp = backend_of(block.X).xp
    if problem.target is not None:
        y = xp.full(len(y), problem.target)
    if offset is None:
        offset = NO_NUMBERS
    elif offset.ndim == 1 and loss_of(problem.loss).shifts:
        y, offset = y - offset, NO_NUMBERS

    if block.labels is not None and len(y):
        # both are on the host where codes on a device were released after another problem
        y, weight = xp.asarray(y), xp.asarray(weight)
        factors = dict(problem.class_weight)
        by_label = np.array([factors.get(label, 1.0) for label in block.labels])
        if not (by_label == 1.0).all():
            weight = xp.asarray(by_label)[y] * (weight if len(weight) else 1.0)
        y = xp.asarray(signs_of(block.labels, problem.positive))[y]

    family = loss_of(problem.loss).family
    if problem.inside > 0.0 and family is not None:
        low, high = family.domain.low + problem.inside, family.domain.high - problem.inside
        y = xp.clip(xp.asarray(y, dtype=np.float64), low, high)

    if problem.folds is not None and problem.fold is not None:
        trained = xp.asarray(trained_on(block, problem.folds, problem.fold))
        weight = trained * weight if len(weight) else trained
    return Targets(y, weight, offset)
