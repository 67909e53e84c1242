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

from daskglm.core.requests import DualRound
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.losses.base import Law
from daskglm.worker.schedule import Group, Slice, assign_buckets

# Doubles between replicas: two cache lines of at most 128 bytes.
APART = 32


def _apart(many: int, size: int) -> np.ndarray:
    """Vectors (many, size) with two cache lines after each.

    Else two threads would write to one line: that made an epoch of 28 features on 2 threads slower
    than on 1.
    """
    return np.empty((many, size + APART))[:, :size]


@dataclass
class Run:
    """One group's part of a round, and what came of it.

    `change` is the sum of the group's changes of the shared vector; `joint` and `apart` are the
    squared norms of the partitions' changes added up before and after squaring, whose ratio tells
    how far the partitions get in each other's way; `low` and `high` are the extreme projected
    gradients met.
    """

    law: Law
    request: DualRound
    caches: Sequence[Any]
    group: Group
    number: int
    bucket: int
    limits: tuple[float, float]
    low: float = np.inf
    high: float = -np.inf
    joint: float = 0.0
    apart: float = 0.0
    change: np.ndarray = field(default_factory=lambda: np.empty(0))

    def go(self) -> None:
        """Run the local epochs."""
        request, plan = self.request, self.request.plan
        u = request.v  # of the caller, and never written to
        for epoch in range(plan.epochs):
            rng = np.random.default_rng([*request.seed, epoch, self.number])
            shares = assign_buckets(self.group, plan, self.bucket, rng)
            if plan.partitioning == "wild" or self.group.partitions == 1:
                u = u if epoch else u.copy()
                self._sweep_all(shares, [u] * self.group.partitions, request.outer, epoch)
            else:
                u = self._epoch(u, shares, epoch)
        u -= request.v
        if request.outer != 1.0:
            u /= request.outer
        self.change = u

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

        def work(p: int) -> tuple[float, float]:
            if u is not None:
                np.copyto(vectors[p], u)
            return self._sweep(shares[p], vectors[p], sigma, epoch)

        for low, high in self.group.map(work):
            self.low = min(self.low, low)
            self.high = max(self.high, high)

    def _sweep(
        self, slices: list[Slice], v: np.ndarray, sigma: float, epoch: int
    ) -> tuple[float, float]:
        state = self.request.state
        scales = state.C, state.bias, state.offset, sigma, state.threshold or None
        low, high = np.inf, -np.inf
        for part in slices:
            m = self.caches[part.block]
            dual = m.dual.work, m.dual.norms, m.dual.seen[: 0 if epoch else None], m.dual.asleep
            order = part.first, part.stop, self.bucket, part.key, part.begin, part.end
            found = kernels.sweep(self.law, m.data[:3], v, scales, dual, self.limits, order)
            low = min(low, found[0])
            high = max(high, found[1])
        return low, high
