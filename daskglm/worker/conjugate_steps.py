"""Steps between epochs in the plane of what the epochs changed and of the step before.

That is a nonlinear conjugate gradient method, preconditioned by epochs and projected on the bounds
of the dual variables (Silcowitz et al. 2010, for Gauss-Seidel). Once the rows at a bound are
settled the dual is a quadratic in the others. A step without a projection is as short as the way of
the first row to its bound; what rows moved too far are brought back costs a product with these
rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.requests import DualStateRef
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.losses import conjugates as duals
from daskglm.losses.base import Law

# Epochs after which a step is taken. On three sets of text and a table steps after 1, 2 and 4
# epochs were about as good (2026-11-29), and a step takes as long as a sixth of an epoch.
EPOCHS_A_STEP = 2
# Multiples of a change that a step may take: see `duals.dual.LONGEST`. Chosen.
LONGEST = 8.0
# Shares of the way to the best of the plane that are tried: bounds may be in the way. Chosen.
SHARES = (1.0, 0.5, 0.25, 0.125)


class Moved(NamedTuple):
    """The rows of a block that move: where they start, and both directions."""

    cache: Any
    rows: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    line: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, cache: Any, start: np.ndarray) -> Moved:
        """Find the rows that changed since `start`, or did by the step before."""
        dual = cache.dual
        rows = np.flatnonzero((dual.work != start) | (dual.step != 0.0))
        at, weight = start[rows], cache.weight
        line = at, dual.work[rows] - at, dual.step[rows]
        return cls(cache, rows, cache.y[rows], weight[rows] if len(weight) else weight, line)

    def take(self, to: np.ndarray) -> None:
        """Move to these dual variables; rows that were passed over are met again."""
        dual = self.cache.dual
        if len(dual.asleep):
            dual.asleep[self.rows[dual.work[self.rows] != to]] = 0
        dual.work[self.rows] = to


@dataclass
class Plane:
    """The dual over the start + c1 (change by epochs) + c2 (the step before), but for bounds.

    `change` and `previous` are the parts of the shared vector that belong to both directions.
    """

    law: Law
    state: DualStateRef
    parts: Sequence[Moved]
    start: np.ndarray
    change: np.ndarray
    previous: np.ndarray

    @property
    def _pull(self) -> float:
        """What multiplies the last entry of the shared vector: all margins contain the offset."""
        return self.state.offset / self.state.bias if self.state.bias else 0.0

    def _value(self, conjugates: float, u: np.ndarray) -> float:
        """Minus the dual value."""
        return self.state.C * conjugates + 0.5 * float(u @ u) + self._pull * float(u[-1])

    def after_epochs(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value after the epochs, at (1, 0), and the step from there to the least."""
        slope, hessian, total, C = np.zeros(2), np.zeros((2, 2)), 0.0, self.state.C
        for part in self.parts:
            total += duals.along(
                self.law, part.y, part.weight, part.line, (1.0, 0.0), slope, hessian
            )
        both = self.change, self.previous
        slope = C * slope + [float(u @ one) + self._pull * float(one[-1]) for one in both]
        hessian = C * hessian + [[float(one @ other) for other in both] for one in both]
        # scaled, since the change may be far smaller than the previous step
        scale = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
        system = hessian / np.outer(scale, scale) + 1e-12 * np.eye(2)
        return self._value(total, u), -np.linalg.solve(system, slope / scale) / scale

    def projected(self, steps: np.ndarray) -> tuple[float, list[np.ndarray], np.ndarray, int]:
        """Return value, dual variables and change of the shared vector there, within the bounds.

        The last is the number of rows that were brought back.
        """
        state, (c1, c2) = self.state, map(float, steps)
        step = c1 * self.change
        step += c2 * self.previous
        found, total, back = [], 0.0, 0
        for part in self.parts:
            a, scales = np.empty(len(part.rows)), (state.C, state.bias, c1, c2)
            rows = *part.cache.data[:3], part.rows
            back += kernels.project(self.law, rows, part.line, scales, a, step)
            total += duals.conjugates(self.law, part.y, a, part.weight)
            found.append(a)
        return self._value(total, self.start + step), found, step, back


class ConjugateSteps:
    """The steps of one group of threads; caches keep what the last one was for their rows."""

    def __init__(self) -> None:
        self.previous = np.empty(0)  # X' C times the last step
        self.back = 0  # rows brought back in this round
        self.drift = 0.0  # multiples that the shared vector was added up by

    def begin(self, u: np.ndarray, caches: Sequence[Any]) -> None:
        """Begin a round at the dual variables alpha with the shared vector u, which are kept."""
        self.back, self.drift = 0, 0.0
        if not len(self.previous) or any(len(m.dual.step) != len(m.y) for m in caches):
            self.previous = np.zeros(0)
            for m in caches:
                m.dual.step = np.zeros(len(m.y))
        self._start(u, [m.dual.alpha for m in caches])

    def _start(self, u: np.ndarray, starts: Sequence[np.ndarray]) -> None:
        self.u, self.starts = u, starts

    def take(
        self, law: Law, state: DualStateRef, caches: Sequence[Any], u: np.ndarray, *, last: bool
    ) -> None:
        """Move from u and the dual variables `work`, both in place, unless that lowers the dual.

        `last` says that the round ends here.
        """
        parts = [Moved.of(m, start) for m, start in zip(caches, self.starts, strict=True)]
        change = u - self.u
        taken = None
        if len(self.previous):
            plane = Plane(law, state, parts, self.u, change, self.previous)
            taken = next(self._better(plane, u), None)
        if taken is not None:
            found, change = taken
            np.add(self.u, change, out=u)
            for part, to in zip(parts, found, strict=True):
                part.take(to)
        self.previous = change
        for part in parts:
            part.cache.dual.step[part.rows] = part.cache.dual.work[part.rows] - part.line[0]
        if not last:
            self._start(u.copy(), [m.dual.work.copy() for m in caches])

    def _better(
        self, plane: Plane, u: np.ndarray
    ) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """Yield the points tried that are better than that after the epochs."""
        value, direction = plane.after_epochs(u)
        for share in SHARES:
            steps = np.clip([1.0, 0.0] + share * direction, -LONGEST, LONGEST)
            tried, found, step, back = plane.projected(steps)
            self.back += back
            if tried < value:
                self.drift += float(np.abs(steps).sum())
                yield found, step
