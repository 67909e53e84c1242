"""The ordinal loss on rows of a device, under the names of `kernels.sweep_thresholds`; see there.

Vectors and all sums are device arrays, but `edges` of `along`, coefficients and combinations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels import gram_side
from daskglm.kernels.cuda import several
from daskglm.kernels.cuda.launch import pointer

# Float64 numbers of a row beside its tile: four of its terms, and a few made of them.
BESIDE = 8


def evaluate(
    rows: tuple[Any, Any, Any, Any],
    w: Any,
    edges: Any,
    start: int,
    stop: int,
    out: tuple[Any, ...],
    *,
    exact: bool = False,
) -> None:
    """Add up the logistic terms over [start, stop), with derivatives.

    `edges` is (2, K + 1). What is wanted of `out` is as `kernels.sweep_thresholds` has it.
    """
    X, codes, weight, offset = rows
    z, sums, slopes, curvatures, diagonal, gram, cross = out
    d, K, side = len(w), edges.shape[1] - 1, gram_side(len(w))
    W = _laid_out(w, side)
    each = several.width_of(X, side) + BESIDE + K * (2 if gram.size else 1)
    for lo, hi, part in several.tiles(X, start, stop, each):
        tile, beside = several.tile_of(part, side), _beside(codes, weight, offset, lo, hi)
        margin = tile.margins(W)[0]
        if z.size:
            z[lo:hi] = margin
        of = _terms(margin, *beside, edges, sums[d:])
        members = _members(beside[0], K)
        _add_by_threshold(members, of, slopes, curvatures)
        _add_features(tile.add_products, of[0] + of[2], side, sums[:d])
        curvature = of[1] + of[3]
        if diagonal.size:
            _add_features(tile.add_squares, curvature, side, diagonal)
        if gram.size:
            several.add_curved_gram(part, curvature, gram, exact=exact)
            crossed = cp.zeros((K + 1, side))
            tile.add_products(_by_threshold(members, of[1], of[3]), crossed)
            cross -= crossed[:, :d]


evaluate_exactly = functools.partial(evaluate, exact=True)


def hessian_vector(
    rows: tuple[Any, Any, Any, Any],
    z: Any,
    v: Any,
    shifts: Any,
    edges: Any,
    start: int,
    stop: int,
    out: tuple[Any, Any],
) -> None:
    """Add the Hessian at the margins z (n,) times (v, shifts) to `out`, (d,) and (K + 1,)."""
    X, codes, weight, offset = rows
    product, by = out
    K, side = edges.shape[1] - 1, gram_side(len(v))
    V = _laid_out(v, side)
    each = several.width_of(X, side) + BESIDE + K
    for lo, hi, part in several.tiles(X, start, stop, each):
        tile, beside = several.tile_of(part, side), _beside(codes, weight, offset, lo, hi)
        of = _terms(z[lo:hi], *beside, edges, None)
        u, k = tile.margins(V)[0], beside[0]
        upper, lower = of[1] * (u - shifts[k + 1]), of[3] * (u - shifts[k])
        members = _members(k, K)
        by[1:] -= members @ upper
        by[:-1] -= members @ lower
        _add_features(tile.add_products, upper + lower, side, product)


def along(
    codes: Any,
    weight: Any,
    offset: Any,
    Z: tuple[Any, ...],
    coefficients: np.ndarray,
    edges: np.ndarray,
    start: int,
    stop: int,
    out: tuple[Any, Any, Any],
) -> None:
    """Add up the terms at combinations of kept margins; see `kernels.ordinal.along`."""
    values, slopes, curvatures = out
    K = edges.shape[2] - 1
    there = cp.asarray(np.ascontiguousarray(edges))
    for lo, hi in several.spans(start, stop, BESIDE + K):
        beside = _beside(codes, weight, offset, lo, hi)
        members = _members(beside[0], K)
        for r in range(len(edges)):
            z = cp.zeros(hi - lo)
            for c, kept in zip(coefficients[r].tolist(), Z, strict=True):
                if c != 0.0:  # margins far out may be infinite
                    z += c * kept[lo:hi]
            of = _terms(z, *beside, there[r], values[r : r + 1])
            _add_by_threshold(members, of, slopes[r], curvatures[r])


def _laid_out(w: Any, side: int) -> Any:
    """Return w (d,) as a single row of `side`, without an intercept."""
    out = cp.zeros((1, side))
    out[0, : len(w)] = w
    return out


def _add_features(add: Callable[[Any, Any], None], r: Any, side: int, out: Any) -> None:
    """Add what a tile makes of one vector r (n,) to `out` (d,), without the intercept."""
    sums = cp.zeros((1, side))
    add(r[None, :], sums)
    out += sums[0, : len(out)]


def _beside(codes: Any, weight: Any, offset: Any, lo: int, hi: int) -> tuple[Any, Any, Any]:
    """Classes, weights and offsets of some rows; None where there are none."""
    of_weight, of_offset = (several.part_of(values, lo, hi) for values in (weight, offset))
    return codes[lo:hi], of_weight, of_offset


def _terms(z: Any, codes: Any, weight: Any, offset: Any, edges: Any, value: Any) -> Any:
    """Return slopes and curvatures (4, n) of both terms, and add their sum to `value` (1,)."""
    of = cp.empty((4, len(z)))
    args = z, pointer(offset), codes, pointer(weight), edges, of
    several.each_row("ordinal_rows", len(z), edges.shape[1] - 1, weight, args, value)
    return of


def _members(codes: Any, K: int) -> Any:
    """Return (K, n) of ones where a row is of a class, else zeros.

    Sums by class are products with it: of the same order each time, unlike those by atomics.
    """
    return (codes[None, :] == cp.arange(K)[:, None]).astype(np.float64)


def _add_by_threshold(members: Any, of: Any, slopes: Any, curvatures: Any) -> None:
    """Add derivatives by thresholds (K + 1,), from what `_terms` has made."""
    sums = members @ of.T
    slopes[1:] -= sums[:, 0]
    slopes[:-1] -= sums[:, 2]
    curvatures[1:] += sums[:, 1]
    curvatures[:-1] += sums[:, 3]


def _by_threshold(members: Any, upper: Any, lower: Any) -> Any:
    """Return (K + 1, n) of what each row's terms add to thresholds; none at both ends."""
    found = cp.zeros((len(members) + 1, len(upper)))
    found[1:-1] += members[:-1] * upper
    found[1:-1] += members[1:] * lower
    return found
