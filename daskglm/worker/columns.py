"""Rows with some of their columns, which a worker copies once and keeps; sums of single columns.

A set of columns is a shard of its own: its blocks share all that is beside the rows with those of
all columns, and its caches are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.column_requests import ColumnMoments, ColumnSigns, ColumnTargets
from daskglm.core.device import gpu, on_device
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem, Request, Spread, Totals
from daskglm.core.view import Columns, View
from daskglm.data.blocks import Block
from daskglm.kernels import Pattern, for_rows
from daskglm.kernels import cpu as host
from daskglm.kernels.records import read_only
from daskglm.kernels.storages import columns_copy, size_of
from daskglm.losses.links import LOGIT
from daskglm.losses.table import loss_of
from daskglm.worker.asked import Asked, Each
from daskglm.worker.block_cache import BlockCache
from daskglm.worker.class_rows import codes_among
from daskglm.worker.pieces import Piece


class RestrictedRows:
    """Answers for some columns of one shard, and keeps the rows with the last set of them."""

    def __init__(self) -> None:
        self.key: tuple[int, int] | None = None
        self.shard: Any = None
        self.centre: Any = None

    def holds(self, columns: Columns) -> bool:
        """Return whether the rows with these columns are here."""
        return self.key == (columns.key, len(columns.places))

    def answer(
        self,
        problem: Problem,
        request: Request,
        view: View,
        blocks: Sequence[Block],
        facts: DataSummary,
        each: Each,
        make: Callable[[list[Block]], Any],
        duals: Sequence[Any],
    ) -> Totals:
        """Answer a request about some of the columns; copy them first if they are not here.

        Parameters
        ----------
        blocks : sequence of Block
            With all columns; they are read only for a copy.
        facts : DataSummary
            Of all blocks.
        each : callable
            Shares pieces of rows out among threads.
        make : callable
            Makes a shard of blocks. It is not kept: it may belong to the shard that keeps this.
        duals : sequence
            Dual variables of each block, for a proximal problem.

        Returns
        -------
        dict
            `rows` counts n for a copy, and for each read of it the columns' share of n; `stored`
            are the values of the copy.

        Raises
        ------
        ValueError
            If there are no such columns.
        """
        assert view.columns is not None
        copied, columns = 0, view.columns.places
        if not self.holds(view.columns):
            self.close()
            taken = take_columns(blocks, columns, facts.n_features or 0, each)
            self.shard = make(taken)
            # those of a worker without rows, too, have a number of columns
            self.shard.facts = replace(self.shard.facts, n_features=len(columns))
            self.key = view.columns.key, len(columns)
            copied = facts.n_rows
        if problem.centre is not None and self.centre != problem.centre:
            _share_duals(self.shard, problem, duals)
        self.centre = problem.centre
        inner = replace(view, columns=None)
        totals: Totals = self.shard.answer(problem, request, inner)
        stored = self.shard.facts.nonzeros
        share = stored / max(facts.nonzeros, 1)
        return {**totals, "rows": copied + round(share * totals["rows"]), "stored": stored}

    def close(self) -> None:
        """Release the rows that are kept."""
        if self.shard is not None:
            self.shard.close()
        self.shard = self.key = self.centre = None


def _share_duals(shard: Any, problem: Problem, duals: Sequence[Any]) -> None:
    """Give the caches of a shard the dual variables of its rows: targets move to a new centre."""
    for name, block, dual in zip(shard.names, shard.blocks, duals, strict=True):
        if name not in shard.caches:
            shard.caches[name] = BlockCache(block, replace(problem, centre=None))
        shard.caches[name].dual = dual


def take_columns(
    blocks: Sequence[Block], columns: np.ndarray, n_features: int, each: Each
) -> list[Block]:
    """Copy some columns of X of all blocks; what is beside X is shared.

    Parameters
    ----------
    blocks : sequence of Block
    columns : (k,) int64 array
        Ascending numbers of columns.
    n_features : int
        Number of all columns.
    each : callable
        Shares pieces of rows out among threads.

    Returns
    -------
    list of Block
        Of the same kind and dtype. In their facts numbers of values and bytes are those of the
        columns; norms are upper bounds.

    Raises
    ------
    ValueError
        If there are no such columns.
    """
    if len(columns) and columns[-1] >= n_features and blocks:
        raise ValueError(
            f"columns[{len(columns) - 1}] is {columns[-1]}, but X has {n_features} columns: give "
            f"numbers from 0 to {n_features - 1}"
        )
    if any(on_device(block.X) for block in blocks):
        return [_with_rows(block, gpu().take_columns(block.X, columns)) for block in blocks]
    copies = [
        columns_copy(for_rows(X)[1], n_features, columns, pattern=isinstance(X, Pattern))
        for X in (block.X for block in blocks)
    ]

    def count(pieces: list[Piece]) -> Totals:
        for i, lo, hi in pieces:
            copies[i].count(lo, hi)
        return {}

    def fill(pieces: list[Piece]) -> Totals:
        for i, lo, hi in pieces:
            copies[i].fill(lo, hi)
        return {}

    each(count)
    for copy in copies:
        copy.allocate()
    each(fill)
    return [_with_rows(block, copy.X) for block, copy in zip(blocks, copies, strict=True)]


def _with_rows(block: Block, X: Any) -> Block:
    """Return a block with X of some of its columns, and facts that count these."""
    arrays = for_rows(X)[1]
    factors: tuple[tuple[int, int], ...] = ()
    if on_device(X):
        k, nonzeros, nbytes = X.d, arrays.stored, arrays.nbytes
    else:
        size = size_of(arrays)
        k, nonzeros, nbytes, factors = X.shape[1], size.nonzeros, size.nbytes, size.factors
    longest = min(block.facts.longest_row, k)
    facts = replace(
        block.facts,
        n_features=k,
        nonzeros=nonzeros,
        nbytes=nbytes,
        longest_row=longest,
        factors=factors,
    )
    return block._replace(X=X, facts=facts)


def column_moments(asked: Asked[ColumnMoments]) -> Totals:
    """Answer `ColumnMoments` with the sums over all blocks, with the weights of the problem."""
    d, caches, backend = asked.n_features, asked.caches, asked.backend

    def work(pieces: list[Piece]) -> Totals:
        sums, squares = backend.zeros(d + 1), backend.zeros(d + 1)
        for i, lo, hi in pieces:
            rows, weight = caches[i].rows, caches[i].weight
            if backend is not host:
                n = len(caches[i].y)
                # the kernels of a device take float64 of every row
                s = backend.vector(weight if len(weight) else np.ones(n), rows)
                caches[i].kernels.add_moments(rows, s, lo, hi, sums, squares)
            else:
                caches[i].kernels.add_moments(rows, read_only(weight), lo, hi, sums, squares)
        return {"sums": sums, "squares": squares}

    totals = asked.each(work)
    sums, squares = totals["sums"], totals["squares"]
    return {
        "sums": sums[:d],
        "squares": squares[:d],
        "weight": sums[d],
        "rows": asked.facts.n_rows,
    }


def column_targets(asked: Asked[ColumnTargets]) -> Totals:
    """Answer `ColumnTargets` with the sums over all blocks, which are in host memory."""
    caches, d, constant = asked.caches, asked.n_features, asked.request.constant
    loss, squares = loss_of(asked.problem.loss), np.zeros(d + 1)
    link = loss.link or LOGIT

    def work(pieces: list[Piece]) -> Totals:
        sums = np.zeros((3, d + 1))
        for i, lo, hi in pieces:
            cache = caches[i]
            y, offset, weight = cache.targets[lo:hi], cache.offset, cache.weight
            if loss.classifies:
                y = 0.5 * (1.0 + y)
            means = link.mean(constant + offset[lo:hi] if len(offset) else constant)
            for of, values in zip(sums, (1.0, y, means), strict=True):
                s = np.zeros(len(cache.targets))
                s[lo:hi] = values * weight[lo:hi] if len(weight) else values
                cache.kernels.add_moments(cache.rows, read_only(s), lo, hi, of, squares)
        return {"weights": sums[0], "targets": sums[1], "means": sums[2]}

    return {**asked.each(work), "rows": asked.facts.n_rows}


def spread(asked: Asked[Spread]) -> Totals:
    """Answer `Spread` with the sums over all blocks, which are in host memory."""
    request, caches = asked.request, asked.caches
    d = len(request.centre)

    def work(pieces: list[Piece]) -> Totals:
        sums = np.zeros(2 * d + 1)
        for i, lo, hi in pieces:
            rows = caches[i].rows
            caches[i].kernels.spread(rows, request.centre, request.scale, lo, hi, sums)
        return {"sums": sums[:d], "columns": sums[d:-1], "moment": sums[-1]}

    return {**asked.each(work), "rows": asked.facts.n_rows}


def column_signs(asked: Asked[ColumnSigns]) -> Totals:
    """Answer `ColumnSigns` with the counts over all blocks, which are in host memory."""
    request, caches, d = asked.request, asked.caches, asked.n_features
    both = zip(asked.blocks, caches, strict=True)
    kinds = [_kinds_of(request, block, cache) for block, cache in both]

    def work(pieces: list[Piece]) -> Totals:
        above, below = np.zeros((2, request.kinds, d), np.int64)
        for i, lo, hi in pieces:
            rows = caches[i].rows
            caches[i].kernels.count_signs(rows, kinds[i], lo, hi, above, below)
        return {"above": above, "below": below}

    known = [np.bincount(kind[kind >= 0], minlength=request.kinds) for kind in kinds]
    counts = sum(known, np.zeros(request.kinds, np.int64))
    return {**asked.each(work), "counts": counts, "rows": asked.facts.n_rows}


def _kinds_of(request: ColumnSigns, block: Block, cache: Any) -> np.ndarray:
    """Return the kind (n,) of each row, int32; -1: it is not counted."""
    if request.classes:
        kinds = codes_among(block, request.classes, -1)
    else:
        y = cache.targets
        kinds = np.where(y <= request.low, 0, np.where(y >= request.high, 1, 2)).astype(np.int32)
    if len(cache.weight):
        kinds[np.asarray(cache.weight) == 0.0] = -1
    return kinds
