"""Assign the rows of a block to groups, and groups to the folds of cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.requests import Folds
from daskglm.core.warn import warn
from daskglm.data.blocks import Block


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
            parts.append(_assign(codes, len(folds.roles), rng))
        at += n
    return np.concatenate(parts)


def trained_on(block: Block, folds: Folds, fold: int) -> np.ndarray:
    """Return one for each row that a fold trains on, else zero."""
    roles = np.array([roles[fold] for roles in folds.roles])
    return (roles[groups(block, folds)] == 0).astype(np.float64)


def dtype_for(groups: int) -> type[np.signedinteger[Any]]:
    """Return the dtype that numbers so many groups; kernels are compiled for both."""
    return np.int16 if groups <= np.iinfo(np.int16).max else np.int64


def in_order(n: int, n_splits: int) -> np.ndarray:
    """Return the fold that holds out each of n rows, (n,), as KFold without shuffling.

    Raises
    ------
    ValueError
        If there are more folds than rows.
    """
    if n_splits > n:
        raise ValueError(f"cv={n_splits}: more folds than rows, n_samples={n}; give fewer folds")
    sizes = np.full(n_splits, n // n_splits)
    sizes[: n % n_splits] += 1
    return np.repeat(np.arange(n_splits, dtype=dtype_for(n_splits)), sizes)


def stratified(codes: np.ndarray, classes: int, n_splits: int) -> np.ndarray:
    """Return the fold that holds out each row, (n,), as StratifiedKFold without shuffling.

    scikit-learn's own splits, one after the other, took as long as a whole fit. `codes` number the
    classes.

    Raises
    ------
    ValueError
        If no class has a row for every fold; a UserWarning if some class has not.
    """
    counts = np.bincount(codes, minlength=classes)
    if (counts < n_splits).all():
        largest = counts.max(initial=0)
        raise ValueError(
            f"cv={n_splits}: no class has so many rows; the largest has {largest}, "
            f"n_samples={len(codes)}"
        )
    if (counts < n_splits).any():
        warn(f"The least populated class has {counts.min()} rows, fewer than cv={n_splits}")
    rows = [codes == code for code in range(classes)]
    folds = np.arange(n_splits)
    group = np.empty(len(codes), dtype_for(n_splits))
    first = 0
    # as if sorted by class, in the order they appear in
    for code in np.argsort([np.argmax(here) for here in rows]):
        last = first + counts[code]
        sizes = (last - folds - 1) // n_splits - (first - folds - 1) // n_splits
        group[rows[code]] = np.repeat(folds, sizes)
        first = last
    return group


def _assign(codes: np.ndarray, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """Assign the rows of each class to groups evenly, in random order, from a random group on."""
    group = np.empty(len(codes), np.int64)
    for code in range(codes.max(initial=-1) + 1):
        rows = rng.permutation(np.flatnonzero(codes == code))
        group[rows] = (np.arange(len(rows)) + rng.integers(n_groups)) % n_groups
    return group
