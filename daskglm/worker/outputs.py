"""Answer requests about the softmax beside the rows, by the kernels of `output_layouts`.

A block caches the class of each row and the margins of two points, K numbers a row; both are
rebuilt from the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.output_requests import (
    EvaluateOutputs,
    OutputsAlong,
    OutputsHessianVector,
)
from daskglm.core.requests import Totals
from daskglm.kernels import cpu as host
from daskglm.kernels import outputs
from daskglm.worker import margins
from daskglm.worker.asked import Asked, Each
from daskglm.worker.class_rows import ClassRows
from daskglm.worker.output_layouts import OnDevice, OnHost, Rows, Softmax, of_host
from daskglm.worker.pieces import Piece

# Threads get Grams of their own while all of them fit in these bytes.
GRAM_BYTES = 1 << 30

NO_ROWS = np.empty((0, 0))


@dataclass
class _Sweep:
    """The rows of a shard, and how W is laid out for them."""

    known: list[ClassRows]
    caches: Sequence[Any]
    facts: DataSummary
    K: int
    each: Each

    @classmethod
    def of(cls, asked: Asked[Any]) -> _Sweep:
        """Return that of a request about the softmax."""
        classes = asked.problem.classes
        known = [
            ClassRows.of(cache, block, classes, (len(classes),))
            for cache, block in zip(asked.caches, asked.blocks, strict=True)
        ]
        return cls(known, asked.caches, asked.facts, len(classes), asked.each)

    @property
    def backend(self) -> Any:
        """Where the rows are."""
        return self.caches[0].backend if self.caches else host

    def layout(self, *, columns: bool = False) -> Softmax:
        """Return how W is laid out; `columns`: for Grams, which are of tiles of these."""
        if self.backend is not host:
            return OnDevice(self.facts.n_features or 0, self.K, self.backend)
        return OnHost(of_host(self.facts, self.K, columns=columns))

    def rows(self, i: int) -> Rows:
        """Block i as layouts take it."""
        known = self.known[i]
        return self.caches[i].rows, known.codes, self.caches[i].weight, known.offset

    def update_margins(self, points: Sequence[tuple[int, np.ndarray]]) -> int:
        """Cache the margins of all points in all blocks; return the number of rows read for it."""
        layout = self.layout()

        def filled(at: np.ndarray) -> margins.Fill:
            W = layout.laid_out(at)
            return lambda i, lo, hi, out: layout.margins(self.rows(i), W, lo, hi, out)

        return margins.update(points, self.known, filled, self.each)


def evaluate(asked: Asked[EvaluateOutputs]) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    request, sweep = asked.request, _Sweep.of(asked)
    K, size = request.W.shape
    layout, zeros = sweep.layout(columns=request.gram), sweep.backend.zeros
    W, width = layout.laid_out(request.W), layout.width
    basis = np.empty((K, 0)) if request.basis is None else request.basis
    of_grams = np.stack([np.arange(K)] * 2 if request.by_class else np.triu_indices(K, 1))
    pairs, directions = of_grams.shape[1] if request.gram else 0, basis.shape[1]
    kept = [
        rows.reserve(request.token, [request.beside]) if request.keep else NO_ROWS
        for rows in sweep.known
    ]

    def work(pieces: list[Piece]) -> Totals:
        sums, value = zeros(*layout.shape), zeros(1)
        diagonal = zeros(directions, width)
        grams = zeros(*((pairs, width, width) if pairs else (0, 0, 0)))
        for i, lo, hi in pieces:
            out = kept[i], sums, value, diagonal, grams
            layout.evaluate(sweep.rows(i), W, (basis, of_grams, request.exact), lo, hi, out)
        return {"sums": sums, "value": value, "diagonal": diagonal, "grams": grams}

    threads = max(1, int(GRAM_BYTES // (8 * pairs * width * width))) if pairs else None
    totals = sweep.backend.to_host(sweep.each(work, threads))
    reply = {
        "value": totals["value"][0],
        "gradient": layout.result(totals["sums"], size),
        "rows": sweep.facts.n_rows,
    }
    if directions:
        reply["diagonal"] = totals["diagonal"][:, :size]
    if pairs:
        reply["grams"] = np.ascontiguousarray(totals["grams"][:, :size, :size])
    return reply


def hessian_vector(asked: Asked[OutputsHessianVector]) -> Totals:
    """Multiply a vector by the Hessian at a point."""
    request, sweep = asked.request, _Sweep.of(asked)
    read, layout = sweep.update_margins([request.at]), sweep.layout()
    V, token = layout.laid_out(request.V), request.at[0]

    def work(pieces: list[Piece]) -> Totals:
        sums = sweep.backend.zeros(*layout.shape)
        for i, lo, hi in pieces:
            margin = sweep.known[i].margins[token]
            layout.hessian_vector(sweep.rows(i), margin, V, lo, hi, sums)
        return {"sums": sums}

    totals = sweep.backend.to_host(sweep.each(work, None))
    product = layout.result(totals["sums"], request.V.shape[1])
    return {"product": product, "rows": sweep.facts.n_rows + read}


def along(asked: Asked[OutputsAlong]) -> Totals:
    """Add up losses of combinations of evaluated points, with shifts of margins."""
    request, sweep = asked.request, _Sweep.of(asked)
    read, zeros = sweep.update_margins(request.points), sweep.backend.zeros
    kernels = outputs if sweep.backend is host else sweep.backend.outputs
    tokens = [token for token, _ in request.points]
    m, K = request.shifts.shape

    def work(pieces: list[Piece]) -> Totals:
        out = zeros(m), zeros(m, K), zeros(m, K, K)
        for i, lo, hi in pieces:
            Z = tuple(sweep.known[i].margins[token] for token in tokens)
            codes, weight = sweep.known[i].codes, sweep.caches[i].weight
            kernels.along(codes, weight, Z, request.coefficients, request.shifts, lo, hi, out)
        return dict(zip(("values", "slopes", "hessians"), out, strict=True))

    return {**sweep.backend.to_host(sweep.each(work, None)), "rows": read}
