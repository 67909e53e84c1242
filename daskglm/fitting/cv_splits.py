"""Folds of cross-validation from what users give as `cv`: checked here, before any work is
scheduled.
"""

from __future__ import annotations

import itertools
import numbers
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from daskglm.core.requests import Folds
from daskglm.core.warn import warn
from daskglm.data.blocks import labels_of
from daskglm.data.partitions import Partitions
from daskglm.data.values import Place
from daskglm.worker.fold_assignment import dtype_for, in_order, stratified

DEFAULT_FOLDS = 5
# Roles of rows: see `requests.Folds`.
TRAIN, TEST, NEITHER = 0, 1, 2


def check_splits(cv: Any) -> None:
    """Raise ValueError for a `cv` that is no number of folds, splitter or iterable."""
    if cv is None or (hasattr(cv, "split") and not isinstance(cv, str)):
        return
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv!r}: cross-validation needs at least 2 folds")
        return
    if isinstance(cv, (str, bytes, bool, Mapping)) or not isinstance(cv, Iterable):
        raise ValueError(
            f"cv={cv!r} must be a number of folds, a splitter with a method split, an iterable of "
            "(train, test) indices, or None (5 stratified folds)"
        )


def divide(data: Partitions, cv: Any, random_state: Any, split_params: Mapping[str, Any]) -> Folds:
    """Divide rows into folds.

    Data in memory are divided as scikit-learn does it; lazy rows at random, class by class within
    each partition.

    Parameters
    ----------
    data : Partitions
    cv : int, splitter, iterable of (train, test), or None
        Dask collections take a number or None only.
    random_state : int, RandomState or None
        Seed for dask collections.
    split_params : mapping
        Arguments of the splitter's `split`, such as groups.

    Raises
    ------
    ValueError
        For folds that cannot be used: names `cv` and the fold.
    """
    check_splits(cv)
    if data.arrays is None:
        return _drawn(cv, random_state, split_params)
    X, y = data.arrays[:2]
    groups = split_params.get("groups")
    if groups is not None and np.shape(groups)[:1] != (X.shape[0],):
        raise ValueError(f"groups has shape {np.shape(groups)}, but X has {X.shape[0]} rows")
    if groups is not None and not hasattr(cv, "split"):
        warn(f"groups is ignored by cv={cv!r}: give a splitter such as GroupKFold")
    if cv is None or isinstance(cv, numbers.Integral):
        n_splits = DEFAULT_FOLDS if cv is None else int(cv)
        if data.classify:
            labels, codes = labels_of(np.asarray(y), Place())
            group = stratified(codes, len(labels), n_splits)
        else:
            group = in_order(X.shape[0], n_splits)
        return Folds(uuid.uuid4().hex, _each_its_own(n_splits), None, group)
    return _by_roles(X.shape[0], _splits(cv, X, y, split_params))


def held_out(folds: Folds, fold: int) -> np.ndarray:
    """Return the rows of data in memory that a fold holds out, ascending."""
    assert folds.groups is not None
    roles = np.array([of_group[fold] for of_group in folds.roles])
    return np.flatnonzero(roles[folds.groups] == TEST)


def _drawn(cv: Any, random_state: Any, split_params: Mapping[str, Any]) -> Folds:
    if any(value is not None for value in split_params.values()):
        raise ValueError(
            f"{', '.join(split_params)}: rows of dask collections are assigned to folds at random "
            "and take no groups; bring the data into memory for a splitter by groups"
        )
    n = DEFAULT_FOLDS if cv is None else cv
    if not isinstance(n, numbers.Integral):
        raise ValueError(
            f"cv={cv!r}: dask collections take a number of folds of at least 2, which are then "
            "drawn"
        )
    seed = random_state if isinstance(random_state, (int, np.integer)) else None
    if seed is None:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    else:
        seed = abs(int(seed))
    return Folds(f"{n} drawn from {seed}", _each_its_own(int(n)), seed)


def _each_its_own(n: int) -> tuple[tuple[int, ...], ...]:
    """Roles of groups that are held out in one fold each."""
    return tuple(tuple(int(g == v) for v in range(n)) for g in range(n))


def _is_iterable(cv: Any) -> bool:
    """Return whether `cv` is an iterable of folds."""
    return isinstance(cv, Iterable) and not hasattr(cv, "split")


def _splits(cv: Any, X: Any, y: Any, split_params: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the pairs that `cv` gives, numbered; its errors are raised as errors that name it."""
    try:
        pairs = iter(cv if _is_iterable(cv) else check_cv(cv).split(X, y, **split_params))
        for fold in itertools.count():
            pair = next(pairs, None)
            if pair is None:
                return
            yield fold, pair
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"cv={cv!r:.200} cannot split the {X.shape[0]} rows: {error}") from error


def _by_roles(n: int, splits: Iterator[tuple[int, Any]]) -> Folds:
    """Folds from pairs of indices: rows with the same role in all folds form a group."""
    group = np.zeros(n, np.int64)
    table = np.empty((1, 0), np.int8)
    for fold, pair in splits:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"cv: fold {fold} is {pair!r:.80}, not a pair of train and test indices"
            )
        train, test = (
            _rows(part, fold, name, n) for part, name in zip(pair, ("train", "test"), strict=True)
        )
        role = np.full(n, NEITHER, np.int8)
        role[train] = TRAIN
        both = np.flatnonzero(role[test] == TRAIN)
        if len(both):
            raise ValueError(
                f"cv: fold {fold} has rows both to train on and to hold out: {len(both)} of them, "
                f"such as row {test[both[0]]}"
            )
        role[test] = TEST
        # hashing: np.unique of whole rows took seconds
        group, kinds = pd.factorize(3 * group + role)
        table = np.concatenate([table[kinds // 3], kinds[:, None] % 3], axis=1)
    if not table.shape[1]:
        raise ValueError(
            "cv gives no folds: an iterable that was used before is empty the second time; give a "
            "list"
        )
    roles = tuple(map(tuple, table.tolist()))
    return Folds(uuid.uuid4().hex, roles, None, group.astype(dtype_for(len(table))))


def _rows(given: Any, fold: int, name: str, n: int) -> np.ndarray:
    """Indices of rows, each once, from indices or a mask."""
    place = f"cv: the {name} indices of fold {fold}"
    try:
        rows = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{place} are not a sequence of integers: {error}") from error
    if rows.ndim != 1:
        raise ValueError(f"{place} have shape {rows.shape} instead of one dimension")
    if not len(rows):
        raise ValueError(f"{place} are empty")
    if rows.dtype.kind == "b":
        if len(rows) != n:
            raise ValueError(f"{place} are a mask of {len(rows)} values, but X has {n} rows")
        rows = np.flatnonzero(rows)
        if not len(rows):
            raise ValueError(f"{place} are a mask that selects no row")
    if rows.dtype.kind not in "iu":
        raise ValueError(f"{place} have dtype {rows.dtype}; indices must be integers")
    if rows[0] >= 0 and rows[-1] < n and (rows[1:] > rows[:-1]).all():
        return rows
    outside = rows[(rows >= n) | (rows < -n)]
    if len(outside):
        raise ValueError(f"{place} have {outside[0]}, which is out of range for the {n} rows of X")
    rows = np.where(rows < 0, rows + n, rows)
    repeated = np.flatnonzero(np.bincount(rows, minlength=n) > 1)
    if len(repeated):
        raise ValueError(
            f"{place} have row {repeated[0]} more than once; give repeated rows a sample_weight "
            "instead"
        )
    return rows
