"""Answer requests with sums over the blocks of one worker.

A `Shard` holds all blocks of a worker, or of this process, and answers with all its threads. It
does not know Dask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.requests import (
    DualRequest,
    OfProblem,
    Problem,
    Request,
    Together,
    Totals,
    TrustRegionStep,
    add,
    joined,
)
from daskglm.core.view import ALL, Part, View
from daskglm.data.blocks import Block
from daskglm.kernels import backend_of, csr, for_rows
from daskglm.kernels import cpu as host
from daskglm.worker.answers import ANSWERS
from daskglm.worker.asked import Asked
from daskglm.worker.block_cache import BlockCache
from daskglm.worker.column_descent import MOST_BYTES
from daskglm.worker.columns import RestrictedRows
from daskglm.worker.device_placement import AS_THEY_ARE, DeviceConfig, place
from daskglm.worker.dual_state import DualBackend, DualWorker
from daskglm.worker.one_margin import update_curvature
from daskglm.worker.pieces import Piece, divide
from daskglm.worker.subsampling import draw


class Shard:
    """The blocks of one worker and their caches.

    Parameters
    ----------
    blocks : sequence of Block
        Empty ones are skipped.
    threads : int
        How many threads to use.
    caches : dict, optional
        Memos by name of block, shared between shards that hold the same block.
    names : sequence of str, optional
        Names of the blocks, keys of `caches`.
    where : Where
        Whether the rows go to a GPU; default: they stay where they are.
    placed : dict, optional
        Blocks on a device by name, shared like `caches`.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        threads: int,
        caches: dict[Any, BlockCache] | None = None,
        names: Sequence[Any] = (),
        where: DeviceConfig = AS_THEY_ARE,
        placed: dict[Any, Block] | None = None,
    ) -> None:
        named = [
            (names[i] if names else i, block) for i, block in enumerate(blocks) if len(block.y)
        ]
        self.names, self.blocks = place(named, where, {} if placed is None else placed)
        self.backend = backend_of(self.blocks[0].X) if self.blocks else host
        self.caches = {} if caches is None else caches
        self.where = where
        self.threads = threads if self.backend is host else 1
        self.facts = DataSummary()
        for block in blocks:
            self.facts = self.facts.merge(block.facts)
        self.pieces = divide(self.blocks, self.threads)
        self.pool = ThreadPoolExecutor(self.threads) if len(self.pieces) > 1 else None
        self.ball: Any = None
        # over the devices of all workers, where they solve `TrustRegionStep` together
        self.ranks: Any = None
        self.sample: tuple[Part, Shard] | None = None
        self.restricted = RestrictedRows()

    @cached_property
    def ascent(self) -> DualWorker:
        """What answers dual requests; its kernels are many, and other solvers do without."""
        d = self.facts.n_features or 0
        facts = [block.facts for block in self.blocks]
        side: DualBackend
        if self.backend is host:
            from daskglm.worker.dual_cpu import OnThreads

            side = OnThreads(facts, d, self.threads, self._each)
        else:
            side = self.backend.OnDevice(facts, d)
        return DualWorker(side, d, self.backend.zeros)

    @property
    def block_names(self) -> list[Any]:
        """Names under which the blocks are cached."""
        return self.names

    @property
    def solves_trust_regions(self) -> bool:
        """Whether `TrustRegionStep` is answered: where all rows are in the memory of one device."""
        return bool(self.blocks) and all(self.backend.is_resident(block.X) for block in self.blocks)

    @property
    def sweeps_columns(self) -> bool:
        """Whether `ColumnSweeps` is answered: where all rows are sparse ones in host memory."""
        on_host = bool(self.blocks) and self.backend is host
        return on_host and all(csr.arrays_of(block.X) is not None for block in self.blocks)

    @property
    def descends_columns(self) -> bool:
        """Whether `ColumnDescent` is answered: where all rows are few dense ones in host memory."""
        on_host = bool(self.blocks) and self.backend is host
        dense = on_host and all(isinstance(block.X, np.ndarray) for block in self.blocks)
        return dense and 8 * self.facts.nonzeros <= MOST_BYTES

    def answer(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Reply to one request with the sums over a view of the rows of this shard."""
        if isinstance(request, Together):
            return joined([self.answer(problem, each, view) for each in request.requests])
        if isinstance(request, OfProblem):
            return self.answer(request.problem, request.request, view)
        if view.columns is not None:
            return self._on_columns(problem, request, view)
        if view.part is not None:
            return self._sample(view.part).answer(problem, request)
        self._release_sample()
        caches = [
            self._cache(name, block, problem)
            for name, block in zip(self.names, self.blocks, strict=True)
        ]
        self._release_codes()
        asked = Asked(problem, request, self.blocks, caches, self.facts, self._each)
        kind = type(request)
        return OWN[kind](self, asked) if kind in OWN else ANSWERS[kind](asked)

    def answer_host(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Answer with all sums in host memory, for a process that may have no device."""
        totals: Totals = self.backend.to_host(self.answer(problem, request, view))
        return totals

    def detach(self) -> None:
        """Release X and keep the caches."""
        self.blocks = [block._replace(X=None) for block in self.blocks]
        for name in self.names:
            if name in self.caches:
                self.caches[name].rows = self.caches[name].apart = None

    def attach(self, blocks: Sequence[Block], names: Sequence[Any]) -> None:
        """Attach the same rows again."""
        named = [(name, block) for name, block in zip(names, blocks, strict=True) if len(block.y)]
        _, again = place(named, self.where, {}, rows_only=True)
        self.blocks = [old._replace(X=new.X) for old, new in zip(self.blocks, again, strict=True)]

    @property
    def device(self) -> str:
        """The kind of device that the rows are on."""
        return "cpu" if self.backend is host else "cuda"

    def close(self) -> None:
        """Drop the caches and end the threads."""
        for name in self.names:
            self.caches.pop(name, None)
        self.retire()

    def retire(self) -> None:
        """End the threads and release the rows; another shard takes over the caches."""
        self._release_sample()
        self.restricted.close()
        if "ascent" in vars(self):
            self.ascent.close()
        self.names, self.blocks = [], []  # this is in a cycle: the collector may come late
        self.ball = self.ranks = None
        if self.pool is not None:
            self.pool.shutdown(wait=False)

    def _sample(self, part: Part) -> Shard:
        """Return a shard of a part of these rows, kept until all rows are asked again."""
        if self.sample is None or self.sample[0] != part:
            self._release_sample()
            self.sample = part, Shard([draw(block, part) for block in self.blocks], self.threads)
            self.sample[1].facts = replace(self.sample[1].facts, n_features=self.facts.n_features)
        return self.sample[1]

    def _on_columns(self, problem: Problem, request: Request, view: View) -> Totals:
        # dual variables, around which a proximal problem may be, are with all columns
        duals = [getattr(self.caches.get(name), "dual", None) for name in self.names]
        return self.restricted.answer(
            problem, request, view, self.blocks, self.facts, self._each, self._of_columns, duals
        )

    def _of_columns(self, blocks: list[Block]) -> Shard:
        """Return a shard of blocks with some of the columns, which lie where they are to stay."""
        return Shard(blocks, self.threads, placed=dict(enumerate(blocks)))

    def _release_sample(self) -> None:
        if self.sample is not None:
            self.sample[1].close()
        self.sample = None

    def _cache(self, name: Any, block: Block, problem: Problem) -> BlockCache:
        cache = self.caches.get(name)
        if cache is None or not cache.serves(problem):
            cache = self.caches[name] = BlockCache(block, problem)
        elif cache.rows is None and block.X is not None:  # of a stream that let them go
            cache.rows = for_rows(block.X)[1]
        return cache

    def _release_codes(self) -> None:
        """Release codes of two classes on a device once targets are made.

        Another problem sends them again.
        """
        for i, block in enumerate(self.blocks):
            if block.moved is not None and block.labels is not None and len(block.labels) <= 2:
                self.blocks[i] = block._replace(moved=None)

    def _each(self, work: Callable[[list[Piece]], Totals], threads: int | None = None) -> Totals:
        if threads is None or threads >= self.threads:
            pieces = self.pieces
        else:
            pieces = divide(self.blocks, threads)
        if self.pool is None or len(pieces) == 1:
            return add([work(part) for part in pieces])
        # this thread takes a piece as well: to wake another takes as long as some thousand rows
        others = self.pool.map(work, pieces[1:])
        return add([work(pieces[0]), *others])

    def _trust_region_step(self, asked: Asked[TrustRegionStep]) -> Totals:
        ranks, request, caches = self.ranks, asked.request, asked.caches
        try:
            read = update_curvature(asked, request.at)
            new = self._workspace(request, caches)
        except Exception:
            if ranks is not None:
                ranks.fail()  # the others would wait
            raise
        if ranks is not None and ranks.any(new) and not new:  # all capture their chunks, or none
            self.ball = None
            self._workspace(request, caches)
        found = self.ball.solve(
            request.gradient,
            request.metric,
            request.radius,
            request.share,
            request.C,
            request.penalised,
        )
        rows = found.products * self.facts.n_rows + read
        if ranks is not None and ranks.rank:
            return {"rows": rows}  # the rest is the same on all devices, and the first tells it
        reply = {
            **found._asdict(),
            "step": found.step.copy(),
            "residual": found.residual.copy(),
            "rows": rows,
        }
        return {key: value for key, value in reply.items() if key != "products"}

    def _workspace(self, request: TrustRegionStep, caches: Sequence[BlockCache]) -> bool:
        """Make sure of a workspace for these caches; tell whether it is a new one."""
        size, metric = len(request.gradient), request.metric
        if (
            self.ball is not None
            and self.ball.ranks is self.ranks
            and self.ball.serves(size, caches, metric)
        ):
            return False
        self.ball = self.backend.Ball(
            size, self.facts.n_features or 0, caches, metric, ranks=self.ranks
        )
        return True

    def _ascend(self, asked: Asked[DualRequest]) -> Totals:
        return self.ascent.answer(asked.law, asked.request, asked.caches)


# Requests that change what a shard keeps beside caches, by type.
OWN: dict[type, Callable[[Shard, Asked[Any]], Totals]] = {
    TrustRegionStep: Shard._trust_region_step,
    **dict.fromkeys(get_args(DualRequest), Shard._ascend),
}
