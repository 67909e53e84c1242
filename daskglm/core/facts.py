"""What the loading pass learnt of rows: counts, norms, labels; facts of two sets of rows merge into
those of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataSummary:
    """What the loading pass learnt of a set of rows. `classes` maps a label to (rows, weight).

    `order` is a checksum of the rows in their order, where the source may give them in another (0:
    not computed). `gram_roundoff` is the unit roundoff of the dtype in which products of a Gram are
    summed over a few rows, the largest of all blocks; `largest_block` the most rows of a block,
    `longest_row` the most stored values of a row. `row_products` are as many inner products of two
    rows of one block as there are rows, as estimated from a sample; their mean is about the squared
    norm of the mean row. `largest_offset` is the largest absolute offset
    of a margin, 0: there are none; where a row has several, `offset_columns` of them, the largest
    norm of a row's. `least_offset` and `most_offset` are the ends of their range, of
    rows with weight. `target_sum`, `offset_sum` and `exposure_sum` are weighted sums
    of the targets of a regression, of offsets, and of their exponentials, `target_squares` one of
    squared targets. `n_used` counts rows whose weight is above zero. `factors` are coefficients
    [start, stop) of which no row has more than one, and a value of one there, where rows are stored
    by codes.
    """

    n_rows: int = 0
    n_features: int | None = None
    weight: float = 0.0
    largest_row_norm: float = 0.0
    squared_norms: float = 0.0
    largest_target: float = 0.0
    nonzeros: int = 0
    nbytes: int = 0
    sparse: bool = False
    classes: tuple[tuple[Any, int, float], ...] = ()
    order: int = 0
    gram_roundoff: float = 2.0**-53
    largest_block: int = 0
    n_blocks: int = 0
    longest_row: int = 0
    largest_offset: float = 0.0
    target_sum: float = 0.0
    offset_sum: float = 0.0
    exposure_sum: float = 0.0
    n_used: int = 0
    target_squares: float = 0.0
    # added up by BLAS, which may round otherwise when the same rows are read again
    row_products: float = field(default=0.0, compare=False)
    least_offset: float = math.inf
    most_offset: float = -math.inf
    offset_columns: int = 0
    factors: tuple[tuple[int, int], ...] = ()

    @property
    def per_row(self) -> float:
        """Stored values of a mean row."""
        return self.nonzeros / max(self.n_rows, 1)

    def merge(self, other: DataSummary) -> DataSummary:
        """Summary of both sets of rows together."""
        columns = {self.offset_columns, other.offset_columns} - {0}
        if len(columns) > 1:
            raise ValueError(
                f"offset has {min(columns)} column(s) in some partitions, {max(columns)} in others"
            )
        classes = {label: (rows, weight) for label, rows, weight in self.classes}
        for label, rows, weight in other.classes:
            had = classes.get(label, (0, 0.0))
            classes[label] = (had[0] + rows, had[1] + weight)
        return DataSummary(
            self.n_rows + other.n_rows,
            other.n_features if self.n_features is None else self.n_features,
            self.weight + other.weight,
            max(self.largest_row_norm, other.largest_row_norm),
            self.squared_norms + other.squared_norms,
            max(self.largest_target, other.largest_target),
            self.nonzeros + other.nonzeros,
            self.nbytes + other.nbytes,
            self.sparse or other.sparse,
            tuple((label, *classes[label]) for label in classes),
            (self.order + other.order) % 2**64,
            max(self.gram_roundoff, other.gram_roundoff),
            max(self.largest_block, other.largest_block),
            self.n_blocks + other.n_blocks,
            max(self.longest_row, other.longest_row),
            max(self.largest_offset, other.largest_offset),
            self.target_sum + other.target_sum,
            self.offset_sum + other.offset_sum,
            self.exposure_sum + other.exposure_sum,
            self.n_used + other.n_used,
            self.target_squares + other.target_squares,
            self.row_products + other.row_products,
            min(self.least_offset, other.least_offset),
            max(self.most_offset, other.most_offset),
            max(self.offset_columns, other.offset_columns),
            self._common_factors(other),
        )

    def _common_factors(self, other: DataSummary) -> tuple[tuple[int, int], ...]:
        """Return the factors of both; a set of rows without features has none of its own."""
        if self.n_features is None or other.n_features is None:
            return self.factors or other.factors
        return tuple(factor for factor in self.factors if factor in other.factors)
