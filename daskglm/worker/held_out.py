"""Score rows that folds hold out: decision values of several models, counted or gathered."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.batch_requests import GatheredRows, HeldOutLosses, ScoreHeldOut
from daskglm.core.decisions import predicted, probabilities
from daskglm.core.requests import Totals, roles_of
from daskglm.data.blocks import Block
from daskglm.kernels import margins
from daskglm.kernels.records import NO_NUMBERS
from daskglm.kernels.storages import arrays_of, matrix_of
from daskglm.losses.base import Law
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.fold_assignment import groups
from daskglm.worker.pieces import Piece
from daskglm.worker.subsampling import take

# Decision values, and features of rows, that are multiplied together: 8 MiB each.
VALUES_AT_ONCE = 1 << 20


def score_held_out(asked: Asked[ScoreHeldOut]) -> Totals:
    """Answer a request to score the rows of all blocks that folds hold out."""
    request, blocks, d = asked.request, asked.blocks, asked.n_features
    folds = asked.problem.folds
    assert folds is not None
    held_out = roles_of(folds)[:, :-1] == 1
    known = [groups(block, folds) for block in blocks]

    def work(pieces: list[Piece]) -> Totals:
        totals, read = _zeros(request), 0
        for i, lo, hi in pieces:
            read += hi - lo
            for fold in range(held_out.shape[1]):
                rows = lo + np.flatnonzero(held_out[known[i][lo:hi], fold])
                for run in _runs(rows, request.W[fold], d):
                    _add(totals, request, blocks[i], fold, run, d)
        return {**totals, "rows": read}

    return asked.each(work)


def _zeros(request: ScoreHeldOut) -> Totals:
    """Return sums over no rows."""
    if request.gather:
        return {"values": GatheredRows({})}
    shape, n = request.W.shape[:2], len(request.classes)
    return {
        "counts": np.zeros((*shape, n, n)),
        "weights": np.zeros((*shape, n, n)),
        "losses": np.zeros(shape),
    }


def _runs(rows: np.ndarray, W: np.ndarray, d: int) -> list[np.ndarray]:
    """Cut rows so that neither their features nor their decision values are many."""
    step = max(VALUES_AT_ONCE // max(W[..., 0].size, d), 1)
    return [rows[lo : lo + step] for lo in range(0, len(rows), step)]


def _add(
    totals: Totals, request: ScoreHeldOut, block: Block, fold: int, rows: np.ndarray, d: int
) -> None:
    """Add some rows of a block to the sums."""
    W = request.W[fold]
    values = _decision_values(take(block.X, rows), W.reshape(-1, W.shape[-1]), d).reshape(
        len(rows), *W.shape[:2]
    )
    if block.offset is not None:
        added = block.offset[rows]
        values = values + (added[:, None] if added.ndim == 2 else added[:, None, None])
    assert block.labels is not None
    codes = np.array([request.classes.index(label) for label in block.labels])[block.y[rows]]
    weights = np.ones(len(rows)) if block.weight is None else block.weight[rows].astype(np.float64)
    if request.gather:
        partition, first, _ = block.spans[0]
        run = {(partition, first, int(rows[0]), fold): (codes, weights, values)}
        totals["values"] = totals["values"] + GatheredRows(run)
        return
    n, tiny = len(request.classes), np.finfo(np.float64).eps
    for model in range(len(W)):
        z = values[:, model, 0] if W.shape[1] == 1 else values[:, model]
        pairs = codes * n + predicted(z)
        totals["counts"][fold, model] += np.bincount(pairs, minlength=n * n).reshape(n, n)
        totals["weights"][fold, model] += np.bincount(pairs, weights, n * n).reshape(n, n)
        of_true = probabilities(z)[np.arange(len(rows)), codes]
        totals["losses"][fold, model] -= weights @ np.log(np.clip(of_true, tiny, 1.0 - tiny))


def held_out_losses(asked: Asked[HeldOutLosses]) -> Totals:
    """Answer a request for the losses of regressions on the rows that folds hold out."""
    request, blocks, d = asked.request, asked.blocks, asked.n_features
    folds, law = asked.problem.folds, law_of(asked.problem.loss)
    assert folds is not None
    held_out = roles_of(folds)[:, :-1] == 1
    known = [groups(block, folds) for block in blocks]

    def work(pieces: list[Piece]) -> Totals:
        n_folds, models = request.W.shape[:2]
        losses, beside, read = np.zeros((n_folds, models)), np.zeros((3, n_folds)), 0
        for i, lo, hi in pieces:
            read += hi - lo
            for fold in range(n_folds):
                rows = lo + np.flatnonzero(held_out[known[i][lo:hi], fold])
                for run in _runs(rows, request.W[fold][:, None], d):
                    of = losses[fold], beside[:, fold]
                    _add_losses(of, law, request, blocks[i], fold, run, d)
        constant, weight, targets = beside
        sums = {"losses": losses, "constant": constant, "weight": weight, "targets": targets}
        return {**sums, "rows": read}

    return asked.each(work)


def _add_losses(
    sums: tuple[np.ndarray, np.ndarray],
    law: Law,
    request: HeldOutLosses,
    block: Block,
    fold: int,
    rows: np.ndarray,
    d: int,
) -> None:
    """Add some rows of a block to losses (models,), and to those of the constant and the sums."""
    n, y = len(rows), block.y[rows]
    weight = NO_NUMBERS if block.weight is None else block.weight[rows]
    offset = NO_NUMBERS if block.offset is None else block.offset[rows]
    values = _decision_values(take(block.X, rows), request.W[fold], d)

    def loss_at(z: np.ndarray, added: np.ndarray) -> float:
        out = np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2))
        margins.along(law, y, weight, added, (z,), np.array([[1.0, 0.0]]), 0, n, out)
        return float(out[0][0])

    losses, beside = sums
    for model in range(len(losses)):
        losses[model] += loss_at(np.ascontiguousarray(values[:, model], np.float64), offset)
    beside[0] += loss_at(np.full(n, request.margin), NO_NUMBERS)
    beside[1] += weight.sum() if len(weight) else n
    beside[2] += weight @ y if len(weight) else y.sum()


def _decision_values(X: Any, W: np.ndarray, d: int) -> np.ndarray:
    values: np.ndarray = matrix_of(arrays_of(X), d) @ W[:, :d].T
    return values + W[:, d] if W.shape[1] > d else values
