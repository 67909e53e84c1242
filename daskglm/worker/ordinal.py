"""Answer requests about the ordinal loss beside the rows, by `kernels.ordinal_dense` and
`ordinal_csr`.

A block caches the class of each row, the weights of the classes, and the margins of two points,
which are rebuilt from the request. Vectors of requests reach kernels of the CPU as read-only ones,
as those from other processes are, so that these are compiled once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.ordinal_requests import (
    EvaluateOrdinal,
    OrdinalAlong,
    OrdinalHessianVector,
    OrdinalRequest,
)
from daskglm.core.requests import Problem, Totals
from daskglm.data.blocks import Block
from daskglm.kernels import cpu as host
from daskglm.kernels import dense, gram_side, ordinal, ordinal_csr, ordinal_dense
from daskglm.kernels.ordinal import edges_of
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.ordinal import OrderedLink, link_of_loss

# Points whose margins a block keeps: the two ends of a line search.
KEPT = 2
# Threads get Grams of their own while all of them fit in these bytes.
GRAM_BYTES = 1 << 30

Piece = tuple[int, int, int]
Each = Callable[[Callable[[list[Piece]], Totals], int | None], Totals]


@dataclass
class OrdinalRows:
    """What a block caches: the class (n,) of each row, weights (K,), margins (n,) by token."""

    classes: tuple[Any, ...]
    codes: Any
    weights: np.ndarray
    xp: Any = np
    margins: dict[int, Any] = field(default_factory=dict)

    def reserve(self, token: int, needed: Sequence[int | None]) -> Any:
        """Return room for the margins of a token; a full cache evicts the oldest not `needed`."""
        if token not in self.margins:
            spare = next((t for t in self.margins if t not in needed), None)
            full = len(self.margins) >= KEPT and spare is not None
            old = self.margins.pop(spare) if full and spare is not None else None
            self.margins[token] = self.xp.empty(len(self.codes)) if old is None else old
        return self.margins[token]


def answer_ordinal(
    problem: Problem,
    request: OrdinalRequest,
    blocks: Sequence[Block],
    caches: Sequence[Any],
    facts: DataSummary,
    each: Each,
) -> Totals:
    """Answer a request about the ordinal loss with sums over the rows of all blocks."""
    known = [
        _ordinal_rows(cache, block, request.classes)
        for cache, block in zip(caches, blocks, strict=True)
    ]
    sweep = _Sweep(known, caches, facts, each, link_of_loss(problem.loss.name))
    if isinstance(request, EvaluateOrdinal):
        return _evaluate(request, sweep)
    if isinstance(request, OrdinalHessianVector):
        return _hessian_vector(request, sweep)
    return _along(request, sweep)


def has_margins(cache: Any, request: OrdinalAlong) -> bool:
    """Return whether the cache of a block answers a request without its rows."""
    known: OrdinalRows | None = cache.ordinal
    return (
        known is not None
        and known.classes == request.classes
        and all(token in known.margins for token, _ in request.points)
    )


def _ordinal_rows(cache: Any, block: Block, classes: tuple[Any, ...]) -> OrdinalRows:
    """Return the cache of a block, made anew if it is for other classes."""
    known: OrdinalRows | None = cache.ordinal
    if known is None or known.classes != classes:
        assert block.labels is not None
        # labels that are not among the classes have no weight: any class will do
        places = {label: k for k, label in enumerate(classes)}
        table = np.array([places.get(label, 0) for label in block.labels], np.int32)
        codes = table[block.y]
        weight = to_host(cache.weight) if len(cache.weight) else None
        weights = np.bincount(codes, weight, len(classes)).astype(np.float64)
        xp = cache.backend.xp
        known = cache.ordinal = OrdinalRows(classes, xp.asarray(read_only(codes)), weights, xp)
    return known


@dataclass
class _Sweep:
    """The rows of a shard as kernels take them."""

    known: list[OrdinalRows]
    caches: Sequence[Any]
    facts: DataSummary
    each: Each
    link: OrderedLink

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

    def kernels(self, i: int) -> ModuleType:
        """Kernels for the storage of block i."""
        if self.backend is not host:
            return cast(ModuleType, self.backend.ordinal)
        return ordinal_dense if self.caches[i].kernels is dense else ordinal_csr

    @property
    def weights(self) -> Any:
        """Weights of the classes (K,), of all blocks; zero without blocks."""
        return sum(rows.weights for rows in self.known)

    def update_margins(self, points: Sequence[tuple[int, np.ndarray]]) -> int:
        """Cache the margins of all points in all blocks; return the number of rows read for it."""
        read = 0
        for token, at in points:
            w, b = self.backend.coefficients(at, len(at))
            missing = {i for i, rows in enumerate(self.known) if token not in rows.margins}
            for i in missing:
                self.known[i].reserve(token, [t for t, _ in points])

            def work(
                pieces: list[Piece],
                token: int = token,
                w: Any = w,
                b: float = b,
                missing: set[int] = missing,
            ) -> Totals:
                for i, lo, hi in pieces:
                    if i in missing:
                        cache, out = self.caches[i], self.known[i].margins[token]
                        cache.kernels.margins(cache.rows, w, b, lo, hi, out)
                return {}

            if missing:
                self.each(work, None)
                read += sum(len(self.known[i].codes) for i in missing)
        return read


def _evaluate(request: EvaluateOrdinal, sweep: _Sweep) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    d, K = len(request.w), len(request.classes)
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
            kernels = sweep.kernels(i)
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


def _hessian_vector(request: OrdinalHessianVector, sweep: _Sweep) -> Totals:
    d, K = len(request.v), len(request.classes)
    xp, zeros = sweep.backend.xp, sweep.backend.zeros
    edges = xp.asarray(read_only(sweep.edges(request.thresholds)))
    shifts = xp.asarray(edges_of(request.shifts)[0])
    v = xp.asarray(read_only(request.v))
    read = sweep.update_margins([request.at])

    def work(pieces: list[Piece]) -> Totals:
        product, by = zeros(d), zeros(K + 1)
        for i, lo, hi in pieces:
            z = sweep.known[i].margins[request.at[0]]
            sweep.kernels(i).hessian_vector(
                sweep.rows(i), z, v, shifts, edges, lo, hi, (product, by)
            )
        return {"product": product, "by": by[1:-1]}

    read += sweep.facts.n_rows
    return {**sweep.backend.to_host(sweep.each(work, None)), "weights": sweep.weights, "rows": read}


def _along(request: OrdinalAlong, sweep: _Sweep) -> Totals:
    read = sweep.update_margins(request.points)
    tokens = [token for token, _ in request.points]
    many, K = len(request.coefficients), len(request.classes)
    edges = np.stack([sweep.edges(thresholds) for thresholds in request.thresholds])
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
