"""The Hessian of the losses by a few coefficients, at margins that are cached.

Only rows in host memory are served. Nothing is copied that outlives the request.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.column_requests import ColumnGram
from daskglm.core.requests import Problem, Totals
from daskglm.kernels.margins import curvatures, slopes
from daskglm.kernels.records import NOTHING
from daskglm.kernels.storages import matrix_of, rows_between
from daskglm.losses.table import law_of, loss_of
from daskglm.worker.asked import Asked
from daskglm.worker.pieces import Piece

# Bytes of some columns of a run of dense rows in float64. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Rows of a run: at least, and at most, as of sparse rows.
FEWEST, MOST = 64, 1 << 14
# Share of the largest curvature that its mean within twice the reach of a margin must have. All
# that lacks is at the ends of one interval, and less than half of it is outside of the reach.
SURE = 0.8


def column_gram(asked: Asked[ColumnGram]) -> Totals:
    """Answer a request from the rows and the margins that the caches hold at its point.

    Raises ValueError if the rows are on a GPU, or a reach is asked for that the loss does not know.
    """
    problem, request, caches = asked.problem, asked.request, asked.caches
    if request.reach and not loss_of(problem.loss).has_two_curvatures:
        raise ValueError(
            f"reach={request.reach:g}, but the curvature of {problem.loss.name!r} is not one of "
            "two numbers: ask with a reach of 0"
        )
    if not asked.in_host_memory:
        raise ValueError("ColumnGram wants X in host memory, and these rows are on a GPU")
    size = len(request.columns) + 1
    place = np.full(len(request.at[1]), -1, np.int64)
    place[request.columns] = np.arange(size - 1)
    dense = max(RUN_BYTES // (8 * size), FEWEST)

    def work(pieces: list[Piece]) -> Totals:
        gram = np.zeros((size, size))
        with np.errstate(over="ignore", invalid="ignore"):  # far out
            for i, lo, hi in pieces:
                cache = caches[i]
                is_dense = isinstance(cache.rows, np.ndarray)
                step = min(dense, MOST) if is_dense else MOST
                for first in range(lo, hi, step):
                    run = slice(first, min(first + step, hi))
                    bent = _curvatures(problem, request, cache, run)
                    rows = rows_between(cache.rows, run.start, run.stop)
                    rows = rows if is_dense else matrix_of(rows, asked.n_features)
                    if isinstance(rows, np.ndarray):
                        part = np.ones((len(bent), size))
                        part[:, :-1] = rows[:, request.columns]
                        gram += part.T @ (part * bent[:, None])
                    else:
                        some = _taken(rows, place, size)
                        gram += (some.T @ some.multiply(bent[:, None]).tocsr()).toarray()
        return {"gram": gram}

    return {**asked.each(work), "rows": asked.facts.n_rows}


def _curvatures(problem: Problem, request: ColumnGram, cache: Any, run: slice) -> np.ndarray:
    """Return the weighted curvatures of some rows, or those that stay within the reach."""
    y, weight, offset, z = (
        np.ascontiguousarray(values[run], dtype=np.float64)
        for values in (cache.y, cache.weight, cache.offset, cache.margins[request.at[0]])
    )
    law, found = law_of(problem.loss), np.empty(len(z))
    if not request.reach:
        curvatures(law, y, weight, offset, z, 0, len(z), found)
        return found
    reach, most = 2.0 * request.reach, loss_of(problem.loss).smoothness
    low = np.empty(len(z))
    slopes(law, y, NOTHING, offset, z + reach, 0, len(z), found)
    slopes(law, y, NOTHING, offset, z - reach, 0, len(z), low)
    sure = np.where(found - low >= SURE * most * 2.0 * reach, most, 0.0)
    return sure * weight if len(weight) else sure


def _taken(rows: sp.csr_matrix, place: np.ndarray, size: int) -> sp.csr_array:
    """Return some columns of sparse rows, and a column of ones after them."""
    n = rows.shape[0]
    column = place[rows.indices]
    kept = column >= 0
    row = np.repeat(np.arange(n), np.diff(rows.indptr))
    return sp.csr_array(
        (
            np.append(rows.data[kept], np.ones(n)),
            (np.append(row[kept], np.arange(n)), np.append(column[kept], np.full(n, size - 1))),
        ),
        shape=(n, size),
    )
