"""CPU kernels for the ordinal loss on dense rows: `dense` with thresholds between classes."""

from __future__ import annotations

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels.dense import (
    EXACT_BYTES,
    _add,
    _backward,
    _forward,
    _padded,
    _squares,
    _tile_rows,
    _vectors,
)
from daskglm.kernels.gram import add_gram, gram_rows, scratch
from daskglm.kernels.ordinal import NUMBERS, add_by_threshold, join, products, row_terms
from daskglm.kernels.records import read_only
from daskglm.kernels.simd import LANES
from daskglm.system.compiled import compiled


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    last = len(cross) - 1
    for i in range(n):
        x, k = X[lo + i], np.int64(codes[lo + i])
        if k + 1 < last:
            row, c = cross[k + 1], of[1, i]
            for j in range(len(x)):
                row[j] -= c * x[j]
        if k > 0:
            row, c = cross[k], of[3, i]
            for j in range(len(x)):
                row[j] -= c * x[j]


@compiled(nogil=True, error_model="numpy")
def evaluate(rows, w, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the terms of the loss over [start, stop), with derivatives; X is read once.

    Parameters
    ----------
    rows : (X, codes, weight, offset)
        The class of each row, from 0; weights and offsets (n,), or empty.
    w : (d,) array
    edges : (2, K + 1) array, (4, K + 1) for links other than the logit
        See `ordinal`.
    out : (z, sums, slopes, curvatures, diagonal, gram, cross)
        - z (n,) gets the margins; empty: not wanted;
        - sums (d + 1,) is added the gradient by w, and the value;
        - slopes and curvatures (K + 1,) are added derivatives by thresholds; for other links
          curvatures are twice as long;
        - diagonal (d,) is added that of the Hessian by w; empty: not wanted;
        - gram, of side `gram_side(d)`, is added that Hessian; empty: not wanted;
        - cross (K + 1, d), with it, is added second derivatives by w and thresholds.
    """
    X, codes, weight, offset = rows
    z, sums, slopes, curvatures, diagonal, gram, cross = out
    d = X.shape[1]
    wanted = gram.shape[0] > 0
    many = gram_rows(X) if wanted else _tile_rows(X)
    of, here = np.empty((NUMBERS, many)), np.empty(many)
    wide, gradient = _padded(w), np.zeros(_vectors(d) * LANES)
    work = scratch(X, many if wanted else 0)
    slope, curvature = np.zeros(len(slopes)), np.zeros(len(curvatures))
    total, added = 0.0, 0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        # long sums in runs: their rounding error grows with the length of a run
        if added >= SUMMED_ROWS:
            _add(gradient, d, sums)
            _add(slope, len(slope), slopes)
            _add(curvature, len(curvature), curvatures)
            gradient[:] = 0.0
            slope[:] = 0.0
            curvature[:] = 0.0
            added = 0
        added += n
        m = z[lo:hi] if len(z) > 0 else here[:n]
        _forward(X, wide, 0.0, lo, hi, m, hi)
        total += row_terms(codes, weight, offset, m, edges, lo, n, of)
        add_by_threshold(codes, lo, n, of, slope, curvature)
        if wanted:
            _add_cross(X, codes, of, lo, n, cross)
        join(of, n)
        _backward(X, of[0], lo, n, gradient, hi)
        if len(diagonal) > 0:
            _squares(X, of[1], lo, n, diagonal)
        if wanted:
            add_gram(X, of[1], lo, n, work, gram)
    _add(gradient, d, sums)
    _add(slope, len(slope), slopes)
    _add(curvature, len(curvature), curvatures)
    sums[d] += total


def evaluate_exactly(rows, w, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Do the same with a Gram summed in float64: float32 rows are converted, some at a time."""
    X = rows[0]
    if X.dtype == np.float64:
        evaluate(rows, w, edges, start, stop, out)
        return
    many = max(EXACT_BYTES // (8 * max(X.shape[1], 1)), 1)
    for lo in range(start, stop, many):
        run = slice(lo, min(lo + many, stop))
        part = X[run].astype(np.float64)
        codes, weight, offset, z = (
            values[run] if len(values) else values for values in (*rows[1:], out[0])
        )
        beside = codes, weight, offset
        evaluate((read_only(part), *beside), w, edges, 0, len(part), (z, *out[1:]))


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, z, v, shifts, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add the Hessian at the margins z (n,) times (v, shifts) to `out`, (d,) and (K + 1,)."""
    X, codes, weight, offset = rows
    product, by = out
    d, many = X.shape[1], _tile_rows(X)
    of, u = np.empty((NUMBERS, many)), np.empty(many)
    wide, sums = _padded(v), np.zeros(_vectors(d) * LANES)
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        _forward(X, wide, 0.0, lo, hi, u, hi)
        row_terms(codes, weight, offset, z[lo:hi], edges, lo, n, of)
        products(codes, of, u, shifts, lo, n, by)
        _backward(X, u, lo, n, sums, hi)
    _add(sums, d, product)
