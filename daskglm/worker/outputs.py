"""Answer requests about the softmax beside the rows, by `kernels.outputs_dense` and `outputs_csr`.

A block caches the class of each row and the margins of two points, K numbers a row; both are
rebuilt from the request. Only rows in host memory are served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.output_requests import (
    EvaluateOutputs,
    OutputRequest,
    OutputsAlong,
    OutputsHessianVector,
)
from daskglm.core.requests import Totals
from daskglm.core.summation import LEAST_ROWS
from daskglm.data.blocks import Block
from daskglm.kernels import cpu as host
from daskglm.kernels import outputs, outputs_csr, outputs_dense
from daskglm.kernels.batched_dense import TURN
from daskglm.kernels.records import NOTHING
from daskglm.kernels.simd_columns import LEFT, RIGHT

# Bytes of a tile in float64, which stays in the second-level cache; then its most rows. As
# `worker.batched` has them.
TILE_BYTES = 1 << 18
MOST_ROWS = 1024
# Features up to which tiles of sparse rows are made dense.
DENSE_WIDTH = 512
# Threads get Grams of their own while all of them fit in these bytes.
GRAM_BYTES = 1 << 30
# Points whose margins a block keeps: the two ends of a line search.
KEPT = 2

NO_ROWS = np.empty((0, 0))
Piece = tuple[int, int, int]
Each = Callable[[Callable[[list[Piece]], Totals], int | None], Totals]


@dataclass
class OutputRows:
    """What a block caches: the class (n,) of each row, and margins (K, n) by token."""

    classes: tuple[Any, ...]
    codes: np.ndarray
    margins: dict[int, np.ndarray] = field(default_factory=dict)

    def reserve(self, token: int, needed: Sequence[int | None]) -> np.ndarray:
        """Return room for the margins of a token; a full cache evicts the oldest not `needed`."""
        if token not in self.margins:
            spare = next((t for t in self.margins if t not in needed), None)
            full = len(self.margins) >= KEPT and spare is not None
            old = self.margins.pop(spare) if full and spare is not None else None
            room = np.empty((len(self.classes), len(self.codes))) if old is None else old
            self.margins[token] = room
        return self.margins[token]


def answer_outputs(
    request: OutputRequest,
    blocks: Sequence[Block],
    caches: Sequence[Any],
    facts: DataSummary,
    each: Each,
) -> Totals:
    """Answer a request about the softmax with sums over the rows of all blocks."""
    if any(cache.backend is not host for cache in caches):
        raise NotImplementedError("the softmax wants rows in host memory: give device='cpu'")
    known = [
        _output_rows(cache, block, request.classes)
        for cache, block in zip(caches, blocks, strict=True)
    ]
    sweep = _Sweep(known, caches, facts, len(request.classes), each)
    if isinstance(request, EvaluateOutputs):
        return _evaluate(request, sweep)
    if isinstance(request, OutputsHessianVector):
        return _hessian_vector(request, sweep)
    return _along(request, sweep)


def has_margins(cache: Any, request: OutputsAlong) -> bool:
    """Return whether the cache of a block answers a request without its rows."""
    known: OutputRows | None = cache.outputs
    return (
        known is not None
        and known.classes == request.classes
        and all(token in known.margins for token, _ in request.points)
    )


def _output_rows(cache: Any, block: Block, classes: tuple[Any, ...]) -> OutputRows:
    """Return the cache of a block, made anew if it is for other classes."""
    known: OutputRows | None = cache.outputs
    if known is None or known.classes != classes:
        assert block.labels is not None
        # labels that are not among the classes have no weight: any class will do
        places = {label: k for k, label in enumerate(classes)}
        table = np.array([places.get(label, 0) for label in block.labels], np.int32)
        known = cache.outputs = OutputRows(classes, table[block.y])
    return known


@dataclass
class _Sweep:
    """The rows of a shard as kernels take them, and how W is laid out for them."""

    known: list[OutputRows]
    caches: Sequence[Any]
    facts: DataSummary
    K: int
    each: Each

    @property
    def d(self) -> int:
        return self.facts.n_features or 0

    @property
    def width(self) -> int:
        """Features and intercept, rounded up to whole register blocks."""
        return -(-(self.d + 1) // RIGHT) * RIGHT

    @property
    def side(self) -> int:
        """Classes, rounded up to whole register blocks."""
        return -(-self.K // LEFT) * LEFT

    @property
    def many(self) -> int:
        """Rows of a tile of columns."""
        rows = TILE_BYTES // (8 * (self.width + self.side))
        return min(max(rows, LEAST_ROWS), MOST_ROWS) // TURN * TURN

    def is_wide(self) -> bool:
        """Whether sparse rows stay sparse."""
        return self.facts.sparse and self.d > DENSE_WIDTH

    def laid_out(self, W: np.ndarray, *, wide: bool) -> np.ndarray:
        """Return coefficients (K, size) as kernels take them, with an intercept of zero if none."""
        if wide:
            out = np.zeros((self.d + 1, self.K))
            out[: W.shape[1]] = W.T
        else:
            out = np.zeros((self.side, self.width))
            out[: self.K, : W.shape[1]] = W
        return out

    def result(self, sums: np.ndarray, size: int, *, wide: bool) -> np.ndarray:
        """Return sums that are laid out so as (K, size)."""
        return np.ascontiguousarray(sums.T[:, :size] if wide else sums[: self.K, :size])

    def rows(self, i: int) -> tuple[Any, ...]:
        """Block i as kernels take it."""
        return self.caches[i].rows, self.d, self.known[i].codes, self.caches[i].weight

    def update_margins(self, points: Sequence[tuple[int, np.ndarray]]) -> int:
        """Cache the margins of all points in all blocks; return the number of rows read for it."""
        read, wide = 0, self.is_wide()
        for token, at in points:
            W = self.laid_out(at, wide=wide)
            missing = {i for i, rows in enumerate(self.known) if token not in rows.margins}
            for i in missing:
                self.known[i].reserve(token, [t for t, _ in points])

            def work(
                pieces: list[Piece],
                token: int = token,
                W: np.ndarray = W,
                missing: set[int] = missing,
            ) -> Totals:
                for i, lo, hi in pieces:
                    if i in missing:
                        X, out = self.caches[i].rows, self.known[i].margins[token]
                        if wide:
                            outputs_csr.margins(X, self.d, W, lo, hi, out)
                        else:
                            outputs_dense.margins(X, self.d, W, self.K, self.many, lo, hi, out)
                return {}

            if missing:
                self.each(work, None)
                read += sum(len(self.known[i].codes) for i in missing)
        return read


def _evaluate(request: EvaluateOutputs, sweep: _Sweep) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    K, size = request.W.shape
    # Grams are of dense tiles
    wide = sweep.is_wide() and not request.gram
    W = sweep.laid_out(request.W, wide=wide)
    basis = NO_ROWS if request.basis is None else request.basis
    of_grams = np.stack([np.arange(K)] * 2 if request.by_class else np.triu_indices(K, 1))
    pairs, width = of_grams.shape[1] if request.gram else 0, sweep.width
    kept = [
        rows.reserve(request.token, [request.beside]) if request.keep else NO_ROWS
        for rows in sweep.known
    ]
    directions = basis.shape[1]

    def work(pieces: list[Piece]) -> Totals:
        sums, value = np.zeros(W.shape), np.zeros(1)
        diagonal = np.zeros((directions, sweep.d + 1 if wide else width))
        grams = np.zeros((pairs, width, width) if pairs else (0, 0, 0))
        for i, lo, hi in pieces:
            rows = sweep.rows(i)
            if wide:
                outputs_csr.evaluate(rows, W, basis, lo, hi, (kept[i], sums, value, diagonal))
                continue
            X = rows[0]
            single = not request.exact and isinstance(X, np.ndarray) and X.dtype == np.float32
            like = np.empty(0, np.float32) if single else NOTHING
            out = kept[i], sums, value, diagonal, grams
            outputs_dense.evaluate(rows, W, K, sweep.many, basis, of_grams, like, lo, hi, out)
        return {"sums": sums, "value": value, "diagonal": diagonal, "grams": grams}

    threads = max(1, int(GRAM_BYTES // (8 * pairs * width * width))) if pairs else None
    totals = sweep.each(work, threads)
    reply = {
        "value": totals["value"][0],
        "gradient": sweep.result(totals["sums"], size, wide=wide),
        "rows": sweep.facts.n_rows,
    }
    if directions:
        reply["diagonal"] = totals["diagonal"][:, :size]
    if pairs:
        reply["grams"] = np.ascontiguousarray(totals["grams"][:, :size, :size])
    return reply


def _hessian_vector(request: OutputsHessianVector, sweep: _Sweep) -> Totals:
    read, wide = sweep.update_margins([request.at]), sweep.is_wide()
    V, token = sweep.laid_out(request.V, wide=wide), request.at[0]

    def work(pieces: list[Piece]) -> Totals:
        sums = np.zeros(V.shape)
        for i, lo, hi in pieces:
            rows, margin = sweep.rows(i), sweep.known[i].margins[token]
            if wide:
                outputs_csr.hessian_vector(rows, margin, V, lo, hi, sums)
            else:
                many = sweep.many
                outputs_dense.hessian_vector(rows, margin, V, sweep.K, many, lo, hi, sums)
        return {"sums": sums}

    product = sweep.result(sweep.each(work, None)["sums"], request.V.shape[1], wide=wide)
    return {"product": product, "rows": sweep.facts.n_rows + read}


def _along(request: OutputsAlong, sweep: _Sweep) -> Totals:
    read = sweep.update_margins(request.points)
    tokens = [token for token, _ in request.points]
    m, K = request.shifts.shape

    def work(pieces: list[Piece]) -> Totals:
        out = np.zeros(m), np.zeros((m, K)), np.zeros((m, K, K))
        for i, lo, hi in pieces:
            Z = tuple(sweep.known[i].margins[token] for token in tokens)
            codes, weight = sweep.known[i].codes, sweep.caches[i].weight
            outputs.along(codes, weight, Z, request.coefficients, request.shifts, lo, hi, out)
        return dict(zip(("values", "slopes", "hessians"), out, strict=True))

    return {**sweep.each(work, None), "rows": read}
