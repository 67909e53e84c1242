"""A shard whose rows are read from their source at every pass, the next run while one is at work.

What a block caches (targets, margins, dual variables: numbers for each row) stays; only X is
released.
Neighbouring partitions are read together, as many as fit in a third of the memory allowed. Answers
requests like a `Shard`, and its replies say also how many seconds it `waited` for data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.inference_requests import (
    ConstantSums,
    InferenceSums,
    LeverageMeat,
    SaturatedLikelihood,
)
from daskglm.core.ordinal_requests import OrdinalAlong
from daskglm.core.output_requests import OutputsAlong
from daskglm.core.requests import (
    DualLine,
    DualRound,
    DualSave,
    DualShape,
    DualValue,
    EvaluateAlong,
    Problem,
    RateSums,
    Request,
    ResidualSums,
    Totals,
    add,
)
from daskglm.core.view import ALL, View
from daskglm.data.blocks import Block, with_order
from daskglm.worker import ordinal, outputs
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
        began, self.waited = time.perf_counter(), 0.0
        shards = [shard for shard in self.shards if shard is not None]
        if len(shards) == len(self.shards) and all(
            _answers_from_cache(shard, problem, request, view) for shard in shards
        ):
            parts = [shard.answer(problem, request, view) for shard in shards]
        else:
            parts = self._over_rows(problem, request, view)
        total = _together(parts, request)
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
        order = list(range(len(self.runs)))
        if isinstance(request, DualRound):  # a fixed order took 2 to 6 times the rounds
            order = list(map(int, np.random.default_rng(request.seed).permutation(len(order))))
        for k, blocks in zip(
            order, self._read([[self.recipes[i] for i in self.runs[k]] for k in order]), strict=True
        ):
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
            parts.append(shard.answer(problem, request, view))
            shard.detach()
            # sums by cluster and matrices are large
            if isinstance(request, (InferenceSums, LeverageMeat)):
                parts = [add(parts)]
            # each run goes on from where the one before it left the vector
            if isinstance(request, DualRound):
                request = replace(
                    request, v=request.v + request.outer * to_host(parts[-1]["change"])
                )
        return parts

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
    if view.sample is not None:
        return False
    caches = [shard.caches.get(name) for name in shard.names]
    if any(cache is None or not cache.serves(problem) for cache in caches):
        return False
    if isinstance(request, (ConstantSums, SaturatedLikelihood)):
        return True
    if isinstance(request, DualShape):
        return shard.device == "cpu"  # a GPU's partitions depend on the columns that rows share
    if isinstance(request, (RateSums, ResidualSums)):
        return all(request.at[0] in cache.margins for cache in caches if cache)
    if isinstance(request, EvaluateAlong):
        return all(
            token in cache.margins for cache in caches if cache for token, _ in request.points
        )
    if isinstance(request, OrdinalAlong):
        return all(ordinal.has_margins(cache, request) for cache in caches)
    if isinstance(request, OutputsAlong):
        return all(outputs.has_margins(cache, request) for cache in caches)
    if isinstance(request, (DualLine, DualSave, DualValue)):
        known = (request.state.number, request.state.before)
        dual = [cache.dual for cache in caches if cache]
        return all(
            each is not None and each.number is not None and each.number in known for each in dual
        ) and (shard.ascent.number is not None and shard.ascent.number in known)
    return False


def _together(parts: list[Totals], request: Request) -> Totals:
    """Combine the replies of all runs into that of one shard."""
    total = add(parts)
    if isinstance(request, DualShape):
        return {
            **total,
            **{name: max(part[name] for part in parts) for name in ("groups", "partitions")},
        }
    if isinstance(request, DualRound) and request.outer > 1.0 and (request.plan.nodes or 1) == 1:
        change = total["change"]
        total["squares"] = float(change @ change)  # one group moves by the sum
    return total
