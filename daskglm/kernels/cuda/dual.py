"""What dual requests ask of rows on a device: epochs by teams of threads, and sums over vectors of
dual variables.

A team (a block of threads) takes a row after the other; the teams of a partition share a replica of
the shared vector and work at once, after TPA-SCD (Parnell, Duenner, Atasu, Sifalakis & Pozidis
2017). Replicas are added as on a CPU. Teams that work at once do not see each other's steps. Each
step is therefore damped by the expected overlap 1 + (w - 1)(teams - 1) / (n - 1) of Richtarik &
Takac 2016, w being how many rows share a feature on average, and a round's change is shortened
where the dual would fall along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cupy as cp
import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.requests import DualLine, DualRound, DualStateRef, DualValue, SDCAConfig, Totals
from daskglm.core.soft_threshold import soft_threshold
from daskglm.kernels.cuda import coded, streamed
from daskglm.kernels.cuda import margins as row_kernels
from daskglm.kernels.cuda.launch import (
    NULL,
    THREADS,
    Kernel,
    Workspace,
    add_up,
    arguments_of,
    kernel,
    mode_of,
    numbers,
    pointer,
    processors,
    real,
)
from daskglm.losses.base import POISSON, Law

# Count of the sums of dual_along.
ALONG = 7
# Teams for each multiprocessor, in all partitions.
TEAMS = 8
# Most partitions, unless asked for: each more slows the epochs' progress.
PARTITIONS = 32
BUCKET = 8
# Parts of a round's change that are tried.
STEPS = np.array([1.0, 0.7, 0.5, 0.35, 0.25, 0.1, 0.0])


class OnDevice:
    """Rows of one shard on a device.

    Parameters
    ----------
    facts : sequence of DataSummary
        Of each block.
    n_features : int
    """

    def __init__(self, facts: Sequence[DataSummary], n_features: int) -> None:
        self.n_features = n_features
        self.rows = sum(part.n_rows for part in facts)
        self.workspace = Workspace()
        self.overlap: float | None = None

    def close(self) -> None:
        """Nothing to end."""

    def wake(self, caches: Sequence[Any]) -> None:
        """No row ever rests."""

    def shape(self, plan: SDCAConfig, caches: Sequence[Any]) -> tuple[int, int]:
        """Return the number of groups, which is one, and of the partitions of a plan."""
        return 1, self._layout(plan, caches)[0]

    def _layout(self, plan: SDCAConfig, caches: Sequence[Any]) -> tuple[int, int, float]:
        """Partitions, teams in each, and the damping of their steps.

        By default as many teams share a replica as about double the curvature of a step, and as
        many partitions are made as then keep the device busy.
        """
        if self.overlap is None:
            self.overlap = _overlap([m.rows for m in caches], self.n_features)
        most = TEAMS * processors()
        others = max(self.rows - 1, 1)
        alone = 1 + int(others / max(self.overlap - 1.0, 1e-9 * others))
        if plan.partitioning == "wild":
            return 1, plan.threads or most, 1.0
        teams = plan.threads or max(1, min(alone, most, self.rows))
        partitions = plan.partitions or max(
            1, min(PARTITIONS, most // teams, self.rows // (BUCKET * teams))
        )
        return partitions, teams, 1.0 + (self.overlap - 1.0) * (teams - 1) / others

    # ---- blocks
    def prepare(self, caches: Sequence[Any]) -> None:
        """Give caches that have none the squared norms of their rows, and room for margins."""
        for m in caches:
            if len(m.dual.seen) == len(m.y):
                continue
            m.dual.seen, m.dual.norms = cp.zeros(len(m.y)), cp.zeros(len(m.y))
            m.kernels.squared_norms(m.rows, 0, len(m.y), m.dual.norms)

    def slopes(self, law: Law, cache: Any, w: Any) -> Any:
        """Return minus the slopes of a block's losses at w, which are dual variables for w."""
        n, intercept = len(cache.y), int(len(w) > self.n_features)
        z, slope = cp.empty(n), cp.empty(n)
        cache.kernels.margins(cache.rows, cp.asarray(w), intercept, 0, n, z)
        row_kernels.losses(law, cache.y, None, None, z, slope, None)
        return -slope

    def clip(self, law: Law, cache: Any) -> None:
        """Bring a block's dual variables into the domain of the conjugate."""
        n = len(cache.y)
        args = (np.int64(n), *arguments_of(law), cache.y, cache.dual.alpha)
        function = _on_vectors("dual_clip", law, cache)
        function((function.grid(n, THREADS),), (THREADS,), args)

    # ---- sums
    def totals(
        self,
        state: DualStateRef,
        caches: Sequence[Any],
        v: Any,
        side: bool,
        out: Any,
        anew: bool,
    ) -> Totals:
        """Margins X v into `out`; own and side as in `DualTotals`, own only where `anew`."""
        v, d = cp.asarray(v), self.n_features
        own = cp.zeros(d + 1 if anew else 0)
        part = cp.zeros(d + 1 if side else 0)
        for m, z in zip(caches, out, strict=True):
            n = len(m.y)
            m.kernels.margins(m.rows, v[:d], 0, 0, n, z)
            cost = state.C * (m.weight.astype(np.float64) if len(m.weight) else cp.ones(n))
            if anew:
                m.kernels.backward(m.rows, cost * m.dual.alpha, 0, n, own)
            if side:
                m.kernels.backward(m.rows, cost * (m.dual.alpha * (m.dual.alpha > 0.0)), 0, n, part)
        if anew:
            own[d:] *= state.bias
        return {"own": own, "side": part}

    def sweep(self, law: Law, request: DualRound, caches: Sequence[Any]) -> Totals:
        """Local epochs from alpha to work."""
        plan, outer = request.plan, request.outer
        if plan.shrink:
            raise ValueError(
                "shrinking=True is not offered on a GPU, where passing over a row saves nothing: "
                "leave it out"
            )
        partitions, teams, damp = self._layout(plan, caches)
        inner = request.inner if partitions > 1 else 1.0
        begin = cp.asarray(request.v)
        u = begin.copy()
        joint, apart = 0.0, 0.0
        for epoch in range(plan.epochs):
            starts = [m.dual.work.copy() for m in caches]
            replicas = cp.ascontiguousarray(cp.zeros((partitions, len(u))) + u)
            rng = np.random.default_rng([*request.seed, epoch])
            scales = np.float64(outer * inner), np.float64(damp)
            for m in caches:
                self._epoch(law, m, request, replicas, teams, scales, rng, first=epoch == 0)
            if partitions == 1:
                u = replicas[0]
                continue
            changes = replicas - u
            total = changes.sum(axis=0)
            squares = float((changes * changes).sum()), float(total @ total)
            joint = joint + squares[1]
            apart = apart + squares[0]
            share = min(1.0, inner * squares[0] / squares[1]) if squares[1] > 0.0 else 1.0
            if share < 1.0:
                for m, start in zip(caches, starts, strict=True):
                    m.dual.work[:] = start + share * (m.dual.work - start)
            u = u + (share / inner) * total
        change = (u - begin) / outer
        share = 1.0 if plan.partitioning == "wild" else self._share(law, request, caches, change)
        if share < 1.0:
            change = share * change
            for m in caches:
                m.dual.work[:] = m.dual.alpha + share * (m.dual.work - m.dual.alpha)
        squares_outer = float(change @ change) if outer > 1.0 else 0.0
        return {"change": change, "squares": squares_outer, "inner": np.array([joint, apart])}

    def _epoch(
        self,
        law: Law,
        cache: Any,
        request: DualRound,
        replicas: Any,
        teams: int,
        scales: tuple[np.float64, np.float64],
        rng: np.random.Generator,
        *,
        first: bool,
    ) -> None:
        """Visit all rows of a block once, chunk by chunk where they are streamed.

        `scales` are sigma and the damping of steps.
        """
        state = request.state
        plan = request.plan
        dual = cache.dual
        for lo, hi, rows in _parts(cache.rows):
            n = hi - lo
            name, index = "dual_sweep", "-DINDEX=int"
            if isinstance(rows, coded.Rows):
                name, arrays = "dual_sweep_coded", (*rows.arrays, *rows.tables.arrays)
            elif rows.sparse:
                arrays, index = (*rows.arrays, np.int32(rows.d)), rows.options[1]
            else:
                arrays = rows.X, NULL, NULL, np.int32(0), np.int64(n), np.int32(rows.d)
            length = rows.stored / max(n, 1)
            threads = min(THREADS, max(32, 1 << int(length / 2).bit_length()))
            losses = cache.y[lo:hi], pointer(cache.weight[lo:hi]), np.float64(state.C)
            constant = np.float64(state.bias), np.float64(state.offset)
            made = dual.work[lo:hi], replicas, dual.seen[lo:hi] if first else NULL
            bucket, key = np.int32(plan.bucket or BUCKET), np.int64(rng.integers(1 << 62))
            order = bucket, key, np.int32(plan.partitioning == "static")
            args = (
                *(*arrays, *arguments_of(law), *losses),
                *(dual.norms[lo:hi], *constant, *made, *order),
                *(*scales, np.float64(state.threshold)),
            )
            thresholded = ("-DTHRESHOLDED=1",) if state.threshold else ()
            options = (real(rows.dtype), index, numbers(cache.y), *thresholded)
            function = _kernel_of(law, name, *options)
            function((teams, len(replicas)), (threads,), args)

    def _share(self, law: Law, request: DualRound, caches: Sequence[Any], change: Any) -> float:
        """Choose the part of a change to take: the best of a few by the local model of the dual.

        The model has the square of the change times sigma' among workers, as coordinate steps have;
        with a threshold the penalty's dual as replicas see it. At zero the dual cannot fall. Cost:
        0 passes.
        """
        state, v = request.state, cp.asarray(request.v)
        pull = state.offset / state.bias if state.bias else 0.0
        tried = np.stack([STEPS, np.zeros_like(STEPS)], axis=1)
        values = state.C * self.line(law, DualLine(state, tried), caches)["values"]
        if state.threshold:
            at = v + cp.asarray(request.outer * STEPS)[:, None] * change
            ends = soft_threshold(at, state.threshold)
            squares = (ends * ends).sum(axis=1).get() / request.outer
            values = values + STEPS * (pull * float(change[-1])) + 0.5 * squares
        else:
            linear = float(v @ change) + pull * float(change[-1])
            square = float(change @ change)
            values = values + STEPS * linear + 0.5 * request.outer * STEPS**2 * square
        return float(STEPS[int(np.argmin(values))])

    def estimates(self, law: Law, caches: Sequence[Any]) -> Totals:
        """Conjugates of both states, losses and gaps at the margins met on the way."""

        def given(dual: Any) -> tuple[Any, ...]:
            return dual.alpha, dual.work, dual.seen

        found = self._sums("dual_estimates", law, caches, 4, given)
        return dict(zip(("before", "after", "loss", "gap"), found[0], strict=True))

    def line(self, law: Law, request: DualLine, caches: Sequence[Any]) -> Totals:
        """Conjugates along the last round's change and the previous step."""
        many = len(request.coefficients)
        coefficients = cp.asarray(np.ascontiguousarray(request.coefficients, dtype=np.float64))

        def given(dual: Any) -> tuple[Any, ...]:
            return dual.alpha, dual.work, pointer(dual.previous), coefficients

        found = self._sums("dual_along", law, caches, ALONG, given, many)
        return {
            "values": np.where(found[:, 6] > 0, np.inf, found[:, 0]),
            "slopes": found[:, 1:3],
            "hessians": found[:, [3, 4, 4, 5]].reshape(many, 2, 2),
        }

    def value(self, law: Law, request: DualValue, caches: Sequence[Any]) -> Totals:
        """Conjugates with the positive and the negative variables scaled."""

        def given(dual: Any) -> tuple[Any, ...]:
            return dual.alpha, np.float64(request.positive), np.float64(request.negative)

        return {"value": float(self._sums("dual_value", law, caches, 1, given)[0, 0])}

    def _sums(
        self,
        name: str,
        law: Law,
        caches: Sequence[Any],
        length: int,
        given: Callable[[Any], tuple[Any, ...]],
        many: int = 1,
    ) -> np.ndarray:
        """Return what a kernel adds up over all rows, for `many` combinations (many, length).

        `given` are its arguments between weights and sums, by a block's dual variables.
        """
        out = cp.zeros(many * length)
        for m in caches:
            n, function = len(m.y), _on_vectors(name, law, m)
            grid = function.grid(n, THREADS, beside=many)
            partial = self.workspace.get("partial", grid * many * length)
            rows = np.int64(n), *arguments_of(law), m.y, pointer(m.weight)
            function((grid, many), (THREADS,), (*rows, *given(m.dual), partial))
            add_up(partial, grid, many * length, out)
        found: np.ndarray = out.get().reshape(many, length)
        return found


def _parts(rows: Any) -> Any:
    """Cut rows into those that a kernel can take at once, with their places."""
    return rows.chunks() if isinstance(rows, streamed.Rows) else [(0, rows.n, rows)]


def _overlap(many: Sequence[Any], d: int) -> float:
    """Return how many rows have a feature, averaged over stored values: n for dense rows."""
    rows = sum(part.n for part in many)
    if any(not part.sparse for part in many):
        return float(rows)
    counts = np.zeros(d)
    for part in many:
        counts += part.column_counts()
    return float((counts * counts).sum() / max(counts.sum(), 1.0))


def _kernel_of(law: Law, name: str, *types: str) -> Kernel:
    """Return a kernel for a loss: one for each loss of a family, and one for all others."""
    mode = (mode_of(law),) if law[0] >= POISSON else ()
    files = ("dual", "codes", "dual_coded") if name == "dual_sweep_coded" else ("dual",)
    return kernel(files, name, *types, *mode)


def _on_vectors(name: str, law: Law, cache: Any) -> Kernel:
    return _kernel_of(law, name, real(np.float64), "-DINDEX=int", numbers(cache.y))
