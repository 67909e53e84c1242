"""What rows do in a step of conjugate gradients after the epochs of a round.

The client finds the step in the span of what the epochs changed and of the last steps, from
derivatives that workers add up; each brings the rows that are too far then back to their bounds.
See `solvers.conjugate_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.requests import DualStateRef
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.kernels.records import read_only
from daskglm.losses import conjugates as duals
from daskglm.losses.base import Law


@dataclass(frozen=True)
class Moved:
    """The rows of a block that move, where they start, and the directions (k, rows)."""

    cache: Any
    rows: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    start: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, cache: Any, kept: int) -> Moved:
        """Find the rows that a round has changed, or did one of the last steps that are kept."""
        dual, weight = cache.dual, cache.weight
        steps = dual.kept[:kept]
        moves = dual.work != dual.alpha
        for step in steps:
            moves |= step != 0.0
        rows = np.flatnonzero(moves)
        start = dual.alpha[rows]
        directions = np.zeros((kept + 1, len(rows)))
        np.subtract(dual.work[rows], start, out=directions[0])
        for step, out in zip(steps, directions[1:], strict=False):
            np.take(step, rows, out=out)
        weight = read_only(weight[rows]) if len(weight) else weight
        return cls(cache, rows, read_only(cache.y[rows]), weight, start, directions)

    @property
    def after_epochs(self) -> np.ndarray:
        """The dual variables after the epochs."""
        return self.start + self.directions[0]

    def add_derivatives(self, law: Law, slopes: np.ndarray, hessian: np.ndarray) -> None:
        """Add those of the conjugates after the epochs, along the directions."""
        at, ways = self.after_epochs, self.directions
        for i in range(len(ways)):
            # each pair once, and each direction with itself
            for j in range(i + 1):
                first, second = np.zeros(2), np.zeros((2, 2))
                line = at, ways[i], ways[j]
                duals.along(law, self.y, self.weight, line, (0.0, 0.0), first, second)
                hessian[i, j] += second[0, 1]
                if i == j:
                    slopes[i] += first[0]
                else:
                    hessian[j, i] += second[0, 1]

    def go(
        self, law: Law, state: DualStateRef, c: np.ndarray, vector: np.ndarray, slopes: np.ndarray
    ) -> int:
        """Go as far along the directions, but for bounds; return how many rows were outside.

        `vector` changes by what these are brought back. `slopes` of the conjugates are added up as
        in `DualMove`. Rows that were passed over are met again.
        """
        a = self.start + c @ self.directions
        rows = *self.cache.data[:3], self.rows
        outside = kernels.project(law, rows, (state.C, state.bias), a, vector)
        line = a, a - self.start, a - self.after_epochs
        duals.along(law, self.y, self.weight, line, (0.0, 0.0), slopes, np.zeros((2, 2)))
        dual = self.cache.dual
        if len(dual.asleep):
            dual.asleep[self.rows[self.after_epochs != a]] = 0
        dual.work[self.rows] = a
        return int(outside)


def derivatives(law: Law, moved: Sequence[Moved], many: int) -> dict[str, np.ndarray]:
    """Answer a `DualSpan` of so many directions."""
    slopes, hessian = np.zeros(many), np.zeros((many, many))
    for part in moved:
        part.add_derivatives(law, slopes, hessian)
    return {"slopes": slopes, "hessian": hessian}
