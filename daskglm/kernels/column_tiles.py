"""A tile of rows as float64 columns, the features and ones, for what many coefficients ask of it.

W is (outputs, d + 1): a row for each output, the intercepts in column d, both padded with zeros to
whole blocks of LEFT rows and RIGHT columns. `work` has the columns of a tile, then those of slopes;
a tile has whole turns of rows, of which the last ones may repeat others with slopes of zero. The
functions have the names of `sparse_tiles`, and `tiles` chooses by the type of `work`.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.simd import LANES, VECTOR_BYTES, numbers
from daskglm.kernels.simd_columns import (
    LEFT,
    RIGHT,
    VECTORS,
    add_triangle,
    column_products,
    combine,
    room_for,
)
from daskglm.kernels.storages import ask, fill_columns
from daskglm.system.compiled import compiled

# Rows whose margins are computed at once.
TURN = VECTORS * LANES
# Runs of rows that are summed by themselves are whole vectors of float32 and float64.
RUN = VECTOR_BYTES // 4


@within_callers()
def round_up(n, to):  # type: ignore[no-untyped-def]
    """N rounded up to a multiple."""
    return (n + to - 1) // to * to


@within_callers()
def places(work, n):  # type: ignore[no-untyped-def]
    """Return the places that a tile of n rows takes."""
    return round_up(n, TURN)


@within_callers()
def run_end(work, stop):  # type: ignore[no-untyped-def]
    """Return where a run of rows ends with what fills it up."""
    return round_up(stop, RUN)


@within_callers()
def room(work, W, most):  # type: ignore[no-untyped-def]
    """Return room for margins (outputs, most) of a tile, and for slopes, which are in `work`."""
    return room_for(len(W), most, W[0]), work[W.shape[1] :]


@within_callers()
def fill(work, X, d, rows, stop):  # type: ignore[no-untyped-def]
    """Make a tile of rows of these numbers, all before `stop`."""
    fill_columns(X, d, rows, stop, work)


@compiled(nogil=True)
def forward(work, X, d, W, many, rows, run, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins z of `many` outputs on the places `run` (start, stop) of a tile.

    Meanwhile as many rows of X are prefetched, from `ahead` on.
    """
    gap, width = work.shape[1], W.shape[1]
    of, w, to = work.reshape(work.size), W.reshape(W.size), z.reshape(z.size)
    for t in range(run[0], run[1], TURN):
        ask(X, ahead + t, TURN)
        for p in range(0, many, LEFT):
            combine(of, t, d + 1, gap, w, p * width, width, to, p * gap + t)


@compiled(nogil=True)
def backward(work, X, d, slopes, many, rows, run, sums):  # type: ignore[no-untyped-def]
    """Add slopes [X 1] over the places `run` of a tile to `sums`, which is as W is."""
    gap, width = work.shape[1], sums.shape[1]
    of, to = work.reshape(work.size), sums.reshape(sums.size)
    for p in range(0, many, LEFT):
        for j in range(0, d + 1, RIGHT):
            at, beside = (width + p) * gap + run[0], j * gap + run[0]
            vectors = (run[1] - run[0]) // LANES
            column_products(of, at, beside, vectors, gap, to, p * width + j, width)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def add_squares(work, X, d, c, rows, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times c, to `out` (d + 1,) or longer."""
    for j in range(d + 1):
        x, total = work[j], 0.0
        for t in range(len(rows)):
            total += c[t] * (x[t] * x[t])
        out[j] += total


@within_callers()
def gram_room(work, W, most, like, formed):  # type: ignore[no-untyped-def]
    """Return what `add_gram` works in, in the dtype of `like`."""
    return np.empty(most, like.dtype), room_for(W.shape[1] if formed else 0, most, like)


@compiled(nogil=True)
def add_gram(work, d, c, run, space, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' diag(c) [X 1] over the places `run` to the upper triangle of `gram`."""
    roots, scaled = space
    start, stop = run
    factor, c = roots[start:stop], c[start:stop]
    for t in range(len(factor)):
        factor[t] = np.sqrt(c[t])
    for j in range(d + 1):
        x, out = work[j, start:stop], scaled[j, start:stop]
        for t in range(len(factor)):
            out[t] = factor[t] * roots.dtype.type(x[t])
    vectors = (stop - start) // numbers(scaled, VECTOR_BYTES)
    add_triangle(scaled, d, start, vectors, gram, scaled[0, :0])
