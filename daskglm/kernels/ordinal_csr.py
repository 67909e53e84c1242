"""CPU kernels for the ordinal loss on sparse rows, under the names of `ordinal_dense`."""

from __future__ import annotations

import numpy as np

from daskglm.kernels.csr import _backward, _forward, _rank_update, _squares, _tile_rows
from daskglm.kernels.ordinal import NUMBERS, add_by_threshold, join, products, row_terms
from daskglm.system.compiled import compiled


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    data, indices, indptr = X
    last, top = len(data) - 1, len(cross) - 1
    for i in range(n):
        k = np.int64(codes[lo + i])
        upper, lower = of[1, i], of[3, i]
        for p in range(indptr[lo + i], indptr[lo + i + 1]):
            j, x = np.uint64(indices[p]), np.float64(data[min(p, last)])
            if k + 1 < top:
                cross[k + 1, j] -= upper * x
            if k > 0:
                cross[k, j] -= lower * x


@compiled(nogil=True, error_model="numpy")
def evaluate(rows, w, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the terms of the loss over [start, stop), with derivatives; see `ordinal_dense`."""
    X, codes, weight, offset = rows
    z, sums, slopes, curvatures, diagonal, gram, cross = out
    d = len(w)
    many = _tile_rows(d, stop - start)
    of, here = np.empty((NUMBERS, many)), np.empty(0 if len(z) > 0 else many)
    total = 0.0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        m = z[lo:hi] if len(z) > 0 else here[:n]
        _forward(X, w, 0.0, lo, hi, m)
        total += row_terms(codes, weight, offset, m, edges, lo, n, of)
        add_by_threshold(codes, lo, n, of, slopes, curvatures)
        if gram.shape[0] > 0:
            _add_cross(X, codes, of, lo, n, cross)
        join(of, n)
        _backward(X, of[0], lo, n, sums)
        if len(diagonal) > 0:
            _squares(X, of[1], lo, n, diagonal)
        if gram.shape[0] > 0:
            _rank_update(X, of[1], lo, n, d, gram)
    sums[d] += total


evaluate_exactly = evaluate  # whose Gram is summed in float64


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, z, v, shifts, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add the Hessian at the margins z (n,) times (v, shifts) to `out`, (d,) and (K + 1,)."""
    X, codes, weight, offset = rows
    product, by = out
    many = _tile_rows(len(v), stop - start)
    of, u = np.empty((NUMBERS, many)), np.empty(many)
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        _forward(X, v, 0.0, lo, hi, u)
        row_terms(codes, weight, offset, z[lo:hi], edges, lo, n, of)
        products(codes, of, u, shifts, lo, n, by)
        _backward(X, u, lo, n, product)
