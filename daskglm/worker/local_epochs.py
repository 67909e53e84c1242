"""The local epochs of one group of threads: sweeps over its rows from a copy of the shared vector.

Replicas and their sum follow CoCoA (Smith et al. 2018, Algorithm 1) among threads: a partition's
own changes enter its replica multiplied by sigma, and the sum of all changes is what the group
gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskglm.core.dual_span import EPOCHS_A_STEP
from daskglm.core.requests import DualRound
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.losses.base import Law
from daskglm.worker.conjugate_steps import OwnSteps
from daskglm.worker.schedule import Group, Slice, assign_buckets

# Doubles between replicas: two cache lines of at most 128 bytes.
APART = 32


def _apart(many: int, size: int) -> np.ndarray:
    """Vectors (many, size) with two cache lines after each.

    Else two threads would write to one line: that made an epoch of 28 features on 2 threads slower
    than on 1.
    """
    return np.empty((many, size + APART))[:, :size]


def limits_of(met: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the projected gradients beyond which rows are passed over: the extremes of others."""
    low, high = min(low for low, _ in met), max(high for _, high in met)
    return low if low < 0.0 else -np.inf, high if high > 0.0 else np.inf


@dataclass
class Run:
    """One group's part of a round, and what came of it.

    `change` is the sum of the group's changes of the shared vector; `joint` and `apart` are the
    squared norms of the partitions' changes added up before and after squaring, whose ratio tells
    how far the partitions get in each other's way; `met` has the extreme projected gradients of
    each sweep, which are the `limits` of the next one.
    """

    law: Law
    request: DualRound
    caches: Sequence[Any]
    group: Group
    number: int
    bucket: int
    limits: tuple[float, float]
    steps: OwnSteps | None = None
    met: list[tuple[float, float]] = field(default_factory=list)
    joint: float = 0.0
    apart: float = 0.0
    change: np.ndarray = field(default_factory=lambda: np.empty(0))

    def go(self) -> None:
        """Run the local epochs."""
        request, plan = self.request, self.request.plan
        u = request.v  # of the caller, and never written to
        if self.steps is not None:
            self.steps.begin(u, self.caches)
        for epoch in range(plan.epochs):
            rng = np.random.default_rng([*request.seed, epoch, self.number])
            shares = assign_buckets(self.group, plan, self.bucket, rng)
            if plan.partitioning == "wild" or self.group.partitions == 1:
                u = u if epoch else u.copy()
                self._sweep_all(shares, [u] * self.group.partitions, request.outer, epoch)
            else:
                u = self._epoch(u, shares, epoch)
            last = epoch + 1 == plan.epochs
            if self.steps is not None and (last or (epoch + 1) % self._epochs_a_step() == 0):
                self.steps.take(self.law, request.state, self.caches, u, last=last)
        u -= request.v
        if request.outer != 1.0:
            u /= request.outer
        self.change = u

    def _epochs_a_step(self) -> int:
        """Return the epochs after which a step is taken; more where vectors are what takes long."""
        values = sum(part.work for part in self.group.ranges)
        return EPOCHS_A_STEP if values > len(self.request.v) else self.request.plan.epochs

    def _epoch(self, u: np.ndarray, shares: list[list[Slice]], epoch: int) -> np.ndarray:
        """Run one epoch with replicas from u.

        Returns u and the sum of the partitions' changes, times the outer sigma.
        """
        outer, inner = self.request.outer, self.request.inner
        starts = [m.dual.work.copy() if epoch else m.dual.alpha for m in self.caches]
        first = _apart(1, len(u))[0]
        others = _apart(self.group.partitions - 1, len(u))
        self._sweep_all(shares, [first, *others], outer * inner, epoch, u)
        cuts = [len(u) * k // self.group.partitions for k in range(self.group.partitions + 1)]
        norms = self.group.map(lambda p: kernels.merge(first, others, u, cuts[p], cuts[p + 1]))
        joint = sum(norm[0] for norm in norms)
        apart = sum(norm[1] for norm in norms)
        self.joint = self.joint + joint
        self.apart = self.apart + apart
        # with changes that point the same way by more than sigma allows, the sum of steps would
        # overshoot
        share = min(1.0, inner * apart / joint) if joint > 0.0 else 1.0
        if share < 1.0:
            for part in self.group.ranges:
                dual = self.caches[part.block].dual
                start = starts[part.block]
                run = slice(part.first, part.stop)
                work = dual.work[run]  # in place: rows may be as many as all their values
                work -= start[run]
                work *= share
                work += start[run]
        self.group.map(lambda p: kernels.advance(u, first, share / inner, cuts[p], cuts[p + 1]))
        return first

    def _sweep_all(
        self,
        shares: list[list[Slice]],
        vectors: list[np.ndarray],
        sigma: float,
        epoch: int,
        u: Any = None,
    ) -> None:
        """Let every partition sweep, each from a copy of u where that is given."""
        # lists of one moment: threads put rows to sleep
        awake = self._awake({part[:3] for share in shares for part in share})

        def work(p: int) -> tuple[float, float]:
            if u is not None:
                np.copyto(vectors[p], u)
            return self._sweep(shares[p], awake, vectors[p], sigma, epoch)

        lows, highs = zip(*self.group.map(work), strict=True)
        self.met.append((min(lows), max(highs)))
        self.limits = limits_of(self.met[-1:])

    def _awake(self, ranges: set[tuple[int, int, int]]) -> dict[tuple[int, int, int], np.ndarray]:
        """List the rows of ranges (block, first, stop) that are not passed over."""
        if not self.request.plan.shrink:
            return {}
        return {
            (block, first, stop): first
            + np.flatnonzero(self.caches[block].dual.asleep[first:stop] == 0)
            for block, first, stop in ranges
        }

    def _sweep(
        self,
        slices: list[Slice],
        awake: dict[tuple[int, int, int], np.ndarray],
        v: np.ndarray,
        sigma: float,
        epoch: int,
    ) -> tuple[float, float]:
        state = self.request.state
        scales = state.C, state.bias, state.offset, sigma, state.threshold or None
        low, high = np.inf, -np.inf
        for part in slices:
            m = self.caches[part.block]
            dual = m.dual.work, m.dual.norms, m.dual.seen[: 0 if epoch else None], m.dual.asleep
            order = part.order(awake.get(part[:3]), self.bucket)
            found = kernels.sweep(self.law, m.data[:3], v, scales, dual, self.limits, order)
            low = min(low, found[0])
            high = max(high, found[1])
        return low, high
