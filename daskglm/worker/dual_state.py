"""Numbered states of the dual variables on a worker, and the steps from one to the next.

`DualWorker` answers the dual requests for a `Shard`. A backend reads the rows:
`dual_cpu.OnThreads` for rows in host memory, `kernels.cuda.dual.OnDevice` for those on a GPU. Dual
variables are cached in blocks and may be lost: requests rebuild them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import (
    DualInterior,
    DualLine,
    DualLoad,
    DualMove,
    DualRequest,
    DualRound,
    DualSave,
    DualShape,
    DualSpan,
    DualStateRef,
    DualTotals,
    DualValue,
    SDCAConfig,
    Totals,
)
from daskglm.data import row_files as chunks
from daskglm.losses.base import Law

OfState = (
    DualRound | DualLine | DualSpan | DualMove | DualInterior | DualTotals | DualSave | DualValue
)


class DualBackend(Protocol):
    """What the ascent asks of rows, wherever they are; all sums are over all rows of the shard."""

    rows: int

    def shape(self, plan: SDCAConfig, caches: Sequence[Any]) -> tuple[int, int]:
        """Groups and partitions that a plan divides the rows into."""

    def prepare(self, caches: Sequence[Any]) -> None:
        """Give caches that have none the squared norms of their rows, and room for margins."""

    def slopes(self, law: Law, cache: Any, w: Any) -> Any:
        """Minus the slopes of a block's losses at w."""

    def clip(self, law: Law, cache: Any) -> None:
        """Bring a block's dual variables into the domain of the conjugate."""

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

    def sweep(self, law: Law, request: DualRound, caches: Sequence[Any]) -> Totals:
        """Local epochs from alpha to work. Reply: change, squares, inner."""

    def estimates(self, law: Law, caches: Sequence[Any]) -> Totals:
        """Before, after, loss and gap as in `DualRound`."""

    def line(self, law: Law, request: DualLine, caches: Sequence[Any]) -> Totals:
        """Answer a `DualLine`."""

    def span(self, law: Law, request: DualSpan, caches: Sequence[Any]) -> Totals:
        """Answer a `DualSpan`, and keep the rows that move."""

    def move(self, law: Law, request: DualMove, vector: Any) -> Totals:
        """Answer a `DualMove`, but for what `vector` becomes, and count the rows outside: back.

        `vector` is X' C times the step before rows are brought back.
        """

    def interior(self, request: DualInterior, caches: Sequence[Any]) -> Totals:
        """Answer a `DualInterior` but for the change, with the variables in `work`."""

    def value(self, law: Law, request: DualValue, caches: Sequence[Any]) -> Totals:
        """Answer a `DualValue`."""

    def wake(self, caches: Sequence[Any]) -> None:
        """Make all rows active that shrinking had left out."""

    def close(self) -> None:
        """End the threads."""


class DualCache:
    """Cache of one block for dual ascent: dual variables at a numbered state, and candidates.

    Candidates are for the next state. It also has the squared norms of rows (empty: they follow
    from the pattern) and the margins that the last round met.
    """

    def __init__(self, n: int, zeros: Callable[[int], Any]) -> None:
        self.number: int | None = None
        self.alpha, self.work = zeros(n), zeros(n)
        self.seen = self.norms = zeros(0)
        self.none = zeros(0)
        # the last steps, the newest first: of all rows together, and of one group by itself
        self.kept: list[Any] = []
        self.steps: list[np.ndarray] = []
        self.asleep = np.empty(0, np.uint8)

    @property
    def previous(self) -> Any:
        """The step that led here; empty where it is not kept."""
        return self.kept[0] if self.kept else self.none

    def commit(self, state: DualStateRef) -> bool:
        """Move to the committed state from the one before.

        Returns True if rounding may have left the domain.
        """
        self.number = state.number
        c1, c2 = state.commit
        if c2 == 0.0 and not state.keep:
            self.kept = []
            if c1 == 1.0:
                self.alpha, self.work = self.work, self.alpha
            else:
                self.alpha += c1 * (self.work - self.alpha)
            return False
        step = c1 * (self.work - self.alpha)
        if c2 != 0.0 and self.kept:
            step += c2 * self.kept[0]
        self.kept = [step, *self.kept][: state.keep]
        if (c1, c2) == (1.0, 0.0):
            self.alpha, self.work = self.work, self.alpha
            return False
        self.alpha += step
        return True

    def restart(self, alpha: Any, number: int) -> None:
        """Start from a state whose predecessor is not known."""
        self.alpha, self.number = alpha, number
        self.work = alpha.copy()
        self.kept, self.steps = [], []


class DualWorker:
    """The dual side of one shard.

    Parameters
    ----------
    side : Side
        What touches rows.
    n_features : int
    zeros : callable
        Float64 zeros where the rows are.
    """

    def __init__(self, side: DualBackend, n_features: int, zeros: Callable[[int], Any]) -> None:
        self.side = side
        self.n_features = n_features
        self.zeros = zeros
        self.number: int | None = None
        self.own = self.change = self.none = zeros(0)
        self.kept: list[Any] = []  # X' C times the last steps, the newest first
        self.swept: Any = None  # the change by the epochs, once rows keep where they may go

    def close(self) -> None:
        """End the threads."""
        self.side.close()

    def answer(self, law: Law, request: DualRequest, caches: Sequence[Any]) -> Totals:
        """Reply to one dual request with sums over all rows of the shard."""
        if type(request) in WITHOUT_STATE:
            return WITHOUT_STATE[type(request)](self, request, caches)
        read = self._bring(law, cast(OfState, request).state, caches)
        totals = AT_A_STATE[type(request)](self, law, request, caches)
        totals["rows"] = totals.get("rows", 0) + read
        totals["rebuilt"] = read
        return totals

    def _shape(self, request: DualShape, caches: Sequence[Any]) -> Totals:
        groups, partitions = self.side.shape(request.plan, caches)
        return {"groups": groups, "partitions": partitions, "rows": 0}

    def _line(self, law: Law, request: DualLine, caches: Sequence[Any]) -> Totals:
        return self.side.line(law, request, caches)

    def _span(self, law: Law, request: DualSpan, caches: Sequence[Any]) -> Totals:
        self.swept = self.change
        return self.side.span(law, request, caches)

    def _move(self, law: Law, request: DualMove, caches: Sequence[Any]) -> Totals:
        if self.swept is None:  # the round is lost
            return {"change": self.change, "slopes": np.zeros(2)}
        step = request.multiples[0] * self.swept
        for multiple, vector in zip(request.multiples[1:], self.kept, strict=False):
            step += multiple * vector
        moved = self.side.move(law, request, step)
        self.change = step
        # rows that are brought back are read one way only
        return {**moved, "change": step, "rows": moved.pop("back") / 2}

    def _interior(self, law: Law, request: DualInterior, caches: Sequence[Any]) -> Totals:
        for m in caches:
            m.margins.clear()  # of points that are left behind
        found = self.side.interior(request, caches)
        self.change, self.swept = found["own"] - self.own, None
        return {**found, "change": self.change}

    def _value(self, law: Law, request: DualValue, caches: Sequence[Any]) -> Totals:
        return self.side.value(law, request, caches)

    def _save(self, law: Law, request: DualSave, caches: Sequence[Any]) -> Totals:
        for m in caches:
            chunks.write(request.folder, m.spans, to_host(m.dual.alpha))
        return {}

    # ---- state
    def _bring(self, law: Law, state: DualStateRef, caches: Sequence[Any]) -> int:
        """Bring all blocks and the shard to the committed state; return how many rows were read."""
        lost, fresh = [], []
        for m in caches:
            if m.dual is None:
                m.dual = DualCache(len(m.y), self.zeros)
                fresh.append(m)
            if m.dual.number == state.number:
                continue
            if m.dual.number is None or m.dual.number != state.before:
                lost.append(m)
            elif m.dual.commit(state):
                self.side.clip(law, m)
        if fresh:
            self.side.prepare(caches)
        for m in lost:
            anew = state.w is None or not state.trust
            m.dual.alpha = self.zeros(len(m.y)) if anew else self.side.slopes(law, m, state.w)
        if self.number == state.number and not lost:
            return 0
        if self.number is not None and self.number == state.before and not lost:
            c1, c2 = state.commit
            step = self.none
            if state.own is None or state.keep:  # a multiple of one would copy a long vector
                step = self.change if c1 == 1.0 else c1 * self.change
            if c2 != 0.0 and self.kept:
                step = step + c2 * self.kept[0]
            self.own = self.own + step if state.own is None else state.own
            self.change = self.none
            self.kept = [step, *self.kept][: state.keep]
            read = 0
        else:
            # where one block lost its pending change, all blocks discard it
            for m in caches:
                m.dual.restart(m.dual.alpha, state.number)
            self.own = self._read(state, caches)
            self.kept, self.change = [], self.zeros(len(self.own))
            read = self.side.rows if state.w is not None else 0
            self.side.wake(caches)
        self.number, self.swept = state.number, None
        return read

    def _read(self, state: DualStateRef, caches: Sequence[Any]) -> Any:
        """X' C alpha and its sum, from the rows."""
        zero = self.zeros(self.n_features + 1)
        if state.w is None:
            return zero
        out = [self.zeros(len(m.y)) for m in caches]
        return self.side.totals(state, caches, zero, False, out, True)["own"]

    # ---- requests
    def _load(self, request: DualLoad, caches: Sequence[Any]) -> Totals:
        for m in caches:
            m.dual = DualCache(len(m.y), self.zeros)
            m.dual.restart(
                m.backend.xp.asarray(chunks.read(request.folder, m.spans)), request.state.number
            )
        self.side.prepare(caches)
        self.side.wake(caches)
        zero = self.zeros(self.n_features + 1)
        out = [self.zeros(len(m.y)) for m in caches]
        self.own = self.side.totals(request.state, caches, zero, False, out, True)["own"]
        self.kept, self.change = [], self.zeros(len(self.own))
        self.number = request.state.number
        return {"own": self.own, "rows": self.side.rows}

    def _round(self, law: Law, request: DualRound, caches: Sequence[Any]) -> Totals:
        for m in caches:
            m.margins.clear()  # of points that the ascent leaves behind
            m.dual.work[:] = m.dual.alpha
        swept = self.side.sweep(law, request, caches)
        self.change, self.swept = swept["change"], None
        rows = request.plan.epochs * self.side.rows
        # rows that are brought back are read one way only
        rows += swept.pop("back", 0) / 2
        return {**self.side.estimates(law, caches), **swept, "own": self.own, "rows": rows}

    def _totals(self, law: Law, request: DualTotals, caches: Sequence[Any]) -> Totals:
        out = []
        for m in caches:
            m.reserve(request.token)
            out.append(m.margins[request.token])
        self.side.wake(caches)
        totals = self.side.totals(request.state, caches, request.v, request.side, out, request.anew)
        if request.anew:
            self.own = totals["own"].copy()
        return {"own": self.own, "side": totals["side"], "rows": self.side.rows}


WITHOUT_STATE: dict[type, Callable[..., Totals]] = {
    DualShape: DualWorker._shape,
    DualLoad: DualWorker._load,
}
# Once blocks and shard are at the state of a request.
AT_A_STATE: dict[type, Callable[..., Totals]] = {
    DualRound: DualWorker._round,
    DualLine: DualWorker._line,
    DualSpan: DualWorker._span,
    DualMove: DualWorker._move,
    DualInterior: DualWorker._interior,
    DualTotals: DualWorker._totals,
    DualSave: DualWorker._save,
    DualValue: DualWorker._value,
}
