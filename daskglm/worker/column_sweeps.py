"""Coordinate descent on a model of sparse rows, by a copy of them that is sorted by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.column_requests import ColumnSweeps
from daskglm.core.requests import Totals
from daskglm.data.blocks import Block
from daskglm.kernels.column_sweeps import sweep
from daskglm.kernels.records import read_only
from daskglm.kernels.storages import with_values
from daskglm.worker.asked import Asked
from daskglm.worker.one_margin import update_curvature


def column_sweeps(asked: Asked[ColumnSweeps]) -> Totals:
    """Answer a request about sparse rows in host memory."""
    request, caches, n = asked.request, asked.caches, asked.facts.n_rows
    read = update_curvature(asked, request.at)
    first = caches[0]
    if first.by_columns is None:
        first.by_columns = _by_columns(asked.blocks)
        read += n
    rows = np.zeros((n, 2))
    rows[:, 0] = request.C * np.concatenate([cache.curvature for cache in caches])
    v, limits = request.v.copy(), (request.wanted, request.most)
    sweeps, visited = sweep(first.by_columns, read_only(request.model), limits, v, rows)
    # in a product each value is read, and then its row's margin is changed
    stored = max(len(first.by_columns[1]), 1)
    return {"v": v, "sweeps": sweeps, "rows": read + round(n * visited / (2 * stored))}


def _by_columns(blocks: Sequence[Block]) -> tuple[Any, ...]:
    """Copy the rows of all blocks, sorted by columns, as `kernels.column_sweeps` takes them."""
    parts = [with_values(block.X) for block in blocks]
    X = (sp.vstack(parts) if len(parts) > 1 else parts[0]).tocsc()
    return tuple(map(read_only, (X.indptr, X.indices, X.data)))
