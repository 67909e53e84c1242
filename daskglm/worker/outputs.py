"""Answer requests about losses of K margins beside the rows, by the kernels of `output_layouts`.

A block caches the class of each row and the margins of two points, K numbers a row; both are
rebuilt from the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.matrices import pairs_of
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Totals
from daskglm.kernels import cpu as host
from daskglm.losses.table import loss_of
from daskglm.worker import margins
from daskglm.worker.asked import Asked
from daskglm.worker.class_rows import ClassRows
from daskglm.worker.output_layouts import OnDevice, OnHost, Outputs, Rows, of_host
from daskglm.worker.pieces import Piece

NO_ROWS = np.empty((0, 0))


class _Sweep:
    """The rows of a request about a loss of K margins, and how W is laid out for them."""

    def __init__(self, asked: Asked[Any]) -> None:
        self.asked, self.caches, self.K = asked, asked.caches, len(asked.problem.classes)
        self.known = [
            ClassRows.of(cache, block, asked.problem.classes, (self.K,))
            for cache, block in zip(asked.caches, asked.blocks, strict=True)
        ]

    def layout(self, *, columns: bool = False) -> Outputs:
        """Return how W is laid out; `columns`: for Grams, which are of tiles of these."""
        if self.asked.backend is not host:
            return OnDevice(self.asked.n_features, self.K, self.asked.backend)
        loss = loss_of(self.asked.problem.loss)
        assert loss.of_margins is not None
        return OnHost(of_host(self.asked.facts, self.K, columns=columns), loss.of_margins(loss.p1))

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

        return margins.update(points, self.known, filled, self.asked.each)


def evaluate(asked: Asked[Evaluate]) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    request, sweep = asked.request, _Sweep(asked)
    K, size = request.w.shape
    layout, zeros = sweep.layout(columns=request.gram), asked.backend.zeros
    W, width = layout.laid_out(request.w), layout.width
    basis = np.eye(K) if request.basis is None else request.basis
    basis = basis if request.diagonal else np.empty((K, 0))
    of_grams = np.stack([np.arange(K)] * 2 if request.by_class else pairs_of(K))
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

    totals = asked.backend.to_host(asked.add_up(work, 8 * pairs * width * width))
    reply = {
        "value": totals["value"][0],
        "gradient": layout.result(totals["sums"], size),
        "rows": asked.facts.n_rows,
    }
    if directions:
        reply["diagonal"] = totals["diagonal"][:, :size]
    if pairs:
        reply["grams"] = np.ascontiguousarray(totals["grams"][:, :size, :size])
    return reply


def hessian_vector(asked: Asked[HessianVector]) -> Totals:
    """Multiply a vector by the Hessian at a point."""
    request, sweep = asked.request, _Sweep(asked)
    read, layout = sweep.update_margins([request.at]), sweep.layout()
    V, token = layout.laid_out(request.v), request.at[0]

    def work(pieces: list[Piece]) -> Totals:
        sums = asked.backend.zeros(*layout.shape)
        for i, lo, hi in pieces:
            margin = sweep.known[i].margins[token]
            layout.hessian_vector(sweep.rows(i), margin, V, lo, hi, sums)
        return {"sums": sums}

    totals = asked.backend.to_host(asked.each(work))
    product = layout.result(totals["sums"], request.v.shape[1])
    return {"product": product, "rows": asked.facts.n_rows + read}


def along(asked: Asked[EvaluateAlong]) -> Totals:
    """Add up losses of combinations of evaluated points, with shifts of margins."""
    request, sweep = asked.request, _Sweep(asked)
    read, zeros = sweep.update_margins(request.points), asked.backend.zeros
    layout, mixes = sweep.layout(), (request.coefficients, request.constants)
    tokens = [token for token, _ in request.points]
    assert request.constants is not None
    m, K = request.constants.shape

    def work(pieces: list[Piece]) -> Totals:
        out = zeros(m), zeros(m, K), zeros(m, K, K)
        for i, lo, hi in pieces:
            Z = tuple(sweep.known[i].margins[token] for token in tokens)
            layout.along(sweep.rows(i), Z, mixes, lo, hi, out)
        return dict(zip(("values", "slopes", "hessians"), out, strict=True))

    return {**asked.backend.to_host(asked.each(work)), "rows": read}
