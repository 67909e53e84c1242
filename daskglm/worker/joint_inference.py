"""Sums for inference of the losses of all classes together, the multinomial and the ordinal one.

Rows are taken in runs, dense and in float64, that stay in the second-level cache: scores of a run
are a matrix (rows, p), and Grams are products of matrices. Only rows in host memory are served.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from daskglm.core.inference_requests import InferenceSums
from daskglm.data.blocks import Block
from daskglm.kernels.ordinal import NUMBERS, edges_of, link_terms
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.kernels.storages import matrix_of, rows_between
from daskglm.losses.ordinal import (
    OrderedLink,
    barrier,
    barrier_curvature,
    barrier_slope,
    is_ordinal,
    link_of_loss,
)
from daskglm.losses.table import loss_of
from daskglm.worker.asked import Asked
from daskglm.worker.class_rows import codes_among
from daskglm.worker.score_sums import Out

# Bytes of the scores of a run of rows. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Rows of a run, at least.
FEWEST = 64


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


class OfClasses:
    """Scores of losses of all classes together, by products of dense matrices."""

    def __init__(self, asked: Asked[InferenceSums]) -> None:
        problem, self.request, self.caches = asked.problem, asked.request, asked.caches
        self.d, self.size = asked.n_features, len(asked.request.w)
        self.side = self.width = self.size
        self.codes = [codes_among(block, problem.classes) for block in asked.blocks]
        self.of_run: Callable[[InferenceSums, _Run], _Found]
        if is_ordinal(loss_of(problem.loss)):
            self.of_run = partial(_ordinal, link_of_loss(problem.loss.name))
        else:
            self.of_run = partial(_multinomial, len(problem.classes) - 1)

    def rows_of_run(self, block: Block) -> int:
        """Return the rows of a block that are taken at a time."""
        return max(RUN_BYTES // (8 * (self.size + self.d + 1)), FEWEST)

    def add(self, i: int, run: slice, out: Out, codes: np.ndarray | None) -> None:
        """Add the sums over some rows of block i, which are of these clusters."""
        rows = _run_of(self.caches[i], self.codes[i], run, self.d)
        found = self.of_run(self.request, rows)
        scores = rows.weight[:, None] * found.slopes
        out.add_scalars(found.value, np.nan, rows.weight)
        out.sums[:-1] += scores.sum(axis=0)
        out.bread[:] += found.bread
        if self.request.meat:
            out.meat[:] += scores.T @ (found.slopes if self.request.frequency else scores)
        if codes is not None:
            _add_by_code(scores, codes, out.clusters)
            out.seen[codes[rows.weight > 0.0]] = True


def _add_by_code(scores: np.ndarray, codes: np.ndarray, sums: np.ndarray) -> None:
    """Add the rows of a matrix to the rows of `sums` that codes name."""
    n = len(codes)
    places, where = np.unique(codes, return_inverse=True)
    ones = sp.csr_array((np.ones(n), where, np.arange(n + 1)), shape=(n, len(places)))
    sums[places] += ones.T @ scores


def _run_of(cache: Any, codes: np.ndarray, at: slice, d: int) -> _Run:
    """Return the rows of a run, dense and in float64."""
    X = matrix_of(rows_between(cache.rows, at.start, at.stop), d)
    X = X.toarray() if sp.issparse(X) else X
    weight = cache.weight[at] if len(cache.weight) else np.ones(len(X))
    offset = cache.offsets[at] if len(cache.offsets) else 0.0
    return _Run(X, codes[at], np.asarray(weight, np.float64), offset)


def _multinomial(others: int, request: InferenceSums, run: _Run) -> _Found:
    """The softmax, whose first class has coefficients of zero, unlike the `others`."""
    B = request.w.reshape(others, -1)
    n, d = run.X.shape
    X = run.X if B.shape[1] == d else np.column_stack([run.X, np.ones(n)])
    Z = np.column_stack([np.zeros(n), X @ B.T])
    if np.ndim(run.offset) == 2:
        Z += run.offset
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


class _Terms(NamedTuple):
    """Of a run of rows: the weighted sum of losses, and derivatives of each row without weights.

    Parameters
    ----------
    value : float
    up, down : (n,) arrays
        Slopes by the margin of the terms of the upper threshold, and minus those of the lower one.
    bent_up, bent_down : (n,) arrays
        Their curvatures.
    pull, bend : (n,) arrays
        Slope and curvature by the gap between both thresholds.
    """

    value: float
    up: np.ndarray
    down: np.ndarray
    bent_up: np.ndarray
    bent_down: np.ndarray
    pull: np.ndarray
    bend: np.ndarray


def _logit_terms(z: np.ndarray, t: np.ndarray, run: _Run) -> _Terms:
    """Proportional odds; formulas are in `losses.ordinal`."""
    y, m = run.code, len(t)
    below, above = y > 0, y < m
    # minus infinity where a class has no such threshold
    up = np.where(above, z - t[np.minimum(y, m - 1)], -np.inf)
    down = np.where(below, t[np.maximum(y - 1, 0)] - z, -np.inf)
    inner = below & above
    gaps = np.where(inner, t[np.minimum(y, m - 1)] - t[np.maximum(y - 1, 0)], 1.0)
    losses = np.logaddexp(0.0, up) + np.logaddexp(0.0, down) + np.where(inner, barrier(gaps), 0.0)
    u, v = expit(up), expit(down)
    return _Terms(
        float(run.weight @ losses),
        u,
        v,
        u * expit(-up),
        v * expit(-down),
        np.where(inner, barrier_slope(gaps), 0.0),
        np.where(inner, barrier_curvature(gaps), 0.0),
    )


def _link_terms(link: OrderedLink, z: np.ndarray, t: np.ndarray, run: _Run) -> _Terms:
    """Another link; formulas are in `losses.ordinal_links`."""
    n, edges = len(z), read_only(edges_of(t, link.code))
    codes, of = read_only(run.code.astype(np.int32)), np.empty((NUMBERS, len(z)))
    value = link_terms(codes, read_only(run.weight), NO_NUMBERS, z, edges, 0, n, of)
    link_terms(codes, NO_NUMBERS, NO_NUMBERS, z, edges, 0, n, of)
    return _Terms(float(value), of[0], -of[2], of[1], of[3], np.zeros(n), of[4])


def _ordinal(link: OrderedLink, request: InferenceSums, run: _Run) -> _Found:
    """Ordered classes."""
    d, s, y = run.X.shape[1], run.weight, run.code
    t = request.w[d:]
    n, m, rows = len(y), len(t), np.arange(len(y))
    z = run.X @ request.w[:d] + run.offset
    of = _logit_terms(z, t, run) if link.splits else _link_terms(link, z, t, run)
    below, above = y > 0, y < m
    inner = below & above

    # one column a threshold: that above a row's class, and that below it
    T, C, D = np.zeros((n, m)), np.zeros((n, m)), np.zeros((n, m))
    i, j = rows[above], rows[below]
    T[i, y[above]] += (of.pull - of.up)[above]
    T[j, y[below] - 1] += (of.down - of.pull)[below]
    C[i, y[above]] -= of.bent_up[above]
    C[j, y[below] - 1] -= of.bent_down[below]
    D[i, y[above]] += (of.bent_up + of.bend)[above]
    D[j, y[below] - 1] += (of.bent_down + of.bend)[below]

    bread = np.zeros((d + m, d + m))
    bread[:d, :d] = run.X.T @ ((s * (of.bent_up + of.bent_down))[:, None] * run.X)
    bread[:d, d:] = run.X.T @ (s[:, None] * C)
    bread[d:, :d] = bread[:d, d:].T
    bread[d:, d:] = np.diag(s @ D)
    k = np.arange(1, m)
    between = np.bincount(y[inner], (s * of.bend)[inner], m + 1)[1:m]
    bread[d + k, d + k - 1] -= between
    bread[d + k - 1, d + k] -= between
    slopes = np.column_stack([(of.up - of.down)[:, None] * run.X, T])
    return _Found(of.value, slopes, bread)
