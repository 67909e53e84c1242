"""Steps between epochs in the span of what the epochs changed and of the last steps.

That is a nonlinear conjugate gradient method, preconditioned by epochs and projected on the bounds
of the dual variables (Silcowitz et al. 2010, for Gauss-Seidel). Once the rows at a bound are
settled the dual is a quadratic in the others. A step without a projection is as short as the way of
the first row to its bound; what rows moved too far are brought back costs a product with these
rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.requests import DualStateRef
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.kernels.records import read_only
from daskglm.losses import conjugates as duals
from daskglm.losses.base import Law

# Epochs after which a step is taken. Of 12 hinges on text and tables steps after each took 0.9 to
# 1.8 times the time, after 4 as much (with one step kept, 2026-11-29).
EPOCHS_A_STEP = 2
# Last steps that are kept: epochs in random order are another preconditioner each time, so that
# directions do not stay conjugate. With two the last digits took half the epochs that they took
# with one, with four and eight no fewer (2026-11-29).
KEPT_STEPS = 2
# Multiples of a change that a step may take: see `duals.dual.LONGEST`. Chosen.
LONGEST = 8.0
# Shares of the way to the best of the span that are tried: bounds may be in the way. Chosen.
SHARES = (1.0, 0.5, 0.25, 0.125)
# Rises of the dual beside the square of the shared vector that are rounding.
ROUNDING = float(np.finfo(float).eps)
# Rounding errors of the shared vector that a step may have, in multiples of those of an epoch: the
# steps before are forgotten then. Conjugacy is lost by that, but errors of steps that are added up
# from each other grow without end where the steps themselves do not. With 100 five hinges took up
# to 1.1 times the passes, with 30 up to 2.2 times, with a million as many (2026-11-29).
MOST_ERRORS = 1e3


class Moved(NamedTuple):
    """The rows of a block that move, where they start, and the directions (k, rows)."""

    cache: Any
    rows: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    start: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, cache: Any, start: np.ndarray, kept: int) -> Moved:
        """Find the rows that changed since `start`, or did by the last steps."""
        dual, weight = cache.dual, cache.weight
        moves = dual.work != start
        for step in dual.steps[:kept]:
            moves |= step != 0.0
        rows = np.flatnonzero(moves)
        at = start[rows]
        directions = np.empty((kept + 1, len(rows)))
        np.subtract(dual.work[rows], at, out=directions[0])
        for k in range(kept):
            np.take(dual.steps[k], rows, out=directions[k + 1])
        weight = read_only(weight[rows]) if len(weight) else weight
        return cls(cache, rows, read_only(cache.y[rows]), weight, at, directions)

    @property
    def after_epochs(self) -> np.ndarray:
        """The dual variables after the epochs."""
        return self.start + self.directions[0]

    def take(self, to: np.ndarray) -> None:
        """Move to these dual variables; rows that were passed over are met again."""
        dual = self.cache.dual
        if len(dual.asleep):
            dual.asleep[self.rows[dual.work[self.rows] != to]] = 0
        dual.work[self.rows] = to

    def keep(self) -> None:
        """Keep the step to where the rows are now, before the others."""
        dual = self.cache.dual
        dual.steps[1:] = dual.steps[:-1]
        dual.steps[0] = 0.0
        dual.steps[0, self.rows] = dual.work[self.rows] - self.start


@dataclass
class Span:
    """The dual at the start + the sum of c_j times direction j, but for bounds.

    The first direction is the change by epochs; `vectors` are the parts of the shared vector that
    belong to them.
    """

    law: Law
    state: DualStateRef
    parts: Sequence[Moved]
    start: np.ndarray
    vectors: Sequence[np.ndarray]

    @property
    def _pull(self) -> float:
        """What multiplies the last entry of the shared vector: all margins contain the offset."""
        return self.state.offset / self.state.bias if self.state.bias else 0.0

    def direction(self, u: np.ndarray) -> np.ndarray:
        """Return the step from after the epochs, at u, to where minus the dual is least."""
        k, C = len(self.vectors), self.state.C
        slope, hessian = np.zeros(k), np.zeros((k, k))
        for part in self.parts:
            self._add_derivatives(part, slope, hessian)
        slope = C * slope + [float(u @ one) + self._pull * float(one[-1]) for one in self.vectors]
        hessian *= C
        for i in range(k):
            for j in range(i + 1):
                hessian[i, j] += float(self.vectors[i] @ self.vectors[j])
                hessian[j, i] = hessian[i, j]
        # scaled, since the change may be far smaller than the previous steps
        scale = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
        system = hessian / np.outer(scale, scale) + 1e-12 * np.eye(k)
        found: np.ndarray = -np.linalg.solve(system, slope / scale) / scale
        return found

    def _add_derivatives(self, part: Moved, slope: np.ndarray, hessian: np.ndarray) -> None:
        """Add those of the conjugates after the epochs, by pairs of directions."""
        at, ways = part.after_epochs, part.directions
        for i, j in combinations(range(len(ways)), 2):
            first, second = np.zeros(2), np.zeros((2, 2))
            line = at, ways[i], ways[j]
            duals.along(self.law, part.y, part.weight, line, (0.0, 0.0), first, second)
            hessian[i, j] += second[0, 1]
            hessian[j, i] += second[0, 1]
            # each direction once: as the second of a pair with the first, which is so with another
            if i == 0:
                slope[j] += first[1]
                hessian[j, j] += second[1, 1]
            if (i, j) == (0, 1):
                slope[0] += first[0]
                hessian[0, 0] += second[0, 0]

    def projected(
        self, c: np.ndarray, u: np.ndarray
    ) -> tuple[float, list[np.ndarray], np.ndarray, int]:
        """Go as far along the directions, but for bounds.

        Returns at least how much higher the dual is there than after the epochs, at u; the dual
        variables; the change of the shared vector; and how many rows were brought back. Values
        would differ by less than their rounding: the slopes of convex conjugates there bound what
        these rise by.
        """
        step = c[0] * self.vectors[0]
        for multiple, vector in zip(c[1:], self.vectors[1:], strict=True):
            step += multiple * vector
        found, first, back = [], np.zeros(2), 0
        for part in self.parts:
            a = part.start + c @ part.directions
            rows = *part.cache.data[:3], part.rows
            back += kernels.project(self.law, rows, (self.state.C, self.state.bias), a, step)
            line = a, (way := a - part.after_epochs), way
            duals.along(self.law, part.y, part.weight, line, (0.0, 0.0), first, np.zeros((2, 2)))
            found.append(a)
        beyond = step - self.vectors[0]
        rise = -self.state.C * first[0] - float(u @ beyond) - self._pull * float(beyond[-1])
        return rise - 0.5 * float(beyond @ beyond), found, step, back


class ConjugateSteps:
    """The steps of one group of threads; caches keep what the last ones were for their rows."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []  # X' C times the last steps
        self.errors: list[float] = []  # of these, as in `MOST_ERRORS`
        self.back = 0  # rows brought back in this round
        self.drift = 0.0  # errors that this round's steps have added

    def begin(self, u: np.ndarray, caches: Sequence[Any]) -> None:
        """Begin a round at the dual variables alpha with the shared vector u, which are kept."""
        self.back, self.drift = 0, 0.0
        if any(m.dual.steps.shape != (KEPT_STEPS, len(m.y)) for m in caches):
            self.forget()
        if not self.kept:
            for m in caches:
                m.dual.steps = np.zeros((KEPT_STEPS, len(m.y)))
        self.start, self.starts = u, [m.dual.alpha for m in caches]

    def forget(self) -> None:
        """Forget the last steps."""
        self.kept, self.errors = [], []

    def take(
        self, law: Law, state: DualStateRef, caches: Sequence[Any], u: np.ndarray, *, last: bool
    ) -> None:
        """Move from u and the dual variables `work`, both in place, unless that lowers the dual.

        `last` says that the round ends here.
        """
        kept, error = len(self.kept), 1.0
        parts = [Moved.of(m, at, kept) for m, at in zip(caches, self.starts, strict=True)]
        change = u - self.start
        if kept:
            span = Span(law, state, parts, self.start, [change, *self.kept])
            change, error = self._move(span, u)
            self.drift += error
        for part in parts:
            part.keep()
        if error > MOST_ERRORS:
            self.forget()
        else:
            self.kept = [change, *self.kept][:KEPT_STEPS]
            self.errors = [error, *self.errors][:KEPT_STEPS]
        if not last:
            self.start, self.starts = u.copy(), [m.dual.work.copy() for m in caches]

    def _move(self, span: Span, u: np.ndarray) -> tuple[np.ndarray, float]:
        """Move to the first point tried whose dual is higher; return the change and its error."""
        direction, least = span.direction(u), ROUNDING * float(u @ u)
        for share in SHARES:
            c = np.clip(np.eye(len(direction))[0] + share * direction, -LONGEST, LONGEST)
            rise, found, step, back = span.projected(c, u)
            self.back += back
            if rise > least:
                np.add(span.start, step, out=u)
                for part, to in zip(span.parts, found, strict=True):
                    part.take(to)
                return step, float(np.abs(c) @ [1.0, *self.errors])
        return span.vectors[0], 1.0
