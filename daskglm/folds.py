"""Folds of cross-validation beside the data: which group each row of a block is in, and what is held out when."""

from __future__ import annotations

import numpy as np

from daskglm.blocks import Block
from daskglm.messages import Folds


def groups(block: Block, folds: Folds) -> np.ndarray:
    """Group of each row of a block, (n,); the same however blocks are placed, joined or sampled."""
    if block.drawn is not None:
        whole, rows = block.drawn
        return groups(whole, folds)[rows]
    parts, at = [], 0
    for partition, first, n in block.spans:
        if folds.groups is not None:
            parts.append(folds.groups[first : first + n])
        elif folds.seed is None:
            parts.append(np.zeros(n, np.int64))
        else:
            rng = np.random.default_rng((folds.seed, partition + 1, first))
            codes = np.zeros(n, np.int64) if block.labels is None else block.y[at : at + n]
            parts.append(_deal(codes, len(folds.roles), rng))
        at += n
    return np.concatenate(parts)


def trained_on(block: Block, folds: Folds, fold: int) -> np.ndarray:
    """One for each row that a fold trains on, else zero."""
    roles = np.array([roles[fold] for roles in folds.roles])
    return (roles[groups(block, folds)] == 0).astype(np.float64)


def _deal(codes: np.ndarray, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """Deal the rows of each class to groups in random order, as evenly as can be, beginning anywhere."""
    dealt = np.empty(len(codes), np.int64)
    for code in range(codes.max(initial=-1) + 1):
        rows = rng.permutation(np.flatnonzero(codes == code))
        dealt[rows] = (np.arange(len(rows)) + rng.integers(n_groups)) % n_groups
    return dealt
