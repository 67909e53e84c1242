"""CPU kernel for many problems on wide sparse rows at once: a stored value meets the coefficients
of all problems.

Beside `many`, which makes tiles of sparse rows dense and so wants few features. W has a row for
each feature, so that what one stored value needs is contiguous.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.batched_dense import losses_of_tile, targets_of_tile
from daskglm.kernels.simd import fetch
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Float64 numbers of a cache line.
LINE_VALUES = LINE_BYTES // 8
FAST = {"contract", "reassoc", "nsz"}


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _row_forward(X, i, W, d, z):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    z[:] = W[d]
    for q in range(indptr[i], indptr[i + 1]):
        value = data[min(q, last)]
        w = W[np.uint64(indices[q])]
        for p in range(len(z)):
            z[p] += value * w[p]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _row_backward(X, i, slope, d, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    for q in range(indptr[i], indptr[i + 1]):
        value = data[min(q, last)]
        g = out[np.uint64(indices[q])]
        for p in range(len(slope)):
            g[p] += value * slope[p]
    for p in range(len(slope)):
        out[d, p] += slope[p]


@compiled(nogil=True, error_model="numpy")
def _ask(X, i, W):  # type: ignore[no-untyped-def]
    """Prefetch the rows of W that row i reads, before its turn.

    Without that an epoch over 50 or more problems takes twice as long.
    """
    _, indices, indptr = X
    P, flat = W.shape[1], W.reshape(W.size)
    for q in range(indptr[i], indptr[i + 1]):
        start = np.int64(indices[q]) * P
        for at in range(0, P, LINE_VALUES):
            fetch(flat, start + at)


@compiled(nogil=True, error_model="numpy")
def evaluate(law, data, tiling, problems, tiles, out):  # type: ignore[no-untyped-def]
    """Add up many problems over some tiles of sparse rows; see `batched_dense.evaluate`.

    `problems` are (W, of, roles) and `out` (sums, values, counts). W (d + 1, P) has the intercepts
    last, as the sums have.
    """
    X, d, _, _, weight, raw, signs, _ = data
    (order, bounds, rows), (W, of, roles), (sums, values, counts) = tiling, problems, out
    P = W.shape[1]
    spare = rows + 8
    z = np.empty((P, spare))
    slopes = np.zeros((P, spare))
    curvature = np.empty(rows)
    row = np.empty(P)
    Y = np.empty((max(signs.shape[0], 1), spare))
    S, R, shift = np.empty(rows), np.empty(rows), np.zeros(rows)
    for number in tiles:
        runs = bounds[number]
        n = runs[-1, 1]
        here = order[number, :n]
        targets_of_tile(here, data, Y, S, R, shift)
        weights = S[: n if len(weight) > 0 else 0], R[: n if len(raw) > 0 else 0]
        for t in range(n):
            _ask(X, here[min(t + 1, n - 1)], W)
            _row_forward(X, here[t], W, d, row)
            for p in range(P):
                z[p, t] = row[p] + shift[t]
        for p in range(P):
            found = slopes[p, :n], curvature[:n], values[:, p], counts[p]
            losses_of_tile(law, Y[of[p], :n], weights, runs, roles[p], z[p, :n], found)
        for t in range(n):
            _ask(X, here[min(t + 1, n - 1)], sums)
            for p in range(P):
                row[p] = slopes[p, t]
            _row_backward(X, here[t], row, d, sums)
