"""Dual coordinate ascent for many problems beside wide sparse rows: dual variables of all problems, row by row.

They are what a block remembers, named by solve and round, and may be forgotten: rows that are behind begin again at
zero, and the reply says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.blocks import Block
from daskglm.folds import groups
from daskglm.kernels import many_dual
from daskglm.messages import AscendMany, Problem, Totals

Piece = tuple[int, int, int]
Each = Callable[[Callable[[list[Piece]], Totals], int | None], Totals]


@dataclass
class JointAscent:
    """Dual variables times labels, (n, problems), after some rounds of a solve; labels and groups of the rows."""

    solve: int
    rounds: int
    alpha: np.ndarray
    labels: np.ndarray
    groups: np.ndarray


def signs(block: Block, classes: tuple[Any, ...]) -> np.ndarray:
    """Target of each label of a block for each class, (classes, labels); (0, 0) for a regression."""
    if block.labels is None:
        return np.empty((0, 0))
    return np.array([[1.0 if label == positive else -1.0 for label in block.labels] for positive in classes])


def ascend(
    problem: Problem, request: AscendMany, blocks: Sequence[Block], memos: Sequence[Any], each: Each, threads: int
) -> Totals:
    """Visit all rows once, each thread in an order of its own and with a replica of V; or add up what V should be."""
    lost = [_bring(memo, block, problem, request) for memo, block in zip(memos, blocks, strict=True)]
    folds, P = problem.folds, len(request.of)
    table = np.zeros((1, 1), np.int8) if folds is None else np.array(folds.roles, np.int8)
    roles = np.ascontiguousarray(np.concatenate([table, np.zeros((len(table), 1), np.int8)], axis=1)[:, request.fold].T)
    sigma = float(threads * request.shares)
    V = np.ascontiguousarray(request.V.T, dtype=np.float32)

    def work(pieces: list[Piece]) -> Totals:
        replica = np.zeros(V.shape) if request.totals else V.copy()
        squares = np.zeros(P)
        for i, lo, hi in pieces:
            memo, state, turned = memos[i], memos[i].joint_ascent, signs(blocks[i], request.classes)
            if request.totals:
                many_dual.totals(
                    memo.rows, state.labels, memo.weight, turned, lo, hi, request.C, request.bias, request.of,
                    request.ids, state.alpha, replica,
                )  # fmt: skip
            elif not lost[i]:
                order = lo + np.random.default_rng((request.seed, request.round, i, lo)).permutation(hi - lo)
                many_dual.epoch(
                    memo.rows, state.labels, state.groups, memo.weight, turned, order, request.C, request.base,
                    request.bias, request.of, roles, request.ids, sigma, replica, state.alpha, squares,
                )  # fmt: skip
        change = replica if request.totals else (replica - V).astype(np.float64) / sigma
        return {"change": change, "squares": squares, "rows": sum(hi - lo for _, lo, hi in pieces)}

    totals = each(work, None)
    if not request.totals:
        for memo in memos:
            memo.joint_ascent.rounds = request.round + 1
    return {**totals, "change": totals["change"].T, "lost": sum(lost)}


def _bring(memo: Any, block: Block, problem: Problem, request: AscendMany) -> int:
    """See to it that a block's dual variables are those a request means; return how many rows began again at zero."""
    state: JointAscent | None = memo.joint_ascent
    wanted = request.round + request.totals
    if state is not None and state.solve == request.solve and state.rounds == wanted:
        return 0
    n = len(block.y)
    group = np.zeros(n, np.int64) if problem.folds is None else groups(block, problem.folds)
    alpha = np.zeros((n, request.total), np.float32)
    memo.joint_ascent = JointAscent(request.solve, wanted, alpha, block.y.astype(np.int32, copy=False), group)
    return n if request.round else 0
