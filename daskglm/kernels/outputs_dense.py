"""CPU kernels for the softmax, on dense rows and on sparse rows that become dense by tiles.

A tile of rows becomes float64 columns; K margins, their softmax and the backward product take one
sweep over it. W has the intercepts in column d, and is padded with zeros to whole blocks of LEFT
rows and RIGHT columns, as `batched_dense` has it.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.batched_dense import TURN, fill_columns, round_up
from daskglm.kernels.outputs import (
    direction_curvature,
    pair_curvature,
    probabilities,
    softmax,
    targets_of,
    times_hessian,
)
from daskglm.kernels.simd import LANES, VECTOR_BYTES, numbers
from daskglm.kernels.simd_columns import (
    LEFT,
    RIGHT,
    add_triangle,
    column_products,
    combine,
    room_for,
)
from daskglm.system.compiled import compiled

FAST = {"contract", "reassoc", "nsz"}


@compiled(nogil=True)
def _load(X, d, lo, n, order, columns):  # type: ignore[no-untyped-def]
    """Fill columns with the n rows from `lo` on, and repeat the last one up to a whole turn."""
    padded = round_up(n, TURN)
    for t in range(padded):
        order[t] = lo + min(t, n - 1)
    fill_columns(X, d, order[:padded], lo + n, columns)
    return padded


@compiled(nogil=True)
def _forward(columns, count, W, padded, z):  # type: ignore[no-untyped-def]
    """Z = W columns, for whole turns of rows; z is laid out like `columns`."""
    gap, width = columns.shape[1], W.shape[1]
    of, w, to = columns.reshape(columns.size), W.reshape(W.size), z.reshape(z.size)
    for t in range(0, padded, TURN):
        for p in range(0, len(W), LEFT):
            combine(of, t, count, gap, w, p * width, width, to, p * gap + t)


@compiled(nogil=True)
def _backward(columns, count, many, padded, out):  # type: ignore[no-untyped-def]
    """Add slopes columns' to `out` (many, width); slopes are the columns from the width-th on."""
    gap, width = columns.shape[1], out.shape[1]
    of, to = columns.reshape(columns.size), out.reshape(out.size)
    for p in range(0, many, LEFT):
        for j in range(0, count, RIGHT):
            at, beside = (width + p) * gap, j * gap
            column_products(of, at, beside, padded // LANES, gap, to, p * width + j, width)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _squares(columns, count, c, n, out):  # type: ignore[no-untyped-def]
    for j in range(count):
        x, total = columns[j], 0.0
        for t in range(n):
            total += c[t] * (x[t] * x[t])
        out[j] += total


@compiled(nogil=True)
def _gram(columns, d, c, n, roots, scaled, gram):  # type: ignore[no-untyped-def]
    """Add columns diag(c) columns' to the upper triangle of `gram`, in `scaled`'s precision."""
    for t in range(n):
        roots[t] = np.sqrt(c[t])
    for j in range(d + 1):
        x, out = columns[j], scaled[j]
        for t in range(n):
            out[t] = roots[t] * roots.dtype.type(x[t])
    add_triangle(scaled, d, 0, n // numbers(scaled, VECTOR_BYTES), gram, scaled[0, :0])


@compiled(nogil=True)
def margins(X, d, W, K, many, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the margins of the rows [start, stop) to `out` (K, n), `many` rows at a time."""
    columns, z = room_for(W.shape[1], many, W), room_for(len(W), many, W)
    order = np.empty(many, np.int64)
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        padded = _load(X, d, lo, n, order, columns)
        _forward(columns, d + 1, W, padded, z)
        out[:, lo : lo + n] = z[:K, :n]


@compiled(nogil=True, error_model="numpy")
def evaluate(rows, W, K, many, basis, pairs, like, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the softmax loss over [start, stop), with its gradient and parts of its Hessian.

    Parameters
    ----------
    rows : (X, d, codes, weight)
        X dense or a CSR triple; the class of each row; weights (n,) or empty.
    W : (K or more, d + 1 or more) array
        Padded; see the module.
    many : int
        Rows at a time, a multiple of TURN.
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
    X, d, codes, weight = rows
    kept, sums, value, diagonal, grams = out
    width = W.shape[1]
    columns, z = room_for(width + len(W), many, W), room_for(len(W), many, W)
    order, of = np.empty(many, np.int64), np.empty(many, np.int64)
    s, c, work = np.empty(many), np.empty(many), np.empty((5, many))
    scaled = room_for(width if len(grams) else 0, many, like)
    roots = np.empty(many, like.dtype)
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        padded = _load(X, d, lo, n, order, columns)
        _forward(columns, d + 1, W, padded, z)
        if len(kept) > 0:
            kept[:, lo : lo + n] = z[:K, :n]
        targets_of(codes, weight, lo, n, padded, of, s)
        value[0] += softmax(z, K, padded, of, s, work, columns[width:])
        _backward(columns, d + 1, K, padded, sums)
        for a in range(len(diagonal)):
            direction_curvature(z, K, basis[:, a], s, padded, work, c)
            _squares(columns, d + 1, c, padded, diagonal[a])
        for q in range(len(grams)):
            pair_curvature(z[pairs[0, q]], z[pairs[1, q]], pairs[0, q] == pairs[1, q], s, padded, c)
            _gram(columns, d, c, padded, roots, scaled, grams[q])


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, margin, V, K, many, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add the Hessian of the loss at `margin` (K, n) times V to `sums`; both are padded as W is."""
    X, d, codes, weight = rows
    width = V.shape[1]
    columns, p = room_for(width + len(V), many, V), room_for(len(V), many, V)
    order, of = np.empty(many, np.int64), np.empty(many, np.int64)
    s, work = np.empty(many), np.empty((5, many))
    for lo in range(start, stop, many):
        n = min(lo + many, stop) - lo
        padded = _load(X, d, lo, n, order, columns)
        u = columns[width:]
        _forward(columns, d + 1, V, padded, u)
        p[:K, :n] = margin[:, lo : lo + n]
        p[:K, n:padded] = 0.0
        targets_of(codes, weight, lo, n, padded, of, s)
        probabilities(p, K, padded, work)
        times_hessian(p, K, padded, s, work, u)
        _backward(columns, d + 1, K, padded, sums)
