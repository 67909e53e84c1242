"""The softmax on rows of a device, under the names of `kernels.sweep_outputs`.

W is (K, side), side being `gram_side(d)`, with the intercepts in column d; sums are laid out alike.
All sums are device arrays, which the caller makes. Margins that are kept are (K, n).
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda import several
from daskglm.kernels.cuda.launch import THREADS, kernel, numbers, pointer


def margins(rows: tuple[Any, Any, Any, Any], W: Any, start: int, stop: int, out: Any) -> None:
    """Write the margins of the rows [start, stop) to `out` (K, n)."""
    X, _, _, offset = rows
    K, side = W.shape
    for lo, hi, part in several.tiles(X, start, stop, several.width_of(X, side) + K):
        z = several.tile_of(part, side).margins(W)
        out[:, lo:hi] = z + offset[:, lo:hi] if offset.size else z


def evaluate(
    rows: tuple[Any, Any, Any, Any],
    W: Any,
    basis: Any,
    pairs: np.ndarray,
    start: int,
    stop: int,
    out: tuple[Any, Any, Any, Any, Any],
    *,
    exact: bool,
) -> None:
    """Add up the softmax loss over [start, stop), with its gradient and parts of its Hessian.

    Parameters
    ----------
    rows : (X, codes, weight, offset)
        The class of each row, int32; weights (n,) or empty; what is added to margins, (K, n) or
        empty.
    W : (K, side) array
    basis : (K, r) array
        Directions of `diagonal`.
    pairs : (2, q) host array of int
        Pairs of classes (j, k) of `grams`: weights are p_j p_k, and p_j (1 - p_j) if they are one.
    exact : bool
        Whether Grams are summed in float64.
    out : (margins, sums, value, diagonal, grams)
        - margins (K, n) are set; empty: not wanted;
        - sums (K, side) are added slopes' [X 1];
        - value (1,) is added the loss;
        - diagonal (r, side) is added the squares;
        - grams (q, side, side) are added the Grams of the pairs in their upper triangles.
    """
    X, codes, weight, offset = rows
    kept, sums, value, diagonal, grams = out
    (K, side), r = W.shape, len(diagonal)
    for lo, hi, part in several.tiles(X, start, stop, several.width_of(X, side) + 4 * K + r):
        tile, s = several.tile_of(part, side), several.part_of(weight, lo, hi)
        z = tile.margins(W)
        if offset.size:
            z += offset[:, lo:hi]
        if kept.size:
            kept[:, lo:hi] = z
        p, slope = _softmax(z, codes[lo:hi], s, value)
        tile.add_products(slope, sums)
        if r:
            tile.add_squares(_along_directions(p, s, basis), diagonal)
        for q in range(len(grams)):
            j, k = pairs[:, q].tolist()
            several.add_curved_gram(part, _curvature(p, s, j, k), grams[q], exact=exact)


def hessian_vector(
    rows: tuple[Any, Any, Any, Any], margin: Any, V: Any, start: int, stop: int, sums: Any
) -> None:
    """Add the Hessian of the loss at `margin` (K, n) times V (K, side) to `sums`."""
    X, _, weight, _ = rows
    K, side = V.shape
    for lo, hi, part in several.tiles(X, start, stop, several.width_of(X, side) + 2 * K):
        tile = several.tile_of(part, side)
        u, s = tile.margins(V), several.part_of(weight, lo, hi)
        z = cp.ascontiguousarray(margin[:, lo:hi])
        function = kernel(("joint",), "softmax_product", numbers(s))
        args = (np.int64(hi - lo), np.int32(K), z, pointer(s), u)
        function((function.grid(hi - lo, THREADS),), (THREADS,), args)
        tile.add_products(u, sums)


def along(
    codes: Any,
    weight: Any,
    Z: tuple[Any, ...],
    coefficients: np.ndarray,
    shifts: np.ndarray,
    start: int,
    stop: int,
    out: tuple[Any, Any, Any],
) -> None:
    """Add up the loss at combinations of kept margins plus shifts; see `sweep_outputs.along`."""
    values, slopes, hessians = out
    K = shifts.shape[1]
    moved = cp.asarray(np.ascontiguousarray(shifts, np.float64))
    for lo, hi in several.spans(start, stop, 4 * K):
        s = several.part_of(weight, lo, hi)
        for m in range(len(shifts)):
            z = cp.zeros((K, hi - lo))
            z += moved[m][:, None]
            for c, kept in zip(coefficients[m].tolist(), Z, strict=True):
                z += c * kept[:, lo:hi]
            p, slope = _softmax(z, codes[lo:hi], s, values[m : m + 1])
            slopes[m] += slope.sum(axis=1)
            between = (p * s if s is not None else p) @ p.T
            between -= cp.diag(cp.diag(between))
            # rows of the Hessian sum to zero, so small entries of the diagonal stay exact
            hessians[m] += cp.diag(between.sum(axis=1)) - between


def _softmax(z: Any, codes: Any, weight: Any, value: Any) -> tuple[Any, Any]:
    """Return probabilities and slopes (K, n) at margins (K, n), and add the loss to `value`."""
    K, n = z.shape
    p, slope = cp.empty((K, n)), cp.empty((K, n))
    args = z, codes, pointer(weight), p, slope
    several.each_row("softmax_rows", n, K, weight, args, value)
    return p, slope


def _curvature(p: Any, weight: Any, j: int, k: int) -> Any:
    """Return s p_j p_k of each row, or s p_j (1 - p_j)."""
    other = cp.maximum(1.0 - p[j], 0.0) if j == k else p[k]
    found = p[j] * other
    return found if weight is None else found * weight


def _along_directions(p: Any, weight: Any, basis: Any) -> Any:
    """Return the variance under p of each direction, times the weight: (r, n)."""
    means = basis.T @ p
    found = cp.stack(
        [
            (p * (basis[:, a][:, None] - means[a][None, :]) ** 2).sum(axis=0)
            for a in range(basis.shape[1])
        ]
    )
    return found if weight is None else found * weight
