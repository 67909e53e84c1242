"""Sums that covariances of coefficients are made of, over the rows of a worker.

Rows are taken in runs that stay in the second-level cache, so bread, meat and sums by cluster come
from one read of X. Grams are summed in float64, whatever the dtype of the rows. Only rows in host
memory are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.inference_requests import (
    ClusterSums,
    InferenceSums,
    LeverageMeat,
    together,
)
from daskglm.core.requests import Totals
from daskglm.data.blocks import Block
from daskglm.data.clusters import Clusters
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side
from daskglm.kernels.records import NOTHING
from daskglm.kernels.storages import rows_between
from daskglm.losses.base import Law
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.joint_inference import joint_sums
from daskglm.worker.leverage import beside, leverage_meat
from daskglm.worker.pieces import Piece

# Bytes of the features of a run of rows in float64. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Bytes of a stored value of sparse rows, with its index.
SPARSE_BYTES = 12


class _Laws(NamedTuple):
    """The loss with each kind of curvature that is needed: in the bread, expected, in the meat."""

    bread: Law
    expected: Law
    meat: Law


class _Groups(NamedTuple):
    """Labels of all clusters of a worker, those of the blocks, and where each of these is."""

    labels: np.ndarray
    of_blocks: list[Clusters]
    places: list[np.ndarray]

    def codes(self, block: int, run: slice) -> np.ndarray:
        """Return which clusters some rows of a block are of."""
        codes: np.ndarray = self.places[block][self.of_blocks[block].codes[run]]
        return codes


class _Out(NamedTuple):
    """What one thread adds to.

    `scalars` are the value, Pearson's sum, the weight, rows used, and weights that are fractions.
    """

    sums: np.ndarray
    bread: np.ndarray
    meat: np.ndarray
    scalars: np.ndarray
    clusters: np.ndarray
    seen: np.ndarray


def inference_sums(asked: Asked[InferenceSums]) -> Totals:
    """Answer a request for the covariance of coefficients."""
    _need_host_memory(asked)
    if asked.problem.classes:
        return _of_classes(asked)
    problem, request, blocks, caches = asked.problem, asked.request, asked.blocks, asked.caches
    d = asked.n_features
    laws = _Laws(
        law_of(problem.loss, curvature=request.curvature),
        law_of(problem.loss, curvature="fisher"),
        law_of(
            problem.loss,
            curvature="squared_slope_of_each" if request.frequency else "squared_slope",
        ),
    )
    groups = _groups(blocks) if request.clusters else _Groups(NOTHING, [], [])

    def work(pieces: list[Piece]) -> Totals:
        out = _zeros(d, request, len(groups.labels))
        for i, lo, hi in pieces:
            step = _rows_of_run(blocks[i], d)
            for first in range(lo, hi, step):
                run = slice(first, min(first + step, hi))
                slopes = _add_run(laws, request, caches[i], run, out)
                if request.clusters:
                    codes = groups.codes(i, run)
                    _add_clusters(caches[i], run, slopes, codes, out)
        return out._asdict()

    side = gram_side(d)
    nbytes = 8 * (side * side * (1 + request.meat) + len(groups.labels) * (d + 2))
    totals = asked.add_up(work, nbytes)
    return _reply(request, groups.labels, totals, d) | {"rows": asked.facts.n_rows}


def _of_classes(asked: Asked[InferenceSums]) -> Totals:
    """Answer a request for the covariance of the coefficients of all classes."""
    blocks, classes = asked.blocks, asked.problem.classes
    groups = _groups(blocks) if asked.request.clusters else _Groups(NOTHING, [], [])
    return joint_sums(asked, [_class_codes(block, classes) for block in blocks], groups)


def meat_by_leverage(asked: Asked[LeverageMeat]) -> Totals:
    """Answer a request for scores that are weighted by the leverages of their rows."""
    _need_host_memory(asked)
    return leverage_meat(asked, [_rows_of_run(block, asked.n_features) for block in asked.blocks])


def _need_host_memory(asked: Asked[Any]) -> None:
    if not asked.in_host_memory:
        raise ValueError("inference wants X in host memory, and these rows are on a GPU")


def _zeros(d: int, request: InferenceSums, clusters: int) -> _Out:
    side = gram_side(d)
    of_meat = side if request.meat else 0
    return _Out(
        np.zeros(d + 2),
        np.zeros((side, side)),
        np.zeros((of_meat, of_meat)),
        np.zeros(5),
        np.zeros((clusters, d + 1)),
        np.zeros(clusters, bool),
    )


def _reply(request: InferenceSums, labels: np.ndarray, totals: Totals, d: int) -> Totals:
    """Return sums over no more than the coefficients that there are."""
    size = len(request.w)
    value, pearson, weight, used, fractions = totals["scalars"]
    reply: Totals = {
        "value": value,
        "gradient": totals["sums"][:size],
        "bread": totals["bread"][:size, :size].copy(),
        "pearson": pearson,
        "weight": weight,
        "used": used,
        "fractions": fractions,
    }
    if request.meat:
        reply["meat"] = totals["meat"][:size, :size].copy()
    if request.clusters:
        seen = totals["seen"]
        reply["clusters"] = ClusterSums(labels[seen], totals["clusters"][seen, :size])
    return reply


# ---- one run of rows
def _rows_of_run(block: Block, d: int) -> int:
    mean = SPARSE_BYTES * block.facts.per_row if block.facts.sparse else 8.0 * d
    return max(int(RUN_BYTES // max(mean, 1.0)), 64)


def _add_run(laws: _Laws, request: InferenceSums, cache: Any, run: slice, out: _Out) -> np.ndarray:
    """Add everything but sums by cluster; return the weighted slopes of the rows."""
    d, n = len(out.sums) - 2, run.stop - run.start
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

    bent = expected > 0.0
    weight = others[1]
    out.scalars[:] += (
        out.sums[d + 1] - before,
        (slopes[bent] ** 2 / expected[bent]).sum(),
        weight.sum() if len(weight) else n,
        np.count_nonzero(weight) if len(weight) else n,
        np.count_nonzero(weight % 1.0),
    )
    return slopes


def _add_clusters(cache: Any, run: slice, slopes: np.ndarray, codes: np.ndarray, out: _Out) -> None:
    """Add the scores of a run to the sums of its clusters."""
    rows = rows_between(cache.rows, run.start, run.stop)
    cache.kernels.add_by_code(rows, slopes, codes, 0, len(slopes), out.clusters)
    weight = beside(cache, run)[1]
    out.seen[codes[weight > 0.0] if len(weight) else codes] = True


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


def _class_codes(block: Block, classes: tuple[Any, ...]) -> np.ndarray:
    """Return the place of the class of each row; 0 for labels that are not among the classes."""
    assert block.labels is not None
    places = {label: k for k, label in enumerate(classes)}
    table = np.array([places.get(label, 0) for label in block.labels], np.intp)
    codes: np.ndarray = table[block.y]
    return codes
