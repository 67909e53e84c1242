"""What rows do in a step of conjugate gradients after epochs; see `core.dual_span`.

Of several groups of rows the client finds the step, in the span of what the epochs of a round
changed and of the last steps, from derivatives that workers add up; each brings the rows that are
too far then back to their bounds. One group takes steps by itself, between the epochs of a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.dual_span import KEPT_STEPS, MOST_ERRORS, RISE, Span, rise
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
    def of(cls, cache: Any, start: np.ndarray, steps: Sequence[np.ndarray], kept: int) -> Moved:
        """Find the rows that epochs have changed from `start`, or did one of the last steps.

        Of these `kept` count; a block that knows fewer has no part in the others.
        """
        dual, weight = cache.dual, cache.weight
        moves = dual.work != start
        for step in steps:
            moves |= step != 0.0
        rows = np.flatnonzero(moves)
        start = start[rows]
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

    def products(self, state: DualStateRef, u: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """Return the weighted products of directions (k, rows) with the margins at u."""
        cache, z = self.cache, np.empty(len(self.cache.y))
        constant = state.offset + state.bias * float(u[-1])
        cache.kernels.margins(cache.rows, u[:-1], constant, 0, len(z), z)
        z = z[self.rows]
        return np.array([duals.products(z, way, self.weight) for way in ways])

    @property
    def beyond(self) -> np.ndarray:
        """How far the rows are now from where the epochs left them."""
        found: np.ndarray = self.cache.dual.work[self.rows] - self.after_epochs
        return found

    def step(self) -> np.ndarray:
        """Return the step to where the rows are now, of all rows of the block."""
        found = np.zeros(len(self.cache.y))
        found[self.rows] = self.cache.dual.work[self.rows] - self.start
        return found

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


class OwnSteps:
    """The steps of one group of threads by itself; caches keep what the last ones were for rows."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []  # X' C times the last steps
        self.errors: list[float] = []  # of these, as in `MOST_ERRORS`
        self.back = 0  # rows read in this round beside its epochs
        self.drift = 0.0  # errors that this round's steps have added

    def begin(self, u: np.ndarray, caches: Sequence[Any]) -> None:
        """Begin a round at the dual variables alpha with the shared vector u, which are kept."""
        self.back, self.drift = 0, 0.0
        if any(len(m.dual.steps) < len(self.kept) for m in caches):
            self.kept, self.errors = [], []
        self.start, self.starts = u, [m.dual.alpha for m in caches]

    def take(
        self, law: Law, state: DualStateRef, caches: Sequence[Any], u: np.ndarray, *, last: bool
    ) -> None:
        """Move from u and the dual variables `work`, both in place, unless that lowers the dual.

        `last` says that the round ends here. Where rounding hides the dual along the change, slopes
        are by the margins of the rows. Cost: rows that were outside, and then a pass, and one for
        each point that is tried.
        """
        kept, error, change = len(self.kept), 1.0, u - self.start
        moved = [
            Moved.of(m, at, m.dual.steps[:kept], kept)
            for m, at in zip(caches, self.starts, strict=True)
        ]
        if kept:
            vectors, least = [change, *self.kept], RISE * float(u @ u)
            totals = derivatives(law, moved, kept + 1)
            hidden = 0.0 < float(change @ change) <= least
            if hidden:
                ways = [part.directions for part in moved]
                totals["slopes"] += self._products(moved, state, u, ways)
            span = Span.of(state, self.start, vectors, totals, by_margins=hidden)

            def move(multiples: np.ndarray) -> float:
                nonlocal change
                change = multiples[0] * vectors[0]
                for multiple, vector in zip(multiples[1:], self.kept, strict=True):
                    change += multiple * vector
                slopes = np.zeros(2)
                for part in moved:
                    self.back += part.go(law, state, multiples, change, slopes)
                if hidden:
                    beyond, ways = change - vectors[0], [part.beyond[None] for part in moved]
                    slopes[1:] += self._products(moved, state, self.start + change, ways)
                    return float(0.5 * (beyond @ beyond) - state.C * slopes[1])
                found = {"change": change, "slopes": slopes}
                return rise(state, self.start, vectors[0], 1.0, found)

            error = span.climb(1.0, self.errors, 0.0 if hidden else least, move)
            self.drift += error
            np.add(self.start, change, out=u)
        forgets = error > MOST_ERRORS
        for m, part in zip(caches, moved, strict=True):
            m.dual.steps = [] if forgets else [part.step(), *m.dual.steps][:KEPT_STEPS]
        self.kept = [] if forgets else [change, *self.kept][:KEPT_STEPS]
        self.errors = [] if forgets else [error, *self.errors][:KEPT_STEPS]
        if not last:
            self.start, self.starts = u.copy(), [m.dual.work.copy() for m in caches]

    def _products(
        self, moved: Sequence[Moved], state: DualStateRef, u: np.ndarray, ways: list[np.ndarray]
    ) -> Any:
        """Add up the products of blocks' directions with margins at u. Cost: a pass."""
        self.back += sum(len(part.cache.y) for part in moved)
        return sum(part.products(state, u, way) for part, way in zip(moved, ways, strict=True))
