"""The sweep over rows of any storage for the ordinal loss: `sweep` with thresholds."""

from __future__ import annotations

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels.borrowed import borrowed, run_of
from daskglm.kernels.chosen import within_callers
from daskglm.kernels.copies import add
from daskglm.kernels.ordinal import NUMBERS, add_by_threshold, join, products, row_terms
from daskglm.kernels.storages import (
    add_cross,
    add_outer,
    add_squares,
    backward,
    finish_gram,
    flush,
    forward,
    gathered,
    prepared,
    room,
    run_rows,
    tile_rows,
)
from daskglm.kernels.sweep import exactly
from daskglm.system.compiled import compiled


@within_callers()
def _move(values, out):  # type: ignore[no-untyped-def]
    """Add values to `out`, and begin them anew."""
    add(values, len(values), out)
    values[:] = 0.0


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
    X, codes, weight, offset = borrowed(rows)
    z, sums, slopes, curvatures, diagonal, gram, cross = out
    d = len(w)
    formed = gram.shape[0] > 0
    many = tile_rows(X, d, stop - start, formed)
    of, here = np.empty((NUMBERS, many)), np.empty(0 if len(z) > 0 else many)
    wide, gradient = prepared(X, w), gathered(X, d, sums)
    work = room(X, many, stop - start, formed)
    slope, curvature = np.zeros(len(slopes)), np.zeros(len(curvatures))
    total, added = 0.0, 0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        # long sums in runs: their rounding error grows with the length of a run
        if added >= max(run_rows(X), SUMMED_ROWS):
            flush(X, d, gradient, sums)
            _move(slope, slopes)
            _move(curvature, curvatures)
            added = 0
        added += n
        m = run_of(z, lo, hi) if len(z) > 0 else run_of(here, 0, n)
        forward(X, borrowed(wide), 0.0, lo, hi, m, hi)
        total += row_terms(codes, weight, offset, m, edges, lo, n, of)
        add_by_threshold(codes, lo, n, of, slope, curvature)
        if formed:
            add_cross(X, codes, of, lo, n, cross)
        join(of, n)
        backward(X, of[0], lo, n, borrowed(gradient), hi)
        if len(diagonal) > 0:
            add_squares(X, of[1], lo, n, diagonal)
        if formed:
            add_outer(X, of[1], lo, n, d, work, gram)
    flush(X, d, gradient, sums)
    if formed:
        finish_gram(X, d, work, gram)
    _move(slope, slopes)
    _move(curvature, curvatures)
    sums[d] += total


def evaluate_exactly(rows, w, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Do the same with a Gram in float64: dense float32 rows are converted, some at a time."""
    exactly(lambda *given: evaluate(given[0], w, edges, *given[1:]), rows, start, stop, out, 1)


@compiled(nogil=True, error_model="numpy")
def hessian_vector(rows, z, v, shifts, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add the Hessian at the margins z (n,) times (v, shifts) to `out`, (d,) and (K + 1,)."""
    X, codes, weight, offset = borrowed(rows)
    product, by = out
    d = len(v)
    many = tile_rows(X, d, stop - start, False)
    of, u = np.empty((NUMBERS, many)), np.empty(many)
    wide, sums = prepared(X, v), gathered(X, d, product)
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        forward(X, borrowed(wide), 0.0, lo, hi, borrowed(u), hi)
        row_terms(codes, weight, offset, run_of(z, lo, hi), edges, lo, n, borrowed(of))
        products(codes, of, u, shifts, lo, n, by)
        backward(X, borrowed(u), lo, n, borrowed(sums), hi)
    flush(X, d, sums, product)
