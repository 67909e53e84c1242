"""Coordinate descent beside dense rows; the first block's cache keeps a copy of all by columns."""

from __future__ import annotations

import numpy as np

from daskglm.core.column_requests import ColumnDescent
from daskglm.core.matrices import in_c_order
from daskglm.core.requests import Totals
from daskglm.kernels.column_descent import descend
from daskglm.kernels.records import read_only
from daskglm.worker.asked import Asked
from daskglm.worker.one_margin import update_curvature

# Bytes of a copy of the columns at most: it is made, and swept over, by one thread. Chosen.
MOST_BYTES = 1 << 25


def column_descent(asked: Asked[ColumnDescent]) -> Totals:
    """Answer a request about dense rows in host memory."""
    request, caches, n = asked.request, asked.caches, asked.facts.n_rows
    read = update_curvature(asked, request.at)
    first = caches[0]
    if first.by_columns is None:
        first.by_columns = _by_columns(asked)
        read += n
    columns, v = first.by_columns, request.at[1].copy()
    curvature = request.C * np.concatenate([cache.curvature for cache in caches])
    # in a product each value is read, and then its row's margin is changed
    values = 2 * max(columns.size, 1)
    limits = (request.wanted, request.most * values)
    visited, ended = descend(columns, curvature, read_only(request.model), limits, v)
    return {"v": v, "ended": ended, "rows": read + round(n * visited / values)}


def _by_columns(asked: Asked[ColumnDescent]) -> np.ndarray:
    """Copy the rows of all blocks, in float64, as an array of columns."""
    parts = [cache.rows.T.astype(np.float64, copy=False) for cache in asked.caches]
    return read_only(in_c_order(parts[0] if len(parts) == 1 else np.hstack(parts)))
