"""What happens beside the data: a request, the blocks at hand and what they remember become one reply.

A `Shard` is all blocks of one worker (or of this process), answered by one call with all its threads. Nothing here
knows of Dask. Whatever a block remembers between requests (`Memo`) may be forgotten at any time: requests carry what
rebuilds it, at the price of one more pass over those rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from daskglm.ascent import Ascent, DualMemo
from daskglm.blocks import Block, kind, merge
from daskglm.kernels import for_rows, gram_side, margins
from daskglm.losses import SMOOTHED_HINGE
from daskglm.messages import DualRequest, Evaluate, Facts, HessianVector, OnHull, Problem, Request, Totals, add

KEPT_MARGINS = 3  # vectors of n numbers a block may hold: two ends of a line search and one to spare
INLINE_WORK = 20_000  # stored values below which handing work to threads costs more than it saves
TINY_VALUES = 4096  # stored values up to which neighbouring blocks are joined, TINY_RUN at most, at the cost of a copy
TINY_RUN = 64
GRAM_BYTES = 1 << 30  # threads get a private Gram each while all of them fit in this

Piece = tuple[int, int, int]  # block, first row, one past the last


class Memo:
    """What one block remembers for one problem: targets, row weights, margins by token, curvature of one token."""

    def __init__(self, block: Block, problem: Problem) -> None:
        self.problem = problem
        self.kernels, self.rows = for_rows(block.X)
        self.address = (self.rows if isinstance(self.rows, np.ndarray) else self.rows[1]).ctypes.data
        self.margins: dict[int, np.ndarray] = {}
        self.curvature = np.empty(len(block.y))
        self.curvature_of: int | None = None
        self.dual: DualMemo | None = None
        self.targets, self.weight = targets(block, problem)
        self.y = self.targets

    def serves(self, problem: Problem) -> bool:
        """Take up a problem with the same labels and weights, moving targets to its centre; False for another."""
        if (problem.positive, problem.class_weight) != (self.problem.positive, self.problem.class_weight):
            return False
        if problem != self.problem:
            self.problem, self.curvature_of, self.y = problem, None, self.targets
            if problem.centre is not None and self.dual is not None:
                width = 10.0 ** (SMOOTHED_HINGE - problem.code)
                self.y = self.targets * (1.0 + width * np.abs(self.dual.alpha))
        return True

    def reserve(self, token: int, needed: Sequence[int] = ()) -> None:
        """Make room for the margins of a token, at the cost of the oldest not `needed` where the memo is full."""
        if token not in self.margins:
            spare = next((t for t in self.margins if t not in needed), None)
            full = len(self.margins) >= KEPT_MARGINS and spare is not None
            self.margins[token] = self.margins.pop(spare) if full and spare is not None else np.empty(len(self.y))


def targets(block: Block, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Targets (-1/+1 or numbers) and row weights (empty: all one) of a block under a problem."""
    none = np.empty(0)
    if block.labels is None:
        return block.y, none if block.weight is None else block.weight
    signs = np.array([1.0 if label == problem.positive else -1.0 for label in block.labels])
    y = signs[block.y] if len(block.y) else none
    factors = dict(problem.class_weight)
    by_label = np.array([factors.get(label, 1.0) for label in block.labels])
    if (by_label == 1.0).all():
        return y, none if block.weight is None else block.weight
    return y, by_label[block.y] * (1.0 if block.weight is None else block.weight)


class Shard:
    """The blocks of one worker and their memos.

    Parameters
    ----------
    blocks : sequence of Block
        Empty ones are skipped.
    threads : int
        How many threads to use.
    memos : dict, optional
        Memos by name of block, shared between shards that hold the same block.
    names : sequence of str, optional
        Names of the blocks, keys of `memos`.
    """

    def __init__(
        self, blocks: Sequence[Block], threads: int, memos: dict[Any, Memo] | None = None, names: Sequence[Any] = ()
    ) -> None:
        named = [(names[i] if names else i, block) for i, block in enumerate(blocks) if len(block.y)]
        self.names, self.blocks = _without_tiny(named)
        self.memos = {} if memos is None else memos
        self.threads = threads
        self.facts = Facts()
        for block in blocks:
            self.facts = self.facts.merge(block.facts)
        self.pieces = _deal(self.blocks, threads)
        self.pool = ThreadPoolExecutor(threads) if len(self.pieces) > 1 else None
        self.ascent = Ascent([block.facts for block in self.blocks], self.facts.n_features or 0, threads, self._each)

    def answer(self, problem: Problem, request: Request) -> Totals:
        """Reply to one request with the sums over all rows of this shard."""
        memos = [self._memo(name, block, problem) for name, block in zip(self.names, self.blocks, strict=True)]
        if isinstance(request, Evaluate):
            return self._evaluate(problem.code, request, memos)
        if isinstance(request, HessianVector):
            return self._hessian_vector(problem.code, request, memos)
        if isinstance(request, DualRequest):
            return self.ascent.answer(problem.code, request, memos)
        return self._hull(problem.code, request, memos)

    def close(self) -> None:
        """Forget everything and end the threads."""
        for name in self.names:
            self.memos.pop(name, None)
        self.ascent.close()
        if self.pool is not None:
            self.pool.shutdown(wait=False)

    def _memo(self, name: Any, block: Block, problem: Problem) -> Memo:
        memo = self.memos.get(name)
        if memo is None or not memo.serves(problem):
            memo = self.memos[name] = Memo(block, problem)
        return memo

    def _each(self, work: Callable[[list[Piece]], Totals], threads: int | None = None) -> Totals:
        pieces = self.pieces if threads is None or threads >= self.threads else _deal(self.blocks, threads)
        if self.pool is None or len(pieces) == 1:
            return add([work(part) for part in pieces])
        return add(list(self.pool.map(work, pieces)))

    def _coefficients(self, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Split w into features and intercept (zero where w has none)."""
        d = self.facts.n_features or 0
        return w[:d], float(w[d]) if len(w) > d else 0.0

    def _evaluate(self, code: int, request: Evaluate, memos: list[Memo]) -> Totals:
        w, b = self._coefficients(request.w)
        d, size = len(w), len(request.w)
        for memo in memos:
            memo.reserve(request.token)
            memo.curvature_of = request.token
        side = gram_side(d) if request.gram else 0

        def work(pieces: list[Piece]) -> Totals:
            gradient, gram = np.zeros(d + 1), np.zeros((side, side))
            diagonal = np.zeros(d + 1 if request.diagonal else 0)
            value = 0.0
            for i, lo, hi in pieces:
                m = memos[i]
                z = m.margins[request.token]
                value += m.kernels.evaluate(
                    code, m.rows, m.y, m.weight, w, b, lo, hi, z, m.curvature, gradient, diagonal, gram
                )
            return {"value": value, "gradient": gradient, "diagonal": diagonal, "gram": gram}

        threads = max(1, int(GRAM_BYTES // (8 * side * side))) if side else None
        totals = self._each(work, threads)
        reply = {"value": totals["value"], "gradient": totals["gradient"][:size], "rows": self.facts.n_rows}
        if request.diagonal:
            reply["diagonal"] = totals["diagonal"][:size]
        if request.gram:
            reply["gram"] = np.ascontiguousarray(totals["gram"][:size, :size])
        return reply

    def _hessian_vector(self, code: int, request: HessianVector, memos: list[Memo]) -> Totals:
        v, vb = self._coefficients(request.v)
        read = self._recall([request.at], memos)
        token = request.at[0]

        def work(pieces: list[Piece]) -> Totals:
            out = np.zeros(len(v) + 1)
            for i, lo, hi in pieces:
                m = memos[i]
                if m.curvature_of != token:
                    margins.curvatures(code, m.y, m.weight, m.margins[token], lo, hi, m.curvature)
                m.kernels.hessian_vector(m.rows, m.curvature, v, vb, lo, hi, out)
            return {"product": out}

        product = self._each(work)["product"]
        for memo in memos:
            memo.curvature_of = token
        return {"product": product[: len(request.v)], "rows": self.facts.n_rows + read}

    def _hull(self, code: int, request: OnHull, memos: list[Memo]) -> Totals:
        read = self._recall(request.points, memos)
        tokens = [token for token, _ in request.points]
        m, k = request.coefficients.shape

        def work(pieces: list[Piece]) -> Totals:
            values, slopes, hessians = np.zeros(m), np.zeros((m, k)), np.zeros((m, k, k))
            for i, lo, hi in pieces:
                memo = memos[i]
                Z = tuple(memo.margins[token] for token in tokens)
                margins.hull(code, memo.y, memo.weight, Z, request.coefficients, lo, hi, values, slopes, hessians)
            return {"values": values, "slopes": slopes, "hessians": hessians}

        return {**self._each(work), "rows": read}

    def _recall(self, points: Sequence[tuple[int, np.ndarray]], memos: list[Memo]) -> int:
        """Make sure that all blocks hold the margins of all points; return how many rows had to be read for it."""
        read = 0
        for token, at in points:
            w, b = self._coefficients(at)
            missing = {i for i, memo in enumerate(memos) if token not in memo.margins}
            for i in missing:
                memos[i].reserve(token, [t for t, _ in points])

            def work(pieces: list[Piece], token: int = token, w: Any = w, b: float = b, missing: Any = missing) -> Any:
                for i, lo, hi in pieces:
                    if i in missing:
                        m = memos[i]
                        m.kernels.margins(m.rows, w, b, lo, hi, m.margins[token])
                return {}

            if missing:
                self._each(work)
                read += sum(len(memos[i].y) for i in missing)
        return read


def _without_tiny(named: list[tuple[Any, Block]]) -> tuple[list[Any], list[Block]]:
    """Join neighbouring tiny blocks, whose calls would cost more than their arithmetic; names become tuples."""
    joined = []
    for group, run in itertools.groupby(named, lambda pair: pair[1].facts.nonzeros <= TINY_VALUES and kind(pair[1])):
        members = list(run)
        size = TINY_RUN if group else 1
        for part in (members[i : i + size] for i in range(0, len(members), size)):
            single = len(part) == 1
            joined.append(part[0] if single else (tuple(n for n, _ in part), merge([block for _, block in part])))
    return [name for name, _ in joined], [block for _, block in joined]


def _deal(blocks: Sequence[Block], threads: int) -> list[list[Piece]]:
    """Cut the rows of all blocks into `threads` runs of about equal stored values, in order."""
    work = [block.facts.nonzeros + len(block.y) for block in blocks]
    total = sum(work)
    if total < INLINE_WORK or threads == 1:
        return [[(i, 0, len(block.y)) for i, block in enumerate(blocks)]]
    deals: list[list[Piece]] = [[] for _ in range(threads)]
    done = 0.0
    for i, block in enumerate(blocks):
        n = len(block.y)
        # boundaries between threads that fall within this block, as rows
        first, last = int(done * threads / total), int(min((done + work[i]) * threads / total, threads - 1e-9))
        cuts = [_row_at(block, (k * total / threads - done) / work[i]) for k in range(first + 1, last + 1)]
        for k, lo, hi in zip(range(first, last + 1), [0, *cuts], [*cuts, n], strict=True):
            if hi > lo:
                deals[min(k, threads - 1)].append((i, lo, hi))
        done += work[i]
    return [deal for deal in deals if deal]


def _row_at(block: Block, share: float) -> int:
    """Row before which about `share` of a block's work lies."""
    n = len(block.y)
    if block.facts.sparse:
        work = block.X.indptr + np.arange(n + 1)
        return int(np.searchsorted(work, share * work[-1]))
    return min(round(share * n), n)
