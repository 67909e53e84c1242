"""The sweeps over rows of any storage in host memory for the softmax: K margins a row.

Rows are taken in tiles of columns, or stay sparse: `work` tells, as `tiles` says.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.copies import copy
from daskglm.kernels.outputs import (
    direction_curvature,
    pair_curvature,
    probabilities,
    softmax,
    targets_of,
    times_hessian,
)
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
def evaluate(rows, W, K, work, order, basis, pairs, like, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the softmax loss over [start, stop), with its gradient and parts of its Hessian.

    Parameters
    ----------
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
        Pairs of classes (j, k) of `grams`: weights are p_j p_k, and p_j (1 - p_j) if they are one.
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
        value[0] += softmax(z, K, padded, of, s, terms, slopes)
        backward(work, X, d, slopes, K, here, (0, padded), sums)
        for a in range(len(diagonal)):
            direction_curvature(z, K, basis[:, a], s, padded, terms, c)
            add_squares(work, X, d, c, here, diagonal[a])
        for q in range(len(grams)):
            pair_curvature(z[pairs[0, q]], z[pairs[1, q]], pairs[0, q] == pairs[1, q], s, padded, c)
            add_gram(work, d, c, (0, padded), space, grams[q])


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, margin, V, K, work, order, start, stop, sums):  # type: ignore[no-untyped-def]
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
        probabilities(p, K, padded, terms)
        times_hessian(p, K, padded, s, terms, u)
        backward(work, X, d, u, K, here, (0, padded), sums)
