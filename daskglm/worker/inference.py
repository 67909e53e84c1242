"""Sums that covariances of coefficients are made of, over the rows of a worker.

Rows are taken in runs that stay in the second-level cache, so bread, meat and sums by cluster come
from one read of X. Grams are summed in float64, whatever the dtype of the rows. Only rows in host
memory are served.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.inference_requests import (
    ClusterSums,
    InferenceSums,
    LeverageMeat,
    ScoresAlong,
    together,
)
from daskglm.core.requests import Totals
from daskglm.data.blocks import Block
from daskglm.data.clusters import Clusters
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side
from daskglm.kernels.dense import add_by_code
from daskglm.kernels.records import NOTHING
from daskglm.kernels.storages import product_with, rows_between
from daskglm.losses.base import Law
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.joint_inference import OfClasses
from daskglm.worker.leverage import beside, leverage_meat
from daskglm.worker.pieces import Piece
from daskglm.worker.score_sums import Out, Scores

# Bytes of the features of a run of rows in float64. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Bytes of a stored value of sparse rows, with its index.
SPARSE_BYTES = 12
# Rows of a run, at least.
FEWEST = 64


def inference_sums(asked: Asked[InferenceSums]) -> Totals:
    """Answer a request for the covariance of coefficients."""
    _need_host_memory(asked)
    request, blocks = asked.request, asked.blocks
    scores: Scores = OfClasses(asked) if asked.problem.classes else _OfOneMargin(asked)
    groups = _groups(blocks) if request.clusters else _Groups(NOTHING, [], [])
    many = len(groups.labels)

    def work(pieces: list[Piece]) -> Totals:
        out = Out.zeros(scores, many, meat=request.meat)
        for i, lo, hi in pieces:
            step = scores.rows_of_run(blocks[i])
            for first in range(lo, hi, step):
                run = slice(first, min(first + step, hi))
                scores.add(i, run, out, groups.codes(i, run) if request.clusters else None)
        return out._asdict()

    nbytes = 8 * (scores.side**2 * (1 + request.meat) + many * (scores.width + 1))
    totals, size = asked.add_up(work, nbytes), scores.size
    names = "value", "pearson", "weight", "used", "fractions"
    reply: Totals = dict(zip(names, totals["scalars"], strict=True))
    reply["gradient"] = totals["sums"][:size]
    reply["bread"] = totals["bread"][:size, :size].copy()
    if request.meat:
        reply["meat"] = totals["meat"][:size, :size].copy()
    if request.clusters:
        seen = totals["seen"]
        reply["clusters"] = ClusterSums(groups.labels[seen], totals["clusters"][seen, :size])
    return reply | {"rows": asked.facts.n_rows}


def scores_along(asked: Asked[ScoresAlong]) -> Totals:
    """Answer a request for scores along directions."""
    _need_host_memory(asked)
    request, blocks, d = asked.request, asked.blocks, asked.n_features
    law = law_of(asked.problem.loss, curvature="fisher")
    w, b = host.coefficients(request.w, d)
    features, constant = request.directions[:d], request.directions[d:].sum(axis=0)
    groups = _groups(blocks) if request.clusters else _Groups(NOTHING, [], [])
    many, r = len(groups.labels), request.directions.shape[1]
    shape = (many, r + 1) if request.clusters else (r, r)
    rows_of_run = max(int(RUN_BYTES // (8 * max(r, 1))), FEWEST)

    def work(pieces: list[Piece]) -> Totals:
        sums, seen = np.zeros(shape), np.zeros(many, bool)
        for i, lo, hi in pieces:
            cache = asked.caches[i]
            others, products = beside(cache, slice(lo, hi)), product_with(cache.rows, d, features)
            z, slopes = np.empty((2, hi - lo))
            cache.kernels.margins(rows_between(cache.rows, lo, hi), w, b, 0, hi - lo, z)
            host.margins.slopes(law, *others, z, 0, hi - lo, slopes)
            weight = others[1]
            for first in range(lo, hi, rows_of_run):
                run = slice(first, min(first + rows_of_run, hi))
                own = slice(run.start - lo, run.stop - lo)
                along, slope = products(run.start, run.stop) + constant, slopes[own]
                if request.clusters:
                    codes = groups.codes(i, run)
                    add_by_code(along, slope, codes, 0, len(along), sums)
                    seen[codes[weight[own] > 0.0] if len(weight) else codes] = True
                    continue
                if request.frequency and len(weight):
                    some = weight[own]
                    each = np.divide(slope, some, out=np.zeros(len(some)), where=some > 0.0)
                else:
                    each = slope
                sums += (slope[:, None] * along).T @ (each[:, None] * along)
        return {"sums": sums, "seen": seen}

    totals = asked.add_up(work, 8 * math.prod(shape))
    sums, reply = totals["sums"], {"rows": asked.facts.n_rows}
    if not request.clusters:
        return {"meat": sums, **reply}
    seen = totals["seen"]
    return {"clusters": ClusterSums(groups.labels[seen], sums[seen, :r]), **reply}


def meat_by_leverage(asked: Asked[LeverageMeat]) -> Totals:
    """Answer a request for scores that are weighted by the leverages of their rows."""
    _need_host_memory(asked)
    return leverage_meat(asked, [_rows_of_run(block, asked.n_features) for block in asked.blocks])


def _need_host_memory(asked: Asked[Any]) -> None:
    if not asked.in_host_memory:
        raise ValueError("inference wants X in host memory, and these rows are on a GPU")


def _rows_of_run(block: Block, d: int) -> int:
    mean = SPARSE_BYTES * block.facts.per_row if block.facts.sparse else 8.0 * d
    return max(int(RUN_BYTES // max(mean, 1.0)), FEWEST)


# ---- one margin
class _Laws(NamedTuple):
    """The loss with each kind of curvature that is needed: in the bread, expected, in the meat."""

    bread: Law
    expected: Law
    meat: Law


class _OfOneMargin:
    """Scores of losses of one margin, by the kernels of the rows' storage."""

    def __init__(self, asked: Asked[InferenceSums]) -> None:
        self.request, self.caches = asked.request, asked.caches
        self.d, self.size = asked.n_features, len(asked.request.w)
        self.side = gram_side(self.d) if self.request.bread or self.request.meat else 0
        self.width = self.d + 1
        ref = asked.problem.loss
        kind = "squared_slope_of_each" if asked.request.frequency else "squared_slope"
        self.laws = _Laws(
            law_of(ref, curvature=asked.request.curvature),
            law_of(ref, curvature="fisher"),
            law_of(ref, curvature=kind),
        )

    def rows_of_run(self, block: Block) -> int:
        """Return the rows of a block that are taken at a time.

        Without a bread they are as many as features, with which the work on tables goes.
        """
        return max(_rows_of_run(block, self.d), 0 if self.side else self.d)

    def add(self, i: int, run: slice, out: Out, codes: np.ndarray | None) -> None:
        """Add the sums over some rows of block i, which are of these clusters."""
        request, laws, cache = self.request, self.laws, self.caches[i]
        d, n = self.d, run.stop - run.start
        rows, others = rows_between(cache.rows, run.start, run.stop), beside(cache, run)
        w, b = host.coefficients(request.w, d)
        z, slopes, expected, squares = np.empty((4, n))

        before = out.sums[d + 1]
        data = (rows, *others)
        cache.kernels.evaluate_exactly(
            laws.bread, data, w, b, 0, n, (z, expected, out.sums, NOTHING, out.bread)
        )
        if request.meat:
            again = np.zeros(d + 2)
            cache.kernels.evaluate_exactly(
                laws.meat, data, w, b, 0, n, (z, squares, again, NOTHING, out.meat)
            )
        if request.curvature != "fisher":
            host.margins.curvatures(laws.expected, *others, z, 0, n, expected)
        host.margins.slopes(laws.expected, *others, z, 0, n, slopes)

        bent, weight = expected > 0.0, others[1]
        pearson = (slopes[bent] ** 2 / expected[bent]).sum()
        out.add_scalars(out.sums[d + 1] - before, pearson, weight if len(weight) else np.ones(n))
        if codes is not None:
            cache.kernels.add_by_code(rows, slopes, codes, 0, n, out.clusters)
            out.seen[codes[weight > 0.0] if len(weight) else codes] = True


# ---- clusters
class _Groups(NamedTuple):
    """Labels of all clusters of a worker, those of the blocks, and where each of these is."""

    labels: np.ndarray
    of_blocks: list[Clusters]
    places: list[np.ndarray]

    def codes(self, block: int, run: slice) -> np.ndarray:
        """Return which clusters some rows of a block are of."""
        codes: np.ndarray = self.places[block][self.of_blocks[block].codes[run]]
        return codes


def _groups(blocks: Sequence[Block]) -> _Groups:
    """Number the clusters of all blocks; equal labels are one cluster."""
    parts = []
    for block in blocks:
        if block.clusters is None:
            raise ValueError("clusters=None: covariance='cluster' wants the cluster of each row")
        parts.append(block.clusters)
    if not parts:
        return _Groups(NOTHING, [], [])
    import pandas as pd

    codes, labels = pd.factorize(together([part.labels for part in parts]))
    cuts = np.cumsum([len(part.labels) for part in parts])[:-1]
    return _Groups(np.asarray(labels), parts, np.split(codes.astype(np.int64), cuts))
