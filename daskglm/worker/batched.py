"""Evaluate many problems at once beside the rows, by `kernels.sweep_many`.

A block caches the order of its rows for that, tile by tile and by group of folds within each tile;
it is rebuilt from the request. Only rows in host memory are served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.batch_requests import EvaluateMany, WeighGroups
from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Folds, Problem, Totals, roles_of
from daskglm.data.blocks import Block
from daskglm.kernels import sweep_many as many
from daskglm.kernels.column_tiles import RUN
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.fold_assignment import groups
from daskglm.worker.output_layouts import (
    SPARSE_ROWS,
    InColumns,
    number_dtype,
    of_host,
    rows_within,
)
from daskglm.worker.pieces import Piece
from daskglm.worker.targets import signs_of


@dataclass
class BatchRows:
    """The rows of a block in the order of their groups within tiles of so many `rows`.

    `labels` are indices of classes.
    """

    folds: Folds | None
    order: np.ndarray
    bounds: np.ndarray
    labels: np.ndarray
    rows: int

    @property
    def tiling(self) -> tuple[np.ndarray, np.ndarray, int]:
        """What kernels take."""
        return self.order, self.bounds, self.rows


def _batch_rows(cache: Any, block: Block, problem: Problem, rows: int, run: int) -> BatchRows:
    """Return the cache of a block, made anew if it is for other folds."""
    known: BatchRows | None = cache.batch
    if known is None or known.folds != problem.folds:
        n = len(block.y)
        count = 1 if problem.folds is None else len(problem.folds.roles)
        group = np.zeros(n, np.int64) if problem.folds is None else groups(block, problem.folds)
        order, bounds = _by_group(group, count, rows, run)
        if block.labels is None:
            labels = np.empty(0, np.int32)
        else:
            labels = block.y.astype(np.int32)
        known = cache.batch = BatchRows(problem.folds, order, bounds, labels, rows)
    return known


def _by_group(group: np.ndarray, count: int, rows: int, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Order rows by group within tiles; return the order and the bounds of groups in each tile.

    See `many.order_by_group`.
    """
    n = len(group)
    tiles = -(-n // rows)
    order = np.empty((tiles, many.slots(rows, count, run)), number_dtype(n))
    bounds = np.empty((tiles, count, 2), np.int64)
    many.order_by_group(group, rows, run, order, bounds)
    return order, bounds


def _signs(block: Block, classes: tuple[Any, ...]) -> np.ndarray:
    if block.labels is None:
        return np.empty((0, 0))
    return np.array([signs_of(block.labels, positive) for positive in classes], np.float64)


def weigh_groups(asked: Asked[WeighGroups]) -> Totals:
    """Add up the weights of each class in each group of rows. 0 passes."""
    problem, request = asked.problem, asked.request
    total = np.zeros(
        (1 if problem.folds is None else len(problem.folds.roles), max(len(request.classes), 1))
    )
    for block, cache in zip(asked.blocks, asked.caches, strict=True):
        if problem.folds is None:
            group = np.zeros(len(block.y), int)
        else:
            group = groups(block, problem.folds)
        weight = np.ones(len(block.y)) if len(cache.weight) == 0 else to_host(cache.weight)
        names = block.labels or (None,)
        codes = block.y if block.labels is not None else np.zeros(len(block.y), int)
        found = np.bincount(group * len(names) + codes, weight, total.shape[0] * len(names))
        for k, label in enumerate(names):
            at = request.classes.index(label) if request.classes else 0
            total[:, at] += found.reshape(-1, len(names))[:, k]
    return {"weights": total, "rows": 0}


# ---- one sweep
def evaluate_many(asked: Asked[EvaluateMany]) -> Totals:
    """Evaluate many problems with sums over the rows of all blocks."""
    if not asked.in_host_memory:
        raise NotImplementedError("many problems at once want rows in host memory")
    problem, request = asked.problem, asked.request
    blocks, caches = asked.blocks, asked.caches
    sweep = _Sweep(request, asked.facts, problem)
    rows, run = sweep.rows, sweep.run
    known = [
        _batch_rows(cache, block, problem, rows, run)
        for cache, block in zip(caches, blocks, strict=True)
    ]
    every, first = request.part

    def work(pieces: list[Piece]) -> Totals:
        totals, read = sweep.zeros(), 0
        for i, lo, hi in pieces:
            block = blocks[i]
            hi = hi if hi == len(block.y) else hi - hi % rows
            tiles = np.arange(lo // rows, -(-hi // rows))
            tiles = tiles[(tiles + i) % every == first]
            read += int(np.minimum(tiles * rows + rows, hi).sum() - tiles.sum() * rows)
            sweep.add(caches[i], known[i], block, tiles, totals)
        return {**totals, "rows": read}

    return sweep.reply(asked.each(work))


class _Sweep:
    """One sweep for many problems: how their coefficients are laid out, and sums of them."""

    def __init__(self, request: EvaluateMany, facts: DataSummary, problem: Problem) -> None:
        (P, self.size), anchors = request.W.shape, request.anchors
        W = request.W if anchors is None else np.concatenate([request.W, anchors])
        self.request, self.law = request, law_of(problem.loss)
        self.layout = of_host(facts, len(W))
        self.in_columns = isinstance(self.layout, InColumns)
        if request.gram and not self.in_columns:
            raise NotImplementedError("wide sparse rows give no Hessians of many problems")
        self.W = self.layout.laid_out(W)
        self.anchor = np.full(P, -1)
        if request.anchor is not None:
            self.anchor = np.where(request.anchor < 0, -1, P + request.anchor)
        self.roles = np.ascontiguousarray(roles_of(problem.folds)[:, request.fold].T)
        self.of_gram = np.array(request.gram, np.int64)

    @property
    def rows(self) -> int:
        """Rows of a tile, which do not depend on the number of problems: their order is kept."""
        return rows_within(self.layout.width) if self.in_columns else SPARSE_ROWS

    @property
    def run(self) -> int:
        """Places that a run of rows of one group fills whole."""
        return RUN if self.in_columns else 1

    def zeros(self) -> Totals:
        """Return the sums of no rows."""
        P, groups = self.roles.shape
        by = groups if self.request.by_group else 1
        side = self.layout.width if len(self.of_gram) else 0
        return {
            "gradients": np.zeros((by, *self.W.shape)),
            "values": np.zeros((groups, P)),
            "counts": np.zeros((P, 4)),
            "moments": np.zeros(P),
            "grams": np.zeros((by, len(self.of_gram), side, side)),
        }

    def add(
        self, cache: Any, batch: BatchRows, block: Block, tiles: np.ndarray, to: Totals
    ) -> None:
        """Add the sums over some tiles of a block."""
        data = _data(cache, batch, block, self.request, self.layout.d)
        work = self.layout.work(batch.order.shape[1])
        if self.request.score and self.in_columns:
            held = self.W, self.request.of, self.roles, work
            out = to["values"], to["counts"]
            many.score(self.law, data, batch.tiling, held, tiles, *out)
            return
        like = np.empty(0) if self.request.exact else np.empty(0, block.X.dtype)
        grams = self.request.by_group, self.of_gram, like
        sums = to["gradients"], to["values"], to["counts"], to["moments"], to["grams"]
        problems = self.W, self.request.of, self.roles, self.anchor, work
        many.evaluate(self.law, data, batch.tiling, problems, grams, tiles, sums)

    def reply(self, totals: Totals) -> Totals:
        """Return the sums of all rows with their own sizes, and whole Grams."""
        gradients = self.layout.result(totals["gradients"], self.size)
        upper = np.triu(totals["grams"])[:, :, : self.size, : self.size]
        grams = upper + np.triu(upper, 1).transpose(0, 1, 3, 2)
        return {**totals, "gradients": gradients[:, : len(self.request.W)], "grams": grams}


def _data(
    cache: Any, batch: BatchRows, block: Block, request: EvaluateMany, d: int
) -> tuple[Any, ...]:
    """Return a block as the kernels take it.

    These are rows, features, labels, y, weights in training and held out, signs, and offsets.
    """
    # of a loss that depends on differences from the target alone, targets take the offsets in
    y = read_only(cache.targets) if block.labels is None else NO_NUMBERS
    raw = NO_NUMBERS if block.weight is None else read_only(block.weight)
    signs = _signs(block, request.classes)
    return cache.rows, d, batch.labels, y, cache.weight, raw, signs, cache.offset
