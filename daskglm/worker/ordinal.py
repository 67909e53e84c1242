"""Answer requests about ordered classes beside the rows, by `kernels.sweep_thresholds`.

A block caches the class of each row, the weights of the classes, and the margins of two points,
which are rebuilt from the request. Vectors of requests reach kernels of the CPU as read-only ones,
as those from other processes are, so that these are compiled once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Totals
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side, ordinal
from daskglm.kernels.ordinal import edges_of
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.ordinal import link_of_loss
from daskglm.worker.asked import Asked
from daskglm.worker.class_rows import ClassRows
from daskglm.worker.margins import Fill, update
from daskglm.worker.pieces import Piece


class _Sweep:
    """The rows of a request about ordered classes, as kernels take them."""

    def __init__(self, asked: Asked[Any]) -> None:
        problem, self.asked, self.caches = asked.problem, asked, asked.caches
        self.known = [
            ClassRows.of(cache, block, problem.classes)
            for cache, block in zip(asked.caches, asked.blocks, strict=True)
        ]
        self.link, self.K = link_of_loss(problem.loss.name), len(problem.classes)
        # weights of the classes (K,), of all blocks; zero without blocks
        self.weights: Any = sum(rows.weights for rows in self.known)
        self.kernels = ordinal if asked.backend is host else asked.backend.ordinal

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients (d,) and the thresholds (K - 1,) of a vector."""
        d = len(w) - self.K + 1
        return w[:d], w[d:]

    def there(self, values: np.ndarray) -> Any:
        """Return numbers where the rows are, read-only in host memory."""
        return self.asked.backend.xp.asarray(read_only(values))

    def edges(self, thresholds: np.ndarray) -> np.ndarray:
        """Return thresholds as kernels take them."""
        return edges_of(thresholds, self.link.code)

    def curvatures(self, *many: int) -> Any:
        """Return room for curvatures by thresholds, with the others that `_by_threshold` tells."""
        *before, last = many
        return self.asked.backend.zeros(*before, last if self.link.splits else 2 * last)

    def rows(self, i: int) -> tuple[Any, ...]:
        """Block i as kernels take it."""
        cache = self.caches[i]
        return cache.rows, self.known[i].codes, cache.weight, cache.offset

    def update_margins(self, points: Sequence[tuple[int, np.ndarray]]) -> int:
        """Cache the margins of all points in all blocks; return the number of rows read for it."""

        def filled(at: np.ndarray) -> Fill:
            features = self.split(at)[0]
            w, b = self.asked.backend.coefficients(features, len(features))
            return lambda i, lo, hi, out: self.caches[i].kernels.margins(
                self.caches[i].rows, w, b, lo, hi, out
            )

        return update(points, self.known, filled, self.asked.each)

    def reply(self, totals: Totals, rows: int) -> Totals:
        """Return sums in host memory, with the weights of the classes."""
        return {**self.asked.backend.to_host(totals), "weights": self.weights, "rows": rows}


def evaluate(asked: Asked[Evaluate]) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    request, sweep, zeros = asked.request, _Sweep(asked), asked.backend.zeros
    features, thresholds = sweep.split(request.w)
    d, K = len(features), sweep.K
    w, edges = sweep.there(features), sweep.there(sweep.edges(thresholds))
    side = gram_side(d) if request.gram else 0
    kept = [
        rows.reserve(request.token, [request.beside]) if request.keep else NOTHING
        for rows in sweep.known
    ]

    def work(pieces: list[Piece]) -> Totals:
        sums, slopes, curvatures = zeros(d + 1), zeros(K + 1), sweep.curvatures(K + 1)
        diagonal = zeros(d if request.diagonal else 0)
        gram = zeros(side, side)
        cross = zeros(*((K + 1, d) if request.gram else (0, 0)))
        for i, lo, hi in pieces:
            kernels = asked.backend.ordinal
            evaluate = kernels.evaluate_exactly if request.exact else kernels.evaluate
            out = kept[i], sums, slopes, curvatures, diagonal, gram, cross
            evaluate(sweep.rows(i), w, edges, lo, hi, out)
        by = {"slopes": slopes[1:-1], **_by_threshold(curvatures, K)}
        return {"sums": sums, "diagonal": diagonal, "gram": gram, "cross": cross, **by}

    reply = sweep.reply(asked.add_up(work, 8 * side * side), asked.facts.n_rows)
    sums, gram, cross = (reply.pop(name) for name in ("sums", "gram", "cross"))
    reply |= {"value": sums[d], "gradient": np.append(sums[:d], reply.pop("slopes"))}
    if not request.diagonal:
        del reply["diagonal"]
    if request.gram:
        reply["gram"] = np.ascontiguousarray(gram[:d, :d])
        reply["cross"] = np.ascontiguousarray(cross[1:-1].T)
    return reply


def _by_threshold(found: Any, K: int) -> Totals:
    """Return curvatures by each threshold and, where they are there, between those of a class."""
    by = {"curvatures": found[..., 1:K]}
    return by if found.shape[-1] == K + 1 else by | {"between": found[..., K + 2 : 2 * K]}


def hessian_vector(asked: Asked[HessianVector]) -> Totals:
    """Multiply a vector by the Hessian at a point."""
    request, sweep, zeros = asked.request, _Sweep(asked), asked.backend.zeros
    token, at = request.at
    features, shifts = sweep.split(request.v)
    edges = sweep.there(sweep.edges(sweep.split(at)[1]))
    v, by_edge = sweep.there(features), asked.backend.xp.asarray(edges_of(shifts)[0])
    read = sweep.update_margins([request.at])

    def work(pieces: list[Piece]) -> Totals:
        out = zeros(len(v)), zeros(sweep.K + 1)
        for i, lo, hi in pieces:
            z = sweep.known[i].margins[token]
            kernels = asked.backend.ordinal
            kernels.hessian_vector(sweep.rows(i), z, v, by_edge, edges, lo, hi, out)
        return {"features": out[0], "thresholds": out[1][1:-1]}

    reply = sweep.reply(asked.each(work), asked.facts.n_rows + read)
    reply["product"] = np.append(reply.pop("features"), reply.pop("thresholds"))
    return reply


def along(asked: Asked[EvaluateAlong]) -> Totals:
    """Add up losses of combinations of evaluated points, each with thresholds of its own."""
    request, sweep, zeros = asked.request, _Sweep(asked), asked.backend.zeros
    assert request.constants is not None
    read = sweep.update_margins(request.points)
    tokens = [token for token, _ in request.points]
    many, K = len(request.coefficients), sweep.K
    edges = read_only(np.stack([sweep.edges(thresholds) for thresholds in request.constants]))
    coefficients = read_only(request.coefficients)

    def work(pieces: list[Piece]) -> Totals:
        out = zeros(many), zeros(many, K + 1), sweep.curvatures(many, K + 1)
        for i, lo, hi in pieces:
            rows = sweep.known[i]
            Z = tuple(rows.margins[token] for token in tokens)
            beside = rows.codes, sweep.caches[i].weight, sweep.caches[i].offset
            sweep.kernels.along(*beside, Z, coefficients, edges, lo, hi, out)
        return {"values": out[0], "slopes": out[1][:, 1:-1], **_by_threshold(out[2], K)}

    return sweep.reply(asked.each(work), read)
