"""What dual requests ask of rows in host memory: local epochs on groups of threads, and sums over
pieces of blocks.

Rows are split over groups of threads (one per NUMA node) for good; within a group buckets of rows
are assigned to partitions anew at each epoch. A partition has a replica of the shared vector, so
threads share nothing but X.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.requests import (
    DualInterior,
    DualLine,
    DualMove,
    DualRound,
    DualSpan,
    DualStateRef,
    DualValue,
    SDCAConfig,
    Totals,
)
from daskglm.core.summation import AT_ONCE
from daskglm.kernels import coordinate_ascent as kernels
from daskglm.kernels import margins
from daskglm.kernels.records import NO_NUMBERS
from daskglm.kernels.storages import row_values
from daskglm.losses import conjugates as duals
from daskglm.losses.base import Law
from daskglm.worker import interior_points
from daskglm.worker.conjugate_steps import Moved, OwnSteps, derivatives
from daskglm.worker.local_epochs import Run, limits_of
from daskglm.worker.schedule import Group, bucket_rows, groups_of, threads_for

# Share of the spread of projected gradients over all rows from which those of rows that are awake
# tell little of the others. Chosen.
AWAKE = 0.1

Pieces = list[tuple[int, int, int]]


def _spread(met: Sequence[tuple[float, float]]) -> float:
    """Return how far projected gradients spread, zero among them."""
    return max(0.0, *(high for _, high in met)) - min(0.0, *(low for low, _ in met))


class OnThreads:
    """Rows of one shard in host memory.

    Parameters
    ----------
    facts : sequence of DataSummary
        Of each block.
    n_features, threads : int
    each : callable
        Runs a function of (block, first, stop) pieces on the shard's threads and adds what it
        returns.
    """

    def __init__(
        self,
        facts: Sequence[DataSummary],
        n_features: int,
        threads: int,
        each: Callable[[Callable[[Pieces], Totals]], Totals],
    ) -> None:
        self.facts = facts
        self.n_features = n_features
        self.threads = threads
        self.each = each
        self.rows = sum(part.n_rows for part in facts)
        self.bucket = bucket_rows(self.rows, sum(part.nbytes for part in facts))
        self.limits = (-np.inf, np.inf)
        self.spread = np.inf  # of projected gradients, when all rows were met last
        self.all_awake = True
        self.steps = OwnSteps()
        self.inside: interior_points.OverBlocks | None = None
        self.moved: list[Moved] = []  # between a `DualSpan` and the next state
        self.groups: dict[Any, list[Group]] = {}

    def close(self) -> None:
        """End the threads."""
        for groups in self.groups.values():
            for group in groups:
                group.close()

    def wake(self, caches: Sequence[Any]) -> None:
        """Make all rows active that shrinking had left out."""
        self.limits, self.all_awake = (-np.inf, np.inf), True
        for m in caches:
            m.dual.asleep[:] = 0

    def shape(self, plan: SDCAConfig, caches: Sequence[Any]) -> tuple[int, int]:
        """Groups and partitions that a plan divides the rows into."""
        groups = self._groups(plan, caches)
        return len(groups), sum(group.partitions for group in groups)

    def _groups(self, plan: SDCAConfig, caches: Sequence[Any]) -> list[Group]:
        key = (plan.partitioning, plan.partitions, plan.nodes, plan.threads)
        if key not in self.groups:
            address = caches[0].address if caches else 0
            threads = plan.threads or threads_for(plan, self.facts, self.threads)
            self.groups[key] = groups_of(plan, self.facts, threads, address)
        return self.groups[key]

    # ---- blocks
    def prepare(self, caches: Sequence[Any]) -> None:
        """Give caches that have none the squared norms of their rows and room for the margins met.

        Neither has to be exact, and the dtype of the rows holds both (see
        `blocks.LARGEST_FLOAT32`): the gaps that margins give do not change to first order with
        them. Of a pattern, norms are the numbers of its places.
        """
        fresh = {i for i, m in enumerate(caches) if len(m.dual.seen) != len(m.y)}
        for i in fresh:
            m = caches[i]
            values, kept = row_values(m.rows)
            m.dual.seen = np.zeros(len(m.y), values)
            m.dual.norms = np.empty(len(m.y) if kept else 0, values)

        def work(pieces: Pieces) -> Totals:
            for i, lo, hi in pieces:
                if i in fresh and len(caches[i].dual.norms):
                    kernels.squared_norms(caches[i].rows, lo, hi, caches[i].dual.norms)
            return {}

        self.each(work)

    def slopes(self, law: Law, cache: Any, w: np.ndarray) -> np.ndarray:
        """Return minus the slopes of a block's losses at w, which are dual variables for w."""
        n, d = len(cache.y), self.n_features
        z = np.empty(n)
        slope = np.empty(n)
        cache.kernels.margins(cache.rows, w[:d], float(w[d]) if len(w) > d else 0.0, 0, n, z)
        margins.slopes(law, cache.y, NO_NUMBERS, NO_NUMBERS, z, 0, n, slope)
        return -slope

    def clip(self, law: Law, cache: Any) -> None:
        """Bring a block's dual variables into the domain of the conjugate."""
        kernels.clip(law, cache.y, cache.dual.alpha, 0, len(cache.y))

    # ---- sums
    def totals(
        self,
        state: DualStateRef,
        caches: Sequence[Any],
        v: np.ndarray,
        side: bool,
        out: Any,
        anew: bool,
    ) -> Totals:
        """Margins X v into `out`; own and side as in `DualTotals`, own only where `anew`."""

        def work(pieces: Pieces) -> Totals:
            own = np.zeros(len(v) if anew else 0)
            part = np.zeros(len(v) if side else 0)
            for i, lo, hi in pieces:
                m = caches[i]
                made = out[i], own, part
                kernels.totals(m.rows, m.weight, state.C, m.dual.alpha, v, lo, hi, made)
            return {"own": own, "side": part}

        totals = self.each(work)
        if anew:
            totals["own"][-1] *= state.bias
        return totals

    def sweep(self, law: Law, request: DualRound, caches: Sequence[Any]) -> Totals:
        """Local epochs from alpha to work, each group on its threads."""
        plan = request.plan
        for m in caches:
            if plan.shrink and not len(m.dual.asleep):
                m.dual.asleep = np.zeros(len(m.y), np.uint8)
        steps = self.steps if plan.steps else None
        runs = [
            Run(law, request, caches, group, k, plan.bucket or self.bucket, self.limits, steps)
            for k, group in enumerate(self._groups(plan, caches))
        ]
        if len(runs) == 1:
            runs[0].go()
        else:
            with ThreadPoolExecutor(len(runs)) as coordinators:
                list(coordinators.map(Run.go, runs))
        first, last = [run.met[0] for run in runs], [run.met[-1] for run in runs]
        self.limits = limits_of(last)
        if self.all_awake or not plan.shrink:
            self.spread, self.all_awake = _spread(first), False
        elif _spread(last) <= AWAKE * self.spread:
            self.wake(caches)
        return {
            "change": sum((run.change for run in runs[1:]), runs[0].change),
            "squares": sum(float(run.change @ run.change) for run in runs)
            if request.outer > 1.0
            else 0.0,
            "inner": np.array([sum(run.joint for run in runs), sum(run.apart for run in runs)]),
            **({} if steps is None else {"back": steps.back, "drift": steps.drift}),
        }

    def estimates(self, law: Law, caches: Sequence[Any]) -> Totals:
        """Conjugates of both states, losses and gaps at the margins met on the way."""

        def work(pieces: Pieces) -> Totals:
            before = after = gap = loss = 0.0
            for i, lo, hi in pieces:
                m = caches[i]
                y = m.y[lo:hi]
                weight = m.weight[lo:hi]
                a = m.dual.alpha[lo:hi]
                z = m.dual.seen[lo:hi]
                conjugate = duals.conjugates(law, y, a, weight)
                value = duals.losses(law, y, z, weight)
                before += conjugate
                after += duals.conjugates(law, y, m.dual.work[lo:hi], weight)
                loss += value
                gap += value + conjugate + duals.products(z, a, weight)
            return {"before": before, "after": after, "gap": gap, "loss": loss}

        return self.each(work)

    def line(self, law: Law, request: DualLine, caches: Sequence[Any]) -> Totals:
        """Conjugates along the last round's change and the previous step."""
        many = len(request.coefficients)

        def work(pieces: Pieces) -> Totals:
            values = np.zeros(many)
            slopes = np.zeros((many, 2))
            hessians = np.zeros((many, 2, 2))
            for i, lo, hi in pieces:
                m, dual = caches[i], caches[i].dual
                pending = dual.work[lo:hi] - dual.alpha[lo:hi]
                previous = dual.previous[lo:hi] if len(dual.previous) else np.zeros(hi - lo)
                line = dual.alpha[lo:hi], pending, previous
                y, weight = m.y[lo:hi], m.weight[lo:hi]
                for k, (c1, c2) in enumerate(request.coefficients):
                    values[k] += duals.along(law, y, weight, line, (c1, c2), slopes[k], hessians[k])
            return {"values": values, "slopes": slopes, "hessians": hessians}

        return self.each(work)

    def span(self, law: Law, request: DualSpan, caches: Sequence[Any]) -> Totals:
        """Derivatives of the conjugates along the last round's change and the kept steps."""
        kept = request.kept
        self.moved = [Moved.of(m, m.dual.alpha, m.dual.kept[:kept], kept) for m in caches]
        return derivatives(law, self.moved, request.kept + 1)

    def move(self, law: Law, request: DualMove, vector: np.ndarray) -> Totals:
        """Go to multiples of these, projected on the domain; `vector` follows."""
        slopes = np.zeros(2)
        back = sum(
            part.go(law, request.state, request.multiples, vector, slopes) for part in self.moved
        )
        return {"slopes": slopes, "back": back}

    def interior(self, request: DualInterior, caches: Sequence[Any]) -> Totals:
        """Take a step of interior points, or go to the best variables that they went through."""
        self.wake(caches)
        if request.way == "begin" or self.inside is None:
            self.inside = interior_points.OverBlocks(request, caches, self.n_features)
        found = self.inside.answer(request, caches)
        if request.way == "best":
            self.inside = None  # a copy of the rows, and their Gram
        return found

    def value(self, law: Law, request: DualValue, caches: Sequence[Any]) -> Totals:
        """Conjugates with the positive and the negative variables scaled."""

        def work(pieces: Pieces) -> Totals:
            total = 0.0
            for i, lo, hi in pieces:
                m = caches[i]
                for first in range(lo, hi, AT_ONCE):
                    run = slice(first, min(first + AT_ONCE, hi))
                    a = m.dual.alpha[run]
                    a = np.where(a > 0.0, request.positive, request.negative) * a
                    total += duals.conjugates(law, m.y[run], a, m.weight[run])
            return {"value": total}

        return self.each(work)
