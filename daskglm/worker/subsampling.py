"""Parts of the rows, such as random samples: blocks of their own, small enough to be read many
times for the price of one pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.device import gpu, on_device
from daskglm.core.requests import Totals
from daskglm.core.sample_requests import DrawnRows, DrawRows
from daskglm.core.view import Part
from daskglm.data.blocks import Block
from daskglm.kernels import storages
from daskglm.worker.asked import Asked


def draw(block: Block, part: Part) -> Block:
    """Copy the rows of a block that are in a part of all rows."""
    n = len(block.y)
    partition, first, _ = block.spans[0]
    rows = part.rows(n, partition, first)
    many = len(rows)
    X = take(block.X, rows)
    weight, offset = (
        None if values is None else values[rows] for values in (block.weight, block.offset)
    )
    share = many / n
    facts = replace(
        block.facts,
        n_rows=many,
        weight=float(many) if weight is None else float(weight.sum()),
        nonzeros=round(share * block.facts.nonzeros),
        nbytes=round(share * block.facts.nbytes),
    )
    return block._replace(
        X=X,
        y=block.y[rows],
        weight=weight,
        offset=offset,
        facts=facts,
        drawn=(block, rows),
        moved=None,
        clusters=None if block.clusters is None else block.clusters.take(rows),
    )


def draw_rows(asked: Asked[DrawRows]) -> Totals:
    """Draw rows that travel: of those they are drawn from goes what tells their folds."""
    found = {}
    for block in asked.blocks:
        codes = block.y if asked.request.codes and block.labels is not None else block.y[:0]
        whole = block._replace(X=None, y=codes, weight=None, offset=None, clusters=None, moved=None)
        partition, first, _ = block.spans[0]
        for k, part in enumerate(asked.request.parts):
            rows = draw(block, part)
            assert rows.drawn is not None
            found[k, partition, first] = rows._replace(drawn=(whole, rows.drawn[1]))
    return {"drawn": DrawnRows.pack(found), "rows": 0}


def take(X: Any, rows: np.ndarray) -> Any:
    """Copy some rows of a block's X, of the same kind."""
    if on_device(X):
        return gpu().take(X, rows)
    return storages.take(X, rows)
