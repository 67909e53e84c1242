"""A shard whose rows are read from their source at every pass, the next run while one is at work.

What a block caches (targets, margins, dual variables: numbers for each row) stays; only X is
released.
Neighbouring partitions are read together, as many as fit in a third of the memory allowed. Answers
requests like a `Shard`, and its replies say also how many seconds it `waited` for data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import (
    DualRound,
    DualShape,
    OfProblem,
    Problem,
    Request,
    Together,
    Totals,
    add,
    joined,
)
from daskglm.core.view import ALL, View
from daskglm.data.blocks import Block, with_order
from daskglm.worker.answers import FROM_CACHE
from daskglm.worker.block_cache import BlockCache
from daskglm.worker.device_placement import AS_THEY_ARE, DeviceConfig
from daskglm.worker.shard import Shard

# Runs in memory: one at work, the next, and what reading it takes.
RUNS_AT_ONCE = 3


class StreamedShard:
    """Partitions of one worker that are read anew for every request that needs rows.

    Parameters
    ----------
    recipes : sequence of Delayed
        One `to_block` per partition.
    names : sequence
        Of the partitions.
    threads : int
        That work, and as many that read.
    room : int
        Bytes that rows may take at once.
    where : Where
        Whether rows go to a GPU.
    known, caches : dict, optional
        Summaries of partitions that were read before, and their caches, by name:
        shared with other streams.

    Raises
    ------
    MemoryError
        Where one partition alone is larger than its part of the room.
    """

    solves_trust_regions = False
    sweeps_columns = False
    descends_columns = False

    def __init__(
        self,
        recipes: Sequence[Any],
        names: Sequence[Any],
        threads: int,
        room: int,
        where: DeviceConfig = AS_THEY_ARE,
        known: dict[Any, DataSummary] | None = None,
        caches: dict[Any, BlockCache] | None = None,
    ) -> None:
        self.threads, self.waited = threads, 0.0
        self.reader = ThreadPoolExecutor(1)
        self.known = known = {} if known is None else known
        self.caches = {} if caches is None else caches
        new = [i for i, name in enumerate(names) if name not in known]
        for i, (block,) in zip(new, self._read([[recipes[i]] for i in new]), strict=True):
            known[names[i]] = block.facts
            if block.facts.nbytes > room // RUNS_AT_ONCE:
                most = room // RUNS_AT_ONCE
                times = RUNS_AT_ONCE * block.facts.nbytes // max(room, 1) + 1
                raise MemoryError(
                    f"partition {block.spans[0][0]} alone takes {block.facts.nbytes:,} bytes, and "
                    f"out of core no more than {most:,} may be read at once here: repartition into "
                    f"at least {times} times as many"
                )
            del block
        sizes = [known[name] for name in names]
        self.facts = DataSummary()
        for part in sizes:
            self.facts = self.facts.merge(part)
        self.sizes = [(part.n_rows, part.n_features) for part in sizes]
        self.runs = _runs([part.nbytes for part in sizes], room // RUNS_AT_ONCE)
        self.recipes = list(recipes)
        self.names = list(names)
        self.where = where
        self.shards: list[Shard | None] = [None] * len(self.runs)
        self.device = "cuda" if where.device == "cuda" else "cpu"

    @property
    def block_names(self) -> list[Any]:
        """Names of the cached blocks; joined tiny ones are unknown before they are read."""
        return [
            *self.names,
            *(name for shard in self.shards if shard is not None for name in shard.names),
        ]

    def answer(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Reply to one request with sums over a view; the rows are read if it needs them."""
        if isinstance(request, Together):
            return joined([self.answer(problem, each, view) for each in request.requests])
        if isinstance(request, OfProblem):
            return self.answer(request.problem, request.request, view)
        began, self.waited = time.perf_counter(), 0.0
        shards = [shard for shard in self.shards if shard is not None]
        if len(shards) == len(self.shards) and all(
            _answers_from_cache(shard, problem, request, view) for shard in shards
        ):
            parts = [shard.answer(problem, request, view) for shard in shards]
        else:
            ask = OVER_ROWS.get(type(request), StreamedShard._over_rows)
            parts = ask(self, problem, request, view)
        total = _shape_of_all(parts) if type(request) is DualShape else add(parts)
        return {**total, "waited": min(self.waited, time.perf_counter() - began)}

    def answer_host(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Return the reply with all sums in host memory."""
        total = self.answer(problem, request, view)
        shard = self.shards[0]
        return shard.backend.to_host(total) if shard is not None else total

    def close(self) -> None:
        """Drop the caches and end the threads."""
        for shard in self.shards:
            if shard is not None:
                shard.close()
        self.reader.shutdown(wait=False, cancel_futures=True)

    def retire(self) -> None:
        """End the threads; another stream takes over the caches."""
        for shard in self.shards:
            if shard is not None:
                shard.retire()
        self.reader.shutdown(wait=False, cancel_futures=True)

    # ---- one pass
    def _over_rows(self, problem: Problem, request: Request, view: View) -> list[Totals]:
        parts: list[Totals] = []
        for shard in self._attached(range(len(self.runs))):
            # added up at once: sums by cluster and matrices are large
            parts = [add([*parts, shard.answer(problem, request, view)])]
        return parts

    def _shapes(self, problem: Problem, request: DualShape, view: View) -> list[Totals]:
        return [shard.answer(problem, request) for shard in self._attached(range(len(self.runs)))]

    def _dual_round(self, problem: Problem, request: DualRound, view: View) -> list[Totals]:
        """Ascend run by run, each from where the one before it left the vector."""
        # a fixed order took 2 to 6 times the rounds
        order = np.random.default_rng(request.seed).permutation(len(self.runs))
        parts: list[Totals] = []
        for shard in self._attached(order.tolist()):
            parts.append(shard.answer(problem, request))
            change = to_host(parts[-1]["change"])
            request = replace(request, v=request.v + request.outer * change)
        total = add(parts)
        if request.outer > 1.0 and (request.plan.nodes or 1) == 1:
            change = total["change"]
            total["squares"] = float(change @ change)  # one group moves by the sum
        return [total]

    def _attached(self, order: Sequence[int]) -> Iterator[Shard]:
        """Yield the shard of each run while its rows are there."""
        reads = self._read([[self.recipes[i] for i in self.runs[k]] for k in order])
        for k, blocks in zip(order, reads, strict=True):
            names = [self.names[i] for i in self.runs[k]]
            if [block.facts for block in blocks] != [self.known[name] for name in names]:
                raise ValueError(_changed(blocks, [self.known[name] for name in names]))
            shard = self.shards[k]
            if shard is None:
                shard = self.shards[k] = Shard(blocks, self.threads, self.caches, names, self.where)
                self.device = shard.device
            else:
                shard.attach(blocks, names)
            del blocks
            yield shard
            shard.detach()

    def _read(self, runs: list[list[Any]]) -> Iterator[list[Block]]:
        """Yield the blocks of each run; while one is used the next is read."""
        coming: Future[Any] | None = None
        for k, run in enumerate(runs):
            coming = coming or self.reader.submit(self._compute, run)
            began = time.perf_counter()
            blocks = coming.result()
            self.waited += time.perf_counter() - began
            coming = self.reader.submit(self._compute, runs[k + 1]) if k + 1 < len(runs) else None
            yield blocks

    def _compute(self, run: list[Any]) -> list[Block]:
        import dask

        blocks = dask.compute(*run, scheduler="threads", num_workers=self.threads)
        return [block if block.facts.order else with_order(block) for block in blocks]


def _changed(blocks: Sequence[Block], before: Sequence[DataSummary]) -> str:
    """Return the message for partitions that were read again and have changed."""
    block, facts = next(
        (b, facts) for b, facts in zip(blocks, before, strict=True) if b.facts != facts
    )
    now = replace(
        block.facts, order=facts.order, squared_norms=facts.squared_norms, weight=facts.weight
    )
    what = "rows in another order" if now == facts else "other rows"
    return (
        "the data changed at their source while they were read again and again: partition "
        f"{block.spans[0][0]} has "
        f"{what}. Where it comes from a shuffle (set_index, merge) or a random sample, write it "
        "to files, or persist "
        "it and fit without out_of_core"
    )


def _runs(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Cut partitions, by their bytes, into runs of neighbours that are not larger than the room."""
    runs: list[list[int]] = []
    free = 0
    for i, size in enumerate(sizes):
        if not runs or size > free:
            runs.append([])
            free = room
        runs[-1].append(i)
        free -= size
    return runs


def _answers_from_cache(shard: Shard, problem: Problem, request: Request, view: View) -> bool:
    """Return whether the caches of a shard answer a request without its rows."""
    if view.columns is not None:
        return shard.restricted.holds(view.columns)
    answers = FROM_CACHE.get(type(request))
    if view.part is not None or answers is None:
        return False
    caches = [shard.caches.get(name) for name in shard.names]
    served = all(cache is not None and cache.serves(problem) for cache in caches)
    return served and answers(shard, caches, request)


def _shape_of_all(parts: list[Totals]) -> Totals:
    """Return how the rows of all runs are divided: as those of the run with most parts."""
    most = {name: max(part[name] for part in parts) for name in ("groups", "partitions")}
    return {**add(parts), **most}


# Requests that are not answered by the sum over runs, one after the other in their order.
OVER_ROWS: dict[type, Callable[..., list[Totals]]] = {
    DualShape: StreamedShard._shapes,
    DualRound: StreamedShard._dual_round,
}
