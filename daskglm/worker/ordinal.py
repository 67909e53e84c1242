"""Answer requests about the ordinal loss beside the rows, by
`kernels.sweep_thresholds`.

A block caches the class of each row, the weights of the classes, and the margins of two points,
which are rebuilt from the request. Vectors of requests reach kernels of the CPU as read-only ones,
as those from other processes are, so that these are compiled once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.ordinal_requests import (
    EvaluateOrdinal,
    OrdinalAlong,
    OrdinalHessianVector,
)
from daskglm.core.requests import Totals
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side, ordinal
from daskglm.kernels.ordinal import edges_of
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.ordinal import OrderedLink, link_of_loss
from daskglm.worker.asked import Asked, Each
from daskglm.worker.class_rows import ClassRows
from daskglm.worker.margins import Fill, update
from daskglm.worker.pieces import Piece

# Threads get Grams of their own while all of them fit in these bytes.
GRAM_BYTES = 1 << 30


@dataclass
class _Sweep:
    """The rows of a shard as kernels take them."""

    known: list[ClassRows]
    caches: Sequence[Any]
    facts: DataSummary
    each: Each
    link: OrderedLink

    @classmethod
    def of(cls, asked: Asked[Any]) -> _Sweep:
        """Return that of a request about ordered classes."""
        known = [
            ClassRows.of(cache, block, asked.problem.classes)
            for cache, block in zip(asked.caches, asked.blocks, strict=True)
        ]
        link = link_of_loss(asked.problem.loss.name)
        return cls(known, asked.caches, asked.facts, asked.each, link)

    def edges(self, thresholds: np.ndarray) -> np.ndarray:
        """Return thresholds as kernels take them."""
        return edges_of(thresholds, self.link.code)

    def curvatures(self, many: int) -> int:
        """Return the length of curvatures by `many` thresholds: see `kernels.ordinal`."""
        return many if self.link.splits else 2 * many

    def rows(self, i: int) -> tuple[Any, ...]:
        """Block i as kernels take it."""
        cache = self.caches[i]
        return cache.rows, self.known[i].codes, cache.weight, cache.offset

    @property
    def backend(self) -> Any:
        """Where the rows are."""
        return self.caches[0].backend if self.caches else host

    @property
    def kernels(self) -> ModuleType:
        """Kernels where the rows are."""
        return cast(ModuleType, self.backend.ordinal)

    @property
    def weights(self) -> Any:
        """Weights of the classes (K,), of all blocks; zero without blocks."""
        return sum(rows.weights for rows in self.known)

    def update_margins(self, points: Sequence[tuple[int, np.ndarray]]) -> int:
        """Cache the margins of all points in all blocks; return the number of rows read for it."""

        def filled(at: np.ndarray) -> Fill:
            w, b = self.backend.coefficients(at, len(at))
            return lambda i, lo, hi, out: self.caches[i].kernels.margins(
                self.caches[i].rows, w, b, lo, hi, out
            )

        return update(points, self.known, filled, self.each)


def evaluate(asked: Asked[EvaluateOrdinal]) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    request, sweep = asked.request, _Sweep.of(asked)
    d, K = len(request.w), len(asked.problem.classes)
    xp, zeros = sweep.backend.xp, sweep.backend.zeros
    w = xp.asarray(read_only(request.w))
    edges = xp.asarray(read_only(sweep.edges(request.thresholds)))
    side = gram_side(d) if request.gram else 0
    kept = [
        rows.reserve(request.token, [request.beside]) if request.keep else NOTHING
        for rows in sweep.known
    ]

    def work(pieces: list[Piece]) -> Totals:
        sums, slopes, curvatures = zeros(d + 1), zeros(K + 1), zeros(sweep.curvatures(K + 1))
        diagonal = zeros(d if request.diagonal else 0)
        gram = zeros(side, side)
        cross = zeros(*((K + 1, d) if request.gram else (0, 0)))
        for i, lo, hi in pieces:
            kernels = sweep.kernels
            evaluate = kernels.evaluate_exactly if request.exact else kernels.evaluate
            out = kept[i], sums, slopes, curvatures, diagonal, gram, cross
            evaluate(sweep.rows(i), w, edges, lo, hi, out)
        by = {"slopes": slopes[1:-1], **_curvatures(curvatures, K)}
        return {"sums": sums, "diagonal": diagonal, "gram": gram, "cross": cross, **by}

    threads = max(1, int(GRAM_BYTES // (8 * side * side))) if side else None
    totals = sweep.backend.to_host(sweep.each(work, threads))
    reply = {
        "value": totals["sums"][d],
        "gradient": totals["sums"][:d],
        "slopes": totals["slopes"],
        "curvatures": totals["curvatures"],
        **({} if sweep.link.splits else {"between": totals["between"]}),
        "weights": sweep.weights,
        "rows": sweep.facts.n_rows,
    }
    if request.diagonal:
        reply["diagonal"] = totals["diagonal"]
    if request.gram:
        reply["gram"] = np.ascontiguousarray(totals["gram"][:d, :d])
        reply["cross"] = np.ascontiguousarray(totals["cross"][1:-1].T)
    return reply


def _curvatures(found: Any, K: int) -> Totals:
    """Return curvatures by each threshold and, where they are there, between those of a class."""
    by = {"curvatures": found[..., 1:K]}
    return by if found.shape[-1] == K + 1 else by | {"between": found[..., K + 2 : 2 * K]}


def hessian_vector(asked: Asked[OrdinalHessianVector]) -> Totals:
    """Multiply a vector by the Hessian at a point."""
    request, sweep = asked.request, _Sweep.of(asked)
    d, K = len(request.v), len(asked.problem.classes)
    xp, zeros = sweep.backend.xp, sweep.backend.zeros
    edges = xp.asarray(read_only(sweep.edges(request.thresholds)))
    shifts = xp.asarray(edges_of(request.shifts)[0])
    v = xp.asarray(read_only(request.v))
    read = sweep.update_margins([request.at])

    def work(pieces: list[Piece]) -> Totals:
        product, by = zeros(d), zeros(K + 1)
        for i, lo, hi in pieces:
            z = sweep.known[i].margins[request.at[0]]
            sweep.kernels.hessian_vector(sweep.rows(i), z, v, shifts, edges, lo, hi, (product, by))
        return {"product": product, "by": by[1:-1]}

    read += sweep.facts.n_rows
    return {**sweep.backend.to_host(sweep.each(work, None)), "weights": sweep.weights, "rows": read}


def along(asked: Asked[OrdinalAlong]) -> Totals:
    """Add up losses of combinations of evaluated points, each with thresholds of its own."""
    request, sweep = asked.request, _Sweep.of(asked)
    read = sweep.update_margins(request.points)
    tokens = [token for token, _ in request.points]
    many, K = len(request.coefficients), len(asked.problem.classes)
    edges = read_only(np.stack([sweep.edges(thresholds) for thresholds in request.thresholds]))
    coefficients, zeros = read_only(request.coefficients), sweep.backend.zeros
    kernels = ordinal if sweep.backend is host else sweep.backend.ordinal

    def work(pieces: list[Piece]) -> Totals:
        out = zeros(many), zeros(many, K + 1), zeros(many, sweep.curvatures(K + 1))
        for i, lo, hi in pieces:
            rows = sweep.known[i]
            Z = tuple(rows.margins[token] for token in tokens)
            beside = rows.codes, sweep.caches[i].weight, sweep.caches[i].offset
            kernels.along(*beside, Z, coefficients, edges, lo, hi, out)
        return {"values": out[0], "slopes": out[1][:, 1:-1], **_curvatures(out[2], K)}

    totals = sweep.backend.to_host(sweep.each(work, None))
    return {**totals, "weights": sweep.weights, "rows": read}
