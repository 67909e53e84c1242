"""Dual coordinate ascent beside the data: local epochs over the rows of one worker, and the state that they leave.

`Ascent` answers the dual requests for a `Shard`. Rows are split over groups of threads (one per NUMA node) for good;
within a group buckets of rows are dealt to partitions anew at each epoch. A partition has a replica of the shared
vector, so threads share nothing but X. Dual variables belong to blocks and may be forgotten: requests rebuild them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from daskglm import duals
from daskglm.dealing import Group, bucket_rows, groups_of
from daskglm.epochs import Run
from daskglm.kernels import dual as kernels
from daskglm.losses import tile
from daskglm.messages import (
    Committed,
    DualLine,
    DualRequest,
    DualRound,
    DualShape,
    DualTotals,
    DualValue,
    Facts,
    Plan,
    Totals,
)

Work = Callable[[list[tuple[int, int, int]]], Totals]


class DualMemo:
    """What one block remembers of the ascent: its dual variables at a numbered state, and those the next may take."""

    def __init__(self, n: int) -> None:
        self.number: int | None = None
        self.alpha = np.zeros(n)
        self.work = np.zeros(n)
        self.previous = np.empty(0)
        self.seen = np.zeros(n)
        self.asleep = np.empty(0, np.uint8)
        self.norms = np.empty(n)

    def commit(self, code: int, y: np.ndarray, state: Committed) -> None:
        """Move to the committed state from the one before."""
        c1, c2 = state.commit
        if state.keep or c2 != 0.0:
            step = c1 * (self.work - self.alpha)
            if c2 != 0.0 and len(self.previous):
                step += c2 * self.previous
            self.alpha += step
            self.previous = step
            kernels.clip(code, y, self.alpha, 0, len(y))
        elif c1 == 1.0:
            self.alpha, self.work = self.work, self.alpha
        else:
            self.alpha += c1 * (self.work - self.alpha)
        self.number = state.number

    def restart(self, alpha: np.ndarray, number: int) -> None:
        """Take up a state without a past."""
        self.alpha, self.number = alpha, number
        self.work = alpha.copy()
        self.previous = np.empty(0)


class Ascent:
    """The dual side of one shard.

    Parameters
    ----------
    facts : sequence of Facts
        Of each block.
    n_features, threads : int
    each : callable
        Runs a function of (block, first, stop) pieces on the shard's threads and adds what it returns.
    """

    def __init__(self, facts: Sequence[Facts], n_features: int, threads: int, each: Callable[[Work], Totals]) -> None:
        self.facts, self.n_features, self.threads, self.each = facts, n_features, threads, each
        self.rows = sum(part.n_rows for part in facts)
        self.bucket = bucket_rows(self.rows, sum(part.nbytes for part in facts))
        self.number: int | None = None
        self.own = self.change = self.previous = np.empty(0)
        self.limits = (-np.inf, np.inf)
        self.groups: dict[Any, list[Group]] = {}

    def close(self) -> None:
        """End the threads."""
        for groups in self.groups.values():
            for group in groups:
                group.close()

    def answer(self, code: int, request: DualRequest, memos: Sequence[Any]) -> Totals:
        """Reply to one dual request with sums over all rows of the shard."""
        if isinstance(request, DualShape):
            groups = self._groups(request.plan, memos)
            return {"groups": len(groups), "partitions": sum(group.partitions for group in groups), "rows": 0}
        read = self._bring(code, request.state, memos)
        if isinstance(request, DualRound):
            totals = self._round(code, request, memos)
        elif isinstance(request, DualLine):
            totals = self._line(code, request, memos)
        elif isinstance(request, DualTotals):
            totals = self._totals(request, memos)
        else:
            totals = self._value(code, request, memos)
        totals["rows"] = totals.get("rows", 0) + read
        totals["rebuilt"] = read
        return totals

    # ------------------------------------------------------------------ state
    def _bring(self, code: int, state: Committed, memos: Sequence[Any]) -> int:
        """Bring all blocks and the shard to the committed state; return how many rows had to be read for it."""
        lost, fresh = [], []
        for m in memos:
            if m.dual is None:
                m.dual = DualMemo(len(m.y))
                fresh.append(m)
            if m.dual.number == state.number:
                continue
            if m.dual.number is None or m.dual.number != state.before:
                lost.append(m)
            else:
                m.dual.commit(code, m.y, state)
        if fresh:
            self.each(partial(_norms, memos))
        for m in lost:
            m.dual.restart(self._from_primal(code, m, state), state.number)
        if self.number == state.number and not lost:
            return 0
        if self.number is not None and self.number == state.before and not lost:
            c1, c2 = state.commit
            step = self.change if c1 == 1.0 else c1 * self.change
            if c2 != 0.0:
                step = step + c2 * self.previous
            self.own, self.previous = self.own + step, step
            read = 0
        else:
            self.own = self._read(state, memos)
            self.previous = self.change = np.zeros_like(self.own)
            read = self.rows if state.w is not None else 0
            self.limits = (-np.inf, np.inf)
        self.number = state.number
        return read

    def _from_primal(self, code: int, m: Any, state: Committed) -> np.ndarray:
        """Dual variables of a block as the primal point has them: minus the slopes at its margins."""
        n = len(m.y)
        if state.w is None:
            return np.zeros(n)
        z, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
        d = self.n_features
        m.kernels.margins(m.rows, state.w[:d], float(state.w[d]) if len(state.w) > d else 0.0, 0, n, z)
        tile(code, m.y, z, np.empty(0), slope, curvature)
        return -slope

    def _read(self, state: Committed, memos: Sequence[Any]) -> np.ndarray:
        """X' C alpha and its sum, from the rows."""
        zero = np.zeros(self.n_features + 1)
        if state.w is None:
            return zero
        out = [np.empty(len(m.y)) for m in memos]
        return np.asarray(self._pass(state, memos, zero, None, out, anew=True)["own"])

    def _pass(
        self, state: Committed, memos: Sequence[Any], v: np.ndarray, side: bool | None, out: Any, *, anew: bool
    ) -> Totals:
        def work(pieces: list[tuple[int, int, int]]) -> Totals:
            own, part = np.zeros(len(v) if anew else 0), np.zeros(len(v) if side is not None else 0)
            for i, lo, hi in pieces:
                m = memos[i]
                kernels.totals(m.rows, m.y, m.weight, state.C, m.dual.alpha, v, lo, hi, out[i], own, part, side is True)
            return {"own": own, "side": part}

        totals = self.each(work)
        if anew:
            totals["own"][-1] *= state.bias
        return totals

    # ------------------------------------------------------------------ requests
    def _round(self, code: int, request: DualRound, memos: Sequence[Any]) -> Totals:
        plan = request.plan
        for m in memos:
            np.copyto(m.dual.work, m.dual.alpha)
            if plan.shrink and not len(m.dual.asleep):
                m.dual.asleep = np.zeros(len(m.y), np.uint8)
        runs = [
            Run(code, request, memos, group, k, plan.bucket or self.bucket, self.limits)
            for k, group in enumerate(self._groups(plan, memos))
        ]
        if len(runs) == 1:
            runs[0].go()
        else:
            with ThreadPoolExecutor(len(runs)) as coordinators:
                list(coordinators.map(Run.go, runs))
        low, high = min(run.low for run in runs), max(run.high for run in runs)
        self.limits = (low if low < 0 else -np.inf, high if high > 0 else np.inf)
        self.change = sum((run.change for run in runs[1:]), runs[0].change)

        def work(pieces: list[tuple[int, int, int]]) -> Totals:
            before = after = gap = loss = 0.0
            for i, lo, hi in pieces:
                m = memos[i]
                y, weight, a, z = m.y[lo:hi], m.weight[lo:hi], m.dual.alpha[lo:hi], m.dual.seen[lo:hi]
                conjugate, value = duals.conjugates(code, y, a, weight), duals.losses(code, y, z, weight)
                before += conjugate
                after += duals.conjugates(code, y, m.dual.work[lo:hi], weight)
                loss += value
                gap += value + conjugate + duals.products(z, a, weight)
            return {"before": before, "after": after, "gap": gap, "loss": loss}

        return {
            **self.each(work),
            "own": self.own,
            "change": self.change,
            "squares": sum(float(run.change @ run.change) for run in runs) if request.outer > 1.0 else 0.0,
            "inner": np.array([sum(run.joint for run in runs), sum(run.apart for run in runs)]),
            "rows": plan.epochs * self.rows,
        }

    def _groups(self, plan: Plan, memos: Sequence[Any]) -> list[Group]:
        key = (plan.partitioning, plan.partitions, plan.nodes, plan.threads)
        if key not in self.groups:
            address = memos[0].address if memos else 0
            self.groups[key] = groups_of(plan, self.facts, plan.threads or self.threads, address)
        return self.groups[key]

    def _line(self, code: int, request: DualLine, memos: Sequence[Any]) -> Totals:
        many = len(request.coefficients)

        def work(pieces: list[tuple[int, int, int]]) -> Totals:
            values, slopes, hessians = np.zeros(many), np.zeros((many, 2)), np.zeros((many, 2, 2))
            for i, lo, hi in pieces:
                m, dual = memos[i], memos[i].dual
                pending = dual.work[lo:hi] - dual.alpha[lo:hi]
                previous = dual.previous[lo:hi] if len(dual.previous) else np.zeros(hi - lo)
                for k, (c1, c2) in enumerate(request.coefficients):
                    values[k] += duals.along(
                        code, m.y[lo:hi], m.weight[lo:hi], dual.alpha[lo:hi], pending, previous, c1, c2,
                        slopes[k], hessians[k],
                    )  # fmt: skip
            return {"values": values, "slopes": slopes, "hessians": hessians}

        return self.each(work)

    def _totals(self, request: DualTotals, memos: Sequence[Any]) -> Totals:
        out = []
        for m in memos:
            m.reserve(request.token)
            out.append(m.margins[request.token])
            m.dual.asleep[:] = 0
        self.limits = (-np.inf, np.inf)
        totals = self._pass(request.state, memos, request.v, request.side, out, anew=request.anew)
        if request.anew:
            self.own = totals["own"].copy()
        return {"own": self.own, "side": totals["side"], "rows": self.rows}

    def _value(self, code: int, request: DualValue, memos: Sequence[Any]) -> Totals:
        def work(pieces: list[tuple[int, int, int]]) -> Totals:
            total = 0.0
            for i, lo, hi in pieces:
                m = memos[i]
                y = m.y[lo:hi]
                scale = np.where(y > 0, request.positive, request.negative)
                total += duals.conjugates(code, y, scale * m.dual.alpha[lo:hi] + request.shift, m.weight[lo:hi])
            return {"value": total}

        return self.each(work)


def _norms(memos: Sequence[Any], pieces: list[tuple[int, int, int]]) -> Totals:
    for i, lo, hi in pieces:
        kernels.squared_norms(memos[i].rows, lo, hi, memos[i].dual.norms)
    return {}
