"""The sweeps over rows of any storage in host memory for losses of K margins a row.

Rows are taken in tiles of columns, or stay sparse: `work` tells, as `tiles` says.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.class_losses import (
    direction_curvature,
    losses,
    pair_curvature,
    prepared,
    times_hessian,
)
from daskglm.kernels.copies import copy
from daskglm.kernels.sweep import NOWHERE
from daskglm.kernels.tiles import (
    add_gram,
    add_squares,
    backward,
    fill,
    forward,
    gram_room,
    places,
    room,
)
from daskglm.system.compiled import compiled

FAST = {"contract", "reassoc", "nsz"}
# Rows of a tile of margins alone that are worked on at once.
TILE_ROWS = 512


@compiled(nogil=True)
def targets_of(codes, weight, start, n, padded, of, s):  # type: ignore[no-untyped-def]
    """Copy classes and weights of the n rows from `start` on; rows of padding have weight zero."""
    weighted = len(weight) > 0
    for t in range(n):
        of[t] = codes[start + t]
        s[t] = weight[start + t] if weighted else 1.0
    for t in range(n, padded):
        of[t] = 0
        s[t] = 0.0


@within_callers()
def _begin(work, X, d, lo, n, order):  # type: ignore[no-untyped-def]
    """Make a tile of the n rows from `lo` on, the last one repeated up to whole turns.

    Returns the numbers of its rows.
    """
    padded = places(work, n)
    for t in range(padded):
        order[t] = lo + min(t, n - 1)
    fill(work, X, d, order[:padded], lo + n)
    return order[:padded]


@within_callers()
def _add_offsets(offset, lo, n, K, z):  # type: ignore[no-untyped-def]
    """Add those of the n rows from `lo` on, if there are any."""
    if len(offset) > 0:
        for k in range(K):
            for t in range(n):
                z[k, t] += offset[k, lo + t]


@compiled(nogil=True)
def margins(rows, W, K, work, order, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the margins of the rows [start, stop) to `out` (K, n).

    `rows` are (X, d, offset); of the others see `evaluate`.
    """
    X, d, offset = rows
    many = len(order)
    z, _ = room(work, W, many)
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        here = _begin(work, X, d, lo, n, order)
        forward(work, X, d, W, len(z), here, (0, len(here)), z, NOWHERE)
        _add_offsets(offset, lo, n, K, z)
        for k in range(K):
            copy(z[k, :n], out[k, lo : lo + n])


@compiled(nogil=True, error_model="numpy")
def evaluate(law, rows, W, K, work, order, basis, pairs, like, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up a loss over [start, stop), with its gradient and parts of its Hessian.

    Parameters
    ----------
    law : named tuple
        Of the loss; see `class_losses`.
    rows : (X, d, codes, weight, offset)
        The class of each row; weights (n,) or empty; what is added to margins, (K, n) or (0, 0).
    W, work : arrays
        As tiles of this kind have them; see `tiles`.
    K : int
        Classes.
    order : array of int
        Overwritten. As long as there are rows at a time, whole turns of tiles of columns; of the
        type in which `sweep_many` takes numbers of rows, so that both share what is compiled.
    basis : (K, r) array
        Directions of `diagonal`; empty: not wanted.
    pairs : (2, q) array of int
        Pairs of classes (j, k) of `grams`: weights are their `pair_curvature`.
    like : array
        Empty, of the dtype in which products of Grams are summed over a tile.
    out : (margins, sums, value, diagonal, grams)
        - margins (K, n) are set; empty: not wanted;
        - sums, like W, are added slopes' [X 1];
        - value (1,) is added the loss;
        - diagonal (r, width) is added the squares; empty: not wanted;
        - grams (q, side, side) are added the Grams of the pairs in their upper triangles; empty:
          not wanted.
    """
    X, d, codes, weight, offset = rows
    kept, sums, value, diagonal, grams = out
    many = len(order)
    z, slopes = room(work, W, many)
    of = np.empty(many, np.int64)
    s, c, terms = np.empty(many), np.empty(many), np.empty((5, many))
    space = gram_room(work, W, many, like, len(grams) > 0)
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        here = _begin(work, X, d, lo, n, order)
        padded = len(here)
        forward(work, X, d, W, len(z), here, (0, padded), z, NOWHERE)
        _add_offsets(offset, lo, n, K, z)
        if len(kept) > 0:
            for k in range(K):
                copy(z[k, :n], kept[k, lo : lo + n])
        targets_of(codes, weight, lo, n, padded, of, s)
        value[0] += losses(law, z, K, padded, of, s, terms, slopes)
        backward(work, X, d, slopes, K, here, (0, padded), sums)
        for a in range(len(diagonal)):
            direction_curvature(law, z, K, basis[:, a], s, padded, terms, c)
            add_squares(work, X, d, c, here, diagonal[a])
        for q in range(len(grams)):
            j, k = pairs[0, q], pairs[1, q]
            pair_curvature(law, z[j], z[k], j == k, s, padded, c)
            add_gram(work, d, c, (0, padded), space, grams[q])


@compiled(nogil=True, error_model="numpy")
def hessian_vector(law, rows, margin, V, K, work, order, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add the Hessian of the loss at `margin` (K, n) times V to `sums`; both are as W is."""
    X, d, codes, weight = rows
    many = len(order)
    p, u = room(work, V, many)
    of = np.empty(many, np.int64)
    s, terms = np.empty(many), np.empty((5, many))
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        here = _begin(work, X, d, lo, n, order)
        padded = len(here)
        forward(work, X, d, V, len(p), here, (0, padded), u, NOWHERE)
        for k in range(K):
            copy(margin[k, lo : lo + n], p[k])
        p[:K, n:padded] = 0.0
        targets_of(codes, weight, lo, n, padded, of, s)
        prepared(law, p, K, padded, terms)
        times_hessian(law, p, K, padded, s, terms, u)
        backward(work, X, d, u, K, here, (0, padded), sums)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _sum(a):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(a)):
        total += a[t]
    return total


@compiled(nogil=True, error_model="numpy")
def along(law, codes, weight, Z, coefficients, shifts, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the loss at combinations of cached margins plus shifts, over the rows [start, stop).

    Z is a tuple of margins (K, n); `coefficients` (m, len(Z)) and `shifts` (m, K). Adds to `out`:
    values (m,), slopes (m, K) and Hessians (m, K, K), derivatives in the shifts.
    """
    values, slopes, hessians = out
    K = shifts.shape[1]
    z = np.empty((K, TILE_ROWS))
    slope = np.empty((K, TILE_ROWS))
    work = np.empty((5, TILE_ROWS))
    of, s, c = np.empty(TILE_ROWS, np.int64), np.empty(TILE_ROWS), np.empty(TILE_ROWS)
    for lo in range(start, stop, TILE_ROWS):
        n = min(lo + TILE_ROWS, stop) - lo
        targets_of(codes, weight, lo, n, n, of, s)
        for m in range(len(values)):
            for k in range(K):
                z[k] = shifts[m, k]
                for j in range(len(Z)):
                    share, other = coefficients[m, j], Z[j][k]
                    for t in range(n):
                        z[k, t] += share * other[lo + t]
            values[m] += losses(law, z, K, n, of, s, work, slope)
            for k in range(K):
                slopes[m, k] += _sum(slope[k, :n])
                for j in range(k):
                    pair_curvature(law, z[j], z[k], False, s, n, c)
                    product = _sum(c[:n])
                    hessians[m, j, k] -= product
                    hessians[m, k, j] -= product
                    hessians[m, j, j] += product
                    hessians[m, k, k] += product
