"""A tile of sparse rows of many features as they are: a stored value meets all its coefficients.

Beside `column_tiles`, which makes rows dense and so wants few features, and has the same functions.
W is (d + 1, outputs): a row for each feature, so that what one stored value needs is contiguous,
and the intercepts last. `work` has room for one number an output. Rows are CSR or coded.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.output_rows import row_ask, row_backward, row_forward, row_squares
from daskglm.kernels.outputs_csr import FAST, LINE_VALUES
from daskglm.system.compiled import compiled


@within_callers()
def places(work, n):  # type: ignore[no-untyped-def]
    """Return the places that a tile of n rows takes."""
    return n


@within_callers()
def run_end(work, stop):  # type: ignore[no-untyped-def]
    """Return where a run of rows ends."""
    return stop


@within_callers()
def room(work, W, most):  # type: ignore[no-untyped-def]
    """Return room for the margins and the slopes (outputs, most) of a tile."""
    many = W.shape[1]
    return np.empty((many, most + LINE_VALUES)), np.zeros((many, most + LINE_VALUES))


@within_callers()
def fill(work, X, d, rows, stop):  # type: ignore[no-untyped-def]
    """Do nothing: rows stay as they are."""


@compiled(nogil=True, error_model="numpy")
def forward(work, X, d, W, many, rows, run, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins z of all outputs on the places `run` (start, stop) of a tile."""
    start, stop = run
    for t in range(start, stop):
        row_ask(X, rows[min(t + 1, stop - 1)], W)
        row_forward(X, rows[t], W, d, work)
        for k in range(len(work)):
            z[k, t] = work[k]


@compiled(nogil=True, error_model="numpy")
def backward(work, X, d, slopes, many, rows, run, sums):  # type: ignore[no-untyped-def]
    """Add slopes [X 1] over the places `run` of a tile to `sums`, which is as W is."""
    start, stop = run
    work[:] = 0.0
    for t in range(start, stop):
        row_ask(X, rows[min(t + 1, stop - 1)], sums)
        for k in range(many):
            work[k] = slopes[k, t]
        row_backward(X, rows[t], work, d, sums)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def add_squares(work, X, d, c, rows, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times c, to `out` (d + 1,)."""
    for t in range(len(rows)):
        row_squares(X, rows[t], c[t], d, out)


@within_callers()
def gram_room(work, W, most, like, formed):  # type: ignore[no-untyped-def]
    """Return nothing: Grams are of columns."""
    return None


@within_callers()
def add_gram(work, d, c, run, space, gram):  # type: ignore[no-untyped-def]
    """Refuse, since only columns have Grams."""
    raise NotImplementedError("Grams are of tiles of columns")
