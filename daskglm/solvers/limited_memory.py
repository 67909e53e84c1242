"""The inverse Hessian of limited-memory BFGS: pairs of steps and gradient changes, a diagonal."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from daskglm.core.device import Array
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import CurvaturePair, inverse_times, pair_of

# Pairs that are kept: Nocedal & Wright, section 7.2, recommend 3 to 20.
MEMORY = 10
# Share of a pair's curvature that its part for some coefficients must have. A tenth to 1e-10 made
# no difference on 13 drawn problems with kinks (2026-11-25).
PART = 1e-10


class LimitedMemory:
    """An inverse Hessian by the last pairs, around the inverse diagonal of the Hessian.

    The diagonal is formed anew after 4, 8, 16, ... steps. Pairs with too little curvature are
    skipped. Vectors are wherever those of the objective are.

    Parameters
    ----------
    objective : Objective
    point : Point
        Where a solve starts, with the diagonal of its Hessian; or resumes.
    steps, changes : (pairs, size) arrays, optional
        Pairs of a solve to resume; with all that follow.
    diagonal, least : (size,) arrays, optional
        Diagonal and its lower bound.
    taken, renewal : int
        Steps taken, and their number at which to form the diagonal anew.
    """

    def __init__(
        self,
        objective: Objective,
        point: Point,
        *,
        steps: np.ndarray | None = None,
        changes: np.ndarray | None = None,
        diagonal: np.ndarray | None = None,
        least: np.ndarray | None = None,
        taken: int = 0,
        renewal: int = 4,
    ) -> None:
        self.xp, self.size = objective.xp, len(point.w)
        self.taken, self.renewal = taken, renewal
        self.pairs: deque[CurvaturePair] = deque(maxlen=MEMORY)
        if diagonal is None or least is None or steps is None or changes is None:
            assert point.diagonal is not None
            floor = 1e-12 * max(float(point.diagonal.max()), 1e-300)
            # where curvature jumps, rows beyond the corner of a loss may come back: later diagonals
            # below a tenth of this one are not believed. Chosen.
            share = 0.0 if objective.loss.has_smooth_curvature else 0.1
            self.least = np.maximum(share * point.diagonal, floor)
            self.diagonal = np.maximum(point.diagonal, self.least)
        else:
            asarray = self.xp.asarray
            self.diagonal, self.least = asarray(diagonal), asarray(least)
            for s, change in zip(steps, changes, strict=True):
                self.pairs.append(pair_of(asarray(s), asarray(change), self._inverse))

    def _inverse(self, v: Array) -> Array:
        return v / self.diagonal

    def _stacked(self, vectors: list[Array]) -> Array:
        return self.xp.stack(vectors) if vectors else self.xp.zeros((0, self.size))

    def state(self) -> dict[str, Any]:
        """Return the keyword arguments of a solve that resumes."""
        return {
            "steps": self._stacked([pair.step for pair in self.pairs]),
            "changes": self._stacked([pair.change for pair in self.pairs]),
            "diagonal": self.diagonal,
            "least": self.least,
            "taken": self.taken,
            "renewal": self.renewal,
        }

    @property
    def is_due(self) -> bool:
        """Whether the diagonal is to be formed anew at the next point."""
        return self.taken + 1 >= self.renewal

    def times(self, v: Array) -> Array:
        """Multiply v by the inverse Hessian."""
        return inverse_times(self.pairs, self._inverse, v)

    def times_among(self, v: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Multiply v by the inverse of the Hessian of some coefficients; of others return zeros.

        Parameters
        ----------
        v : (size,) array
        chosen : (size,) array of bool
        """
        at = np.flatnonzero(chosen)
        diagonal = self.diagonal[at]

        def inverse(part: np.ndarray) -> np.ndarray:
            return part / diagonal

        parts = []
        for pair in self.pairs:
            part = pair_of(pair.step[at], pair.change[at], inverse)
            if part.curvature > PART * pair.curvature:
                parts.append(part)
        found = np.zeros(self.size)
        found[at] = inverse_times(parts, inverse, v[at])
        return found

    def update(self, before: Point, after: Point) -> None:
        """Learn from a step between two points, and from the diagonal at the second, if any."""
        pair = pair_of(after.w - before.w, after.gradient - before.gradient, self._inverse)
        if pair.curvature > 1e-16 * float(pair.step @ (self.diagonal * pair.step)):
            self.pairs.append(pair)
        self.taken += 1

        # a shortened step has no diagonal: it stays due
        if after.diagonal is not None:
            self.diagonal = np.maximum(after.diagonal, self.least)
            self.renewal = 2 * self.taken
            # their scales are by the inverse of the diagonal
            pairs = [pair_of(s, change, self._inverse) for s, change, _, _ in self.pairs]
            self.pairs = deque(pairs, maxlen=MEMORY)

    def forget(self) -> bool:
        """Drop the pairs; return whether there were any."""
        known = len(self.pairs) > 0
        self.pairs.clear()
        return known
