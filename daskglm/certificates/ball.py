"""Bounds on all rows of X: a ball that holds them, and the sizes of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Ball(NamedTuple):
    """A ball that holds all rows: |x - centre| <= radius."""

    centre: np.ndarray | None
    radius: float

    def margins(self, step: np.ndarray, n_features: int) -> float:
        """Bound on the change of any margin by a step in the coefficients and the intercept."""
        change = step[:n_features]
        constant = float(step[n_features]) if len(step) > n_features else 0.0
        if self.centre is not None:
            constant += float(self.centre @ change)
        return self.radius * float(np.linalg.norm(change)) + abs(constant)


def widest(sizes: np.ndarray, columns: Any, factors: Sequence[tuple[int, int]]) -> float:
    """Bound the sum over any row's columns of their values, by size, times these numbers (n,).

    Parameters
    ----------
    sizes : (n,) array
    columns : (n,) array or float
        Bounds on the values of each column.
    factors : sequence of (int, int)
        Columns [start, stop) of which a row has one at most, a one.
    """
    alone, levels = np.ones(len(sizes), bool), 0.0
    for start, stop in factors:
        alone[start:stop] = False
        levels += float(sizes[start:stop].max(initial=0.0))
    return levels + float((columns * sizes).sum(where=alone))
