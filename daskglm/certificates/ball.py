"""A ball that holds all rows of X."""

from __future__ import annotations

from typing import NamedTuple

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
