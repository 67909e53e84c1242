"""Answer requests about losses of one margin beside the rows, by the kernels of their storage.

A block caches the margins of some points and the curvatures of one; both are rebuilt from requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.level_blocks import LevelPairs, PairKeys, couples
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Totals
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side
from daskglm.kernels.coded_block import eliminating, pair_keys
from daskglm.kernels.records import NOTHING
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.margins import Fill, update
from daskglm.worker.pieces import Piece


def evaluate(asked: Asked[Evaluate]) -> Totals:
    """Add up value, gradient and what else of the Hessian is asked for."""
    request, caches, backend = asked.request, asked.caches, asked.backend
    kind = "fisher" if request.expected else "observed"
    law = law_of(asked.problem.loss, compiled=backend is host, curvature=kind)
    d, size, zeros = asked.n_features, len(request.w), backend.zeros
    w, b = backend.coefficients(request.w, d)
    keep, curved = (request.keep, request.curved) if backend is host else (True, True)
    uncurved = request.gram and not request.exact
    bare = [
        not curved or (uncurved and backend.gram_without_curvature(cache.rows)) for cache in caches
    ]
    for i, cache in enumerate(caches if keep else []):
        # else it is read anew if need be
        cache.reserve(request.token, [request.beside] if cache.margins.kept > 1 else [])
        if not bare[i]:
            cache.curvature_of = request.token
    rows, shape = _of_gram(asked)

    def work(pieces: list[Piece]) -> Totals:
        sums = zeros(d + 2)
        diagonal = zeros(d + 1 if request.diagonal else 0)
        gram = zeros(*shape)
        for i, lo, hi in pieces:
            m = caches[i]
            z = m.margins[request.token] if keep else NOTHING
            curvature = m.curvature if keep and not bare[i] else NOTHING
            evaluate = m.kernels.evaluate_exactly if request.exact else m.kernels.evaluate
            evaluate(
                law, (rows[i], *m.data[1:]), w, b, lo, hi, (z, curvature, sums, diagonal, gram)
            )
        return {"sums": sums, "diagonal": diagonal, "gram": gram}

    totals = asked.add_up(work, 8 * shape[0] * shape[1])
    sums = totals["sums"]
    reply = {"value": sums[d + 1], "gradient": sums[:size], "rows": asked.facts.n_rows}
    if request.diagonal:
        reply["diagonal"] = totals["diagonal"][:size]
    if request.gram:
        gram = totals["gram"]
        reply["gram"] = gram if request.blocks else backend.xp.ascontiguousarray(gram[:size, :size])
    return reply


def _of_gram(asked: Asked[Evaluate]) -> tuple[list[Any], tuple[int, int]]:
    """Return the rows of all blocks as their Gram is summed, and the shape of that.

    Once levels have been apart, rows stay so for points without a Gram, too: that costs no time,
    and kernels are compiled for one kind of rows.
    """
    request, caches = asked.request, asked.caches
    if not request.gram:
        return [cache.rows if cache.apart is None else cache.apart for cache in caches], (0, 0)
    if request.blocks is None:
        side = gram_side(asked.n_features)
        return [cache.rows for cache in caches], (side, side)
    for cache in caches:
        cache.apart = eliminating(cache.rows, request.blocks)
    return [cache.apart for cache in caches], request.blocks.shape_of_gram(asked.n_features)


def level_pairs(asked: Asked[LevelPairs]) -> Totals:
    """Find the pairs of levels that occur."""
    factors, caches = asked.request.factors, asked.caches

    def work(pieces: list[Piece]) -> Totals:
        found = PairKeys(tuple(np.empty(0, np.int64) for _ in couples(factors)))
        for i, lo, hi in pieces:
            cache = caches[i]
            found = found + pair_keys(cache.rows, cache.given_weight, factors, lo, hi)
        return {"pairs": found}

    return {**asked.each(work), "rows": asked.facts.n_rows}


def hessian_vector(asked: Asked[HessianVector]) -> Totals:
    """Multiply a vector by the Hessian at a point."""
    request, caches, d = asked.request, asked.caches, asked.n_features
    v, b = asked.backend.coefficients(request.v, d)
    read = update_curvature(asked, request.at)

    def work(pieces: list[Piece]) -> Totals:
        out = asked.backend.zeros(d + 1)
        for i, lo, hi in pieces:
            m = caches[i]
            m.kernels.hessian_vector(m.rows, m.curvature, v, b, lo, hi, out)
        return {"product": out}

    product = asked.each(work)["product"]
    return {"product": product[: len(request.v)], "rows": asked.facts.n_rows + read}


def along(asked: Asked[EvaluateAlong]) -> Totals:
    """Add up losses of combinations of evaluated points, with a constant each."""
    law, request, caches, backend = asked.law, asked.request, asked.caches, asked.backend
    read = update_margins(asked, request.points)
    tokens = [token for token, _ in request.points]
    r, m = len(request.coefficients), len(tokens) + 1
    constants = np.zeros((r, 1)) if request.constants is None else request.constants
    coefficients = np.concatenate([request.coefficients, constants], axis=1)

    def work(pieces: list[Piece]) -> Totals:
        out = np.zeros(r), np.zeros((r, m)), np.zeros((r, m, m))
        for i, lo, hi in pieces:
            cache = caches[i]
            of = cache.y, cache.weight, cache.offset
            Z = tuple(cache.margins[t] for t in tokens)
            backend.margins.along(law, *of, Z, coefficients, lo, hi, out)
        values, slopes, hessians = out
        return {"values": values, "slopes": slopes, "hessians": hessians}

    return {**asked.each(work), "rows": read}


def update_curvature(asked: Asked[Any], at: tuple[int, Any]) -> int:
    """Cache the curvatures of a point in all blocks; return the number of rows read for it."""
    law, caches, (token, _) = asked.law, asked.caches, at
    behind = {i for i, cache in enumerate(caches) if cache.curvature_of != token}
    if not behind:
        return 0
    read = update_margins(asked, [at])

    def work(pieces: list[Piece]) -> Totals:
        for i, lo, hi in pieces:
            if i in behind:
                m = caches[i]
                z = m.margins[token]
                asked.backend.margins.curvatures(law, *m.data[1:], z, lo, hi, m.curvature)
        return {}

    asked.each(work)
    for i in behind:
        caches[i].curvature_of = token
    return read


def update_margins(asked: Asked[Any], points: Sequence[tuple[int, np.ndarray]]) -> int:
    """Cache the margins of all points in all blocks; return the number of rows read for it."""
    caches = asked.caches

    def filled(at: np.ndarray) -> Fill:
        w, b = asked.backend.coefficients(at, asked.n_features)
        return lambda i, lo, hi, out: caches[i].kernels.margins(caches[i].rows, w, b, lo, hi, out)

    return update(points, caches, filled, asked.each)
