"""Sums for inference of the losses of all classes together, the multinomial and the ordinal one.

Rows are taken in runs, dense and in float64, that stay in the second-level cache: scores of a run
are a matrix (rows, p), and Grams are products of matrices. Only rows in host memory are served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from daskglm.core.facts import DataSummary
from daskglm.core.inference_requests import ClusterSums, JointInferenceSums
from daskglm.core.requests import Totals
from daskglm.data.blocks import Block
from daskglm.losses.ordinal import barrier, barrier_curvature, barrier_slope

# Bytes of the scores of a run of rows. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Rows of a run, at least.
FEWEST = 64

Piece = tuple[int, int, int]
Each = Callable[[Callable[[list[Piece]], Totals], int | None], Totals]


class _Run(NamedTuple):
    """Rows of a run: dense (n, d), the place of each one's class, weights, and offsets or zero."""

    X: np.ndarray
    code: np.ndarray
    weight: np.ndarray
    offset: Any


class _Found(NamedTuple):
    """Of a run: sum of s loss, slopes of the rows (n, p), and the sum of s second derivatives."""

    value: float
    slopes: np.ndarray
    bread: np.ndarray


def answer_joint(
    request: JointInferenceSums,
    codes: Sequence[np.ndarray],
    groups: Any,
    blocks: Sequence[Block],
    caches: Sequence[Any],
    facts: DataSummary,
    each: Each,
) -> Totals:
    """Answer a request with sums over the rows of all blocks.

    Parameters
    ----------
    codes : sequence of (n,) arrays
        Place of the class of each row of a block.
    groups : _Groups of `inference`
        Clusters of the rows, where they are asked for.
    """
    p, d = len(request.params), facts.n_features or 0
    add = _ordinal if request.ordinal else _multinomial

    def work(pieces: list[Piece]) -> Totals:
        value, weight, used, fractions = 0.0, 0.0, 0, 0
        gradient, bread = np.zeros(p), np.zeros((p, p))
        meat = np.zeros((p, p) if request.meat else (0, 0))
        sums, seen = np.zeros((len(groups.labels), p)), np.zeros(len(groups.labels), bool)
        step = max(RUN_BYTES // (8 * (p + d + 1)), FEWEST)
        for i, lo, hi in pieces:
            for first in range(lo, hi, step):
                at = slice(first, min(first + step, hi))
                run = _run_of(caches[i], codes[i], at, d)
                found = add(request, run)
                scores = run.weight[:, None] * found.slopes
                value += found.value
                weight += float(run.weight.sum())
                used += int(np.count_nonzero(run.weight))
                fractions += int(np.count_nonzero(run.weight % 1.0))
                gradient += scores.sum(axis=0)
                bread += found.bread
                if request.meat:
                    meat += scores.T @ (found.slopes if request.frequency else scores)
                if request.clusters:
                    of = groups.codes(i, at)
                    _add_by_code(scores, of, sums)
                    seen[of[run.weight > 0.0]] = True
        counts = np.array([value, weight, used, fractions])
        reply: Totals = {"counts": counts, "gradient": gradient, "bread": bread, "meat": meat}
        return reply | ({"sums": sums, "seen": seen} if request.clusters else {})

    totals = each(work, None)
    names = ("value", "weight", "used", "fractions")
    counts = dict(zip(names, totals.pop("counts"), strict=True))
    reply: Totals = {**totals, **counts}
    if request.clusters:
        seen = reply.pop("seen")
        reply["clusters"] = ClusterSums(groups.labels[seen], reply.pop("sums")[seen])
    if not request.meat:
        del reply["meat"]
    return reply | {"rows": facts.n_rows}


def _add_by_code(scores: np.ndarray, codes: np.ndarray, sums: np.ndarray) -> None:
    """Add the rows of a matrix to the rows of `sums` that codes name."""
    n = len(codes)
    places, where = np.unique(codes, return_inverse=True)
    ones = sp.csr_array((np.ones(n), where, np.arange(n + 1)), shape=(n, len(places)))
    sums[places] += ones.T @ scores


def _run_of(cache: Any, codes: np.ndarray, at: slice, d: int) -> _Run:
    """Return the rows of a run, dense and in float64."""
    n = at.stop - at.start
    if isinstance(cache.rows, np.ndarray):
        X = np.asarray(cache.rows[at], np.float64)
    else:
        data, indices, indptr = cache.rows
        lo, hi = indptr[at.start], indptr[at.stop]
        # where all stored values are equal one of them is kept
        part = np.full(hi - lo, data[0]) if len(data) == 1 else data[lo:hi]
        starts = np.asarray(indptr[at.start : at.stop + 1]) - lo
        X = np.zeros((n, d))
        np.add.at(X, (np.repeat(np.arange(n), np.diff(starts)), indices[lo:hi]), part)
    weight = cache.weight[at] if len(cache.weight) else np.ones(n)
    offset = cache.offset[at] if len(cache.offset) else 0.0
    return _Run(X, codes[at], np.asarray(weight, np.float64), offset)


def _multinomial(request: JointInferenceSums, run: _Run) -> _Found:
    """The softmax, whose first class has coefficients of zero."""
    others = len(request.classes) - 1
    B = request.params.reshape(others, -1)
    n, d = run.X.shape
    X = run.X if B.shape[1] == d else np.column_stack([run.X, np.ones(n)])
    Z = np.column_stack([np.zeros(n), X @ B.T])
    Z -= Z.max(axis=1, keepdims=True)
    P = np.exp(Z)
    total = P.sum(axis=1)
    P /= total[:, None]
    rows = np.arange(n)
    value = float(run.weight @ (np.log(total) - Z[rows, run.code]))

    size, P = X.shape[1], P[:, 1:]
    slopes = P - (run.code[:, None] == np.arange(1, others + 1))
    bread = np.empty((others, size, others, size))
    for a in range(others):
        for b in range(a + 1):
            share = run.weight * P[:, a] * ((a == b) - P[:, b])
            gram = X.T @ (share[:, None] * X)
            bread[a, :, b] = bread[b, :, a] = gram
    scores = (slopes[:, :, None] * X[:, None, :]).reshape(n, -1)
    return _Found(value, scores, bread.reshape(others * size, -1))


def _ordinal(request: JointInferenceSums, run: _Run) -> _Found:
    """Proportional odds; formulas are in `losses.ordinal`."""
    d, s, y = run.X.shape[1], run.weight, run.code
    t = request.params[d:]
    n, m, rows = len(y), len(t), np.arange(len(y))
    below, above = y > 0, y < m
    z = run.X @ request.params[:d] + run.offset
    # minus infinity where a class has no such threshold
    up = np.where(above, z - t[np.minimum(y, m - 1)], -np.inf)
    down = np.where(below, t[np.maximum(y - 1, 0)] - z, -np.inf)
    inner = below & above
    gaps = np.where(inner, t[np.minimum(y, m - 1)] - t[np.maximum(y - 1, 0)], 1.0)
    u, v = expit(up), expit(down)
    cu, cv = u * expit(-up), v * expit(-down)
    pull = np.where(inner, barrier_slope(gaps), 0.0)
    bend = np.where(inner, barrier_curvature(gaps), 0.0)
    losses = np.logaddexp(0.0, up) + np.logaddexp(0.0, down) + np.where(inner, barrier(gaps), 0.0)

    # one column a threshold: that above a row's class, and that below it
    T, C, D = np.zeros((n, m)), np.zeros((n, m)), np.zeros((n, m))
    i, j = rows[above], rows[below]
    T[i, y[above]] += (pull - u)[above]
    T[j, y[below] - 1] += (v - pull)[below]
    C[i, y[above]] -= cu[above]
    C[j, y[below] - 1] -= cv[below]
    D[i, y[above]] += (cu + bend)[above]
    D[j, y[below] - 1] += (cv + bend)[below]

    bread = np.zeros((d + m, d + m))
    bread[:d, :d] = run.X.T @ ((s * (cu + cv))[:, None] * run.X)
    bread[:d, d:] = run.X.T @ (s[:, None] * C)
    bread[d:, :d] = bread[:d, d:].T
    bread[d:, d:] = np.diag(s @ D)
    k = np.arange(1, m)
    between = np.bincount(y[inner], (s * bend)[inner], m + 1)[1:m]
    bread[d + k, d + k - 1] -= between
    bread[d + k - 1, d + k] -= between
    slopes = np.column_stack([(u - v)[:, None] * run.X, T])
    return _Found(float(s @ losses), slopes, bread)
