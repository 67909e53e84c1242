"""The sweeps over rows of any storage in host memory for losses of one margin: X is read once.

Each call takes a run of rows [start, stop) and adds to float64 outputs that belong to the calling
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daskglm.kernels.borrowed import borrowed, run_of
from daskglm.kernels.margins import is_zero, total_of
from daskglm.kernels.storages import (
    add_by_code,
    add_moments,
    add_outer,
    add_squares,
    backward,
    backward_where,
    count_signs,
    exact_runs,
    finish_gram,
    flush,
    forward,
    forward_where,
    gathered,
    prepared,
    room,
    run_rows,
    spread,
    squared_norms,
    tile_rows,
)
from daskglm.losses.dispatch import ROOM, tile_at
from daskglm.system.compiled import compiled

__all__ = [
    "add_by_code",
    "add_moments",
    "count_signs",
    "evaluate",
    "evaluate_exactly",
    "exactly",
    "hessian_vector",
    "margins",
    "spread",
    "squared_norms",
]

# Where a prefetch of the next rows finds none.
NOWHERE = 1 << 40


@compiled(nogil=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Set z[start:stop] to X w + b of these rows."""
    wide = prepared(X, w)
    forward(X, wide, b, start, stop, z[start:stop], NOWHERE)


@compiled(nogil=True, error_model="numpy")
def evaluate(law, rows, w, b, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the loss over [start, stop), with its gradient and, if asked, Hessian or its diagonal.

    `rows` is (X, y, weight, offset), `out` (z, curvature, sums, diagonal, gram); see `records`.
    """
    X, y, weight, offset = borrowed(rows)
    z, curvature, sums, diagonal, gram = borrowed(out)
    d = len(sums) - 2
    formed = gram.shape[0] > 0
    many = tile_rows(X, d, stop - start, formed)
    # most fits begin at zero, where rows have no product
    at_zero = is_zero(w)
    kept, curved = len(z) > 0, len(curvature) > 0
    slope, within = np.empty(many), np.empty(ROOM * many)
    here = np.empty(0 if kept else many)
    there = np.empty(0 if curved else many)
    wide, gradient = prepared(X, w), gathered(X, d, sums)
    work = room(X, many, stop - start, formed)
    total, slopes, added = 0.0, 0.0, 0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        if added >= run_rows(X):
            flush(X, d, gradient, sums)
            sums[d] += slopes
            slopes, added = 0.0, 0
        added += n
        s = run_of(slope, 0, n)
        m = run_of(z, lo, hi) if kept else run_of(here, 0, n)
        c = run_of(curvature, lo, hi) if curved else run_of(there, 0, n)
        if at_zero:
            m[:] = b
        else:
            forward(X, borrowed(wide), b, lo, hi, m, hi)
        of = run_of(weight, lo, hi), run_of(offset, lo, hi)
        total += tile_at(law, run_of(y, lo, hi), m, *of, s, c, borrowed(within))
        backward(X, s, lo, n, borrowed(gradient), hi)
        slopes += s.sum()
        if len(diagonal) > 0:
            add_squares(X, c, lo, n, diagonal)
            diagonal[d] += total_of(c)
        if formed:
            add_outer(X, c, lo, n, d, work, gram)
    flush(X, d, gradient, sums)
    if formed:
        finish_gram(X, d, work, gram)
    sums[d] += slopes
    sums[d + 1] += total


def evaluate_exactly(law, rows, w, b, start, stop, out):  # type: ignore[no-untyped-def]
    """Do the same with a Gram in float64: dense float32 rows are converted, some at a time."""
    exactly(lambda *given: evaluate(law, given[0], w, b, *given[1:]), rows, start, stop, out, 2)


def exactly(
    sweep: Callable[..., None], rows: tuple[Any, ...], start: int, stop: int, out: Any, of_rows: int
) -> None:
    """Call a sweep of (rows, start, stop, out) with float64 rows.

    The first `of_rows` entries of `out` have a number for each row, or none.
    """
    runs = exact_runs(rows[0], start, stop)
    if runs is None:
        sweep(rows, start, stop, out)
        return
    for run, part in runs:
        beside = tuple(values[run] if len(values) else values for values in rows[1:])
        here = tuple(values[run] if len(values) else values for values in out[:of_rows])
        sweep((part, *beside), 0, run.stop - run.start, (*here, *out[of_rows:]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) of [start, stop) to `out` (d + 1,) in one pass; return v' of it."""
    d = len(v)
    many = tile_rows(X, d, stop - start, False)
    u = np.empty(many)
    wide, product = prepared(X, v), gathered(X, d, out)
    total, constant = 0.0, 0.0
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        c = run_of(curvature, lo, hi)
        forward_where(borrowed(X), borrowed(wide), vb, lo, hi, borrowed(c), borrowed(u), hi)
        for t in range(hi - lo):
            cu = c[t] * u[t]
            total += cu * u[t]
            constant += cu
            u[t] = cu
        backward_where(borrowed(X), borrowed(u), lo, hi - lo, borrowed(product), hi)
    flush(X, d, product, out)
    out[d] += constant
    return total
