"""What one block caches between requests.

Any entry may be evicted at any time: requests carry what rebuilds it, at the price of one more pass
over those rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from daskglm.core.requests import Problem
from daskglm.data.blocks import Block
from daskglm.kernels import backend_of, for_rows
from daskglm.kernels.records import RowData
from daskglm.kernels.storages import address_of
from daskglm.losses.table import loss_of
from daskglm.worker.batched import BatchRows
from daskglm.worker.class_rows import ClassRows
from daskglm.worker.dual_state import DualCache
from daskglm.worker.margins import Margins
from daskglm.worker.targets import targets_of

# Fields of a problem that determine targets and weights.
SAME_TARGETS = ("positive", "class_weight", "folds", "fold", "inside", "target")


class BlockCache:
    """Cache of one block for one problem: targets, weights, margins by token, curvature of one."""

    def __init__(self, block: Block, problem: Problem) -> None:
        self.problem = problem
        self.spans = block.spans
        self.backend = backend_of(block.X)
        self.kernels, self.rows = for_rows(block.X)
        self.margins = Margins(self.backend.kept_margins(self.rows))
        self.curvature_of: int | None = None
        self.dual: DualCache | None = None
        self.batch: BatchRows | None = None
        self.of_classes: ClassRows | None = None
        # of a shard's first block: all its rows by columns, once something has asked for sweeps
        self.by_columns: Any = None
        # the rows with levels of large factors apart, once a Hessian has wanted them
        self.apart: Any = None
        # targets of a regression may differ by less than float32 rows tell apart
        self.exact = block.labels is None
        self.has_offset = block.offset is not None
        self.given_weight = block.weight  # whatever folds and classes the problem is about
        y, weight, offset = targets_of(block, problem)
        self.targets = self.vector(y)
        self.weight = self.vector(weight) if len(weight) else weight
        # exact whatever targets are, since an offset counts as much as the product with the row
        self.offsets = self.backend.vector(offset, rows=self.rows) if len(offset) else offset
        self.y = self.targets

    def vector(self, values: Any) -> Any:
        """Numbers for each row, where the rows are; None: room for them."""
        return self.backend.vector(values, rows=self.rows, exact=self.exact)

    @functools.cached_property
    def curvature(self) -> Any:
        """Where curvatures go; made when first needed, since a Gram may come without them."""
        return self.vector(None)

    @property
    def offset(self) -> Any:
        """What is added to the margin of each row; empty: nothing."""
        if self.offsets.ndim == 2:
            raise ValueError(
                f"offset has {self.offsets.shape[1]} columns, but a row has one margin with "
                f"loss={self.problem.loss.name!r}: give a number for each row"
            )
        return self.offsets

    @property
    def known_margins(self) -> Margins:
        """The margins of points that are here, of the shape that the problem's losses are about."""
        if not self.problem.classes:
            return self.margins
        rows = self.of_classes
        known = rows is not None and rows.classes == self.problem.classes
        return rows.margins if rows is not None and known else Margins(0)

    @property
    def data(self) -> RowData:
        """The rows with their targets, weights and offsets, as kernels take them."""
        return self.rows, self.y, self.weight, self.offset

    @property
    def address(self) -> int:
        """Where the rows lie in host memory; 0 while they are away."""
        return 0 if self.rows is None else address_of(self.rows)

    def serves(self, problem: Problem) -> bool:
        """Switch to `problem` if its targets and weights are unchanged; return False otherwise.

        Targets move to the centre of a proximal problem.
        """
        if problem == self.problem:
            return True
        if any(getattr(problem, name) != getattr(self.problem, name) for name in SAME_TARGETS):
            return False
        if self.has_offset and loss_of(problem.loss).shifts != loss_of(self.problem.loss).shifts:
            return False
        self.problem = problem
        self.curvature_of = None
        self.y = self.targets
        if problem.centre is not None and self.dual is not None:
            moved = loss_of(problem.loss).moved
            assert moved is not None
            self.y = self.vector(moved(self.targets, self.dual.alpha, problem.centre[1]))
        return True

    def reserve(self, token: int, needed: Sequence[int | None] = ()) -> Any:
        """Return room for the margins of a point; see `Margins`."""
        return self.margins.reserve(token, needed, lambda: self.backend.vector(None, self.rows))
