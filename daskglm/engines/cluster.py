"""The engine that answers requests on a Dask cluster, with one message to each worker a round.

Dask owns the blocks, as ordinary futures with lineage. A worker keeps a session of shards and
cached results, which may be lost at any time. A round does not touch the task graph: it is one
`client.run` of an async function, and the work runs in one thread of each worker's executor. Of the
exchanges measured by `python -m benchmarks rounds` this is the cheapest that neither delays the
retirement of workers nor fails when a worker is dead. This module runs on the client;
`worker_session` is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
import uuid
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import numpy as np
from distributed import Client

from daskglm.core import sample_requests
from daskglm.core.engine import Capabilities
from daskglm.core.facts import DataSummary
from daskglm.core.outcome import Iteration
from daskglm.core.requests import (
    CollectiveLost,
    Problem,
    Request,
    Totals,
    TrustRegionStep,
    add,
    size_of,
)
from daskglm.core.view import ALL, View
from daskglm.data.partitions import Partitions, check_widths
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.collective import Collective, need_ranks
from daskglm.engines.events import Events
from daskglm.engines.local import Local
from daskglm.engines.monitoring import list_and_show
from daskglm.engines.near_samples import NearSamples
from daskglm.engines.placement import (
    REPAIR_SECONDS,
    DataLost,
    Placement,
    check_same_rows,
    plan_moves,
)
from daskglm.engines.placement import ClusterLost as ClusterLost  # told to users by this name
from daskglm.engines.presence import unregister
from daskglm.engines.rebalancing import RebalancePolicy
from daskglm.engines.scheduler_calls import (
    PROBE_SECONDS,
    name_of_scheduler,
    on_loop,
    on_scheduler,
)
from daskglm.engines.sending import send
from daskglm.engines.versions import check_cluster, check_workers
from daskglm.engines.waiting import running_threads
from daskglm.engines.worker_session import (
    Failure,
    carries_device_memory,
    close,
    find_device,
    keep_only,
    relay,
)
from daskglm.worker.device_placement import AS_THEY_ARE, DeviceConfig
from daskglm.worker.shard import Shard

logger = logging.getLogger("daskglm")

# Seconds between two checks, in a slow round, that its workers still hold their blocks.
MEMBERSHIP_SECONDS = 0.25

# Most workers that answer to the client itself; more answer through leaders.
STAR_WORKERS = 8

# Seconds that workers may take to release what they no longer need.
CLEANUP_SECONDS = 5.0

# Largest ratio of the rows of one worker to the mean that is not logged as uneven.
UNEVEN_ROWS = 1.3

T = TypeVar("T")


# ---- on the client
def _tree(addresses: list[str]) -> dict[str, list[str]]:
    """Return leaders, which the client asks, and for each the workers that it asks in turn.

    With few workers each is a leader. If workers send each other device memory, each leader adds
    the sums of a few workers on its GPU.
    """
    ordered = sorted(addresses)
    width = 1 if len(ordered) <= STAR_WORKERS else math.ceil(math.sqrt(len(ordered)))
    if ordered and carries_device_memory(ordered[0]):
        width = max(width, min(len(ordered), STAR_WORKERS))
    groups = [ordered[i : i + width] for i in range(0, len(ordered), width)]
    return {group[0]: group[1:] for group in groups}


def _only_device(devices: dict[str, str]) -> str:
    """Return the kind of device that all workers compute on; RuntimeError if they differ."""
    kinds = set(devices.values())
    if len(kinds) > 1:
        mixed = ", ".join(f"{address}: {device}" for address, device in sorted(devices.items()))
        raise RuntimeError(
            f"some workers compute on a GPU and some do not ({mixed}): give device='cpu' or "
            "device='cuda', or let all partitions be of one kind"
        )
    return min(kinds, default="cpu")


class Cluster:
    """All rows of a data set on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    placement : Placement
        Which worker has which partition.
    where : Where
        Device to compute on; default: each worker uses the one that holds its rows, which must be
        of one kind.

    Raises
    ------
    ClusterLost
        If the scheduler goes away.
    Exception
        The error of the first partition that could not be loaded.
    """

    def __init__(
        self, client: Client, placement: Placement, where: DeviceConfig = AS_THEY_ARE
    ) -> None:
        self.client = client
        self.placement = placement
        self.where = where
        self.device, self.solves_trust_regions = "cpu", False
        self._threads: dict[str, int] = {}
        self.session = uuid.uuid4().hex
        self.rounds = 0
        self.bytes_reduced = 0
        self.repairs = 0
        self._numbers = itertools.count()
        self._shards: dict[str, int] = {}
        self._keys: dict[str, list[str]] = {}
        self._events = Events(client, self.session)
        self._near = NearSamples()
        self._rebalance = RebalancePolicy()
        self._collective = Collective(self.session, self._run, self._ask)
        self._scheduler: str | None = None
        self._scheduler = self._sync(name_of_scheduler(client))
        if where.device == "cuda":
            # before anything is computed
            self._sync(self._need_devices(where))
        try:
            self.facts = self._sync(self._start())
            if self.device == "cuda" and where.collective:
                self._sync(need_ranks(self._run, list(self._shards)))
                self.solves_trust_regions = True
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> Capabilities:
        """What is offered now.

        Vectors are NumPy's: they cross the network, and the client may have no device.
        """
        samples = self.placement.resident and self.device == "cpu"
        return Capabilities(
            self.device,
            np,
            workers=len(self._shards),
            answers_samples=samples,
            cheap_samples=samples,
            travelling=sample_requests.TRAVELLING_BYTES if samples else 0,
            threads=sum(self._threads[address] for address in self._shards),
            solves_trust_regions=self.solves_trust_regions,
        )

    @classmethod
    def from_memory(
        cls, client: Client, data: Partitions, where: DeviceConfig = AS_THEY_ARE
    ) -> Cluster:
        """Send rows from this process to the workers, one block to each.

        They are sent once, and lost with their worker.
        """
        sent: dict[int, Any] = {}
        try:
            on_scheduler(client, send(client, data, sent))
            rows = [sent[k] for k in sorted(sent)]
            placement = BlockPlacement(client, data.from_futures(rows), pin=False, sent=rows)
            return cls(client, placement, where)
        finally:
            # not left to the garbage collector: the traceback of an error may hold this frame
            for future in sent.values():
                future.release()

    def total(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Answer one request with sums over a view of the rows. Cost: 1 round.

        Sums of workers are added in the order of their addresses. A part of the rows travels here
        where it fits, with those that are asked about soon, and so do all rows after as many rounds
        as they take; from then on they cost no round.
        """
        if view.part is not None and view.columns is None and self.capabilities.travelling:
            bring = partial(self.total, problem)
            near = self._near.shard(problem, view, self.facts, bring)
            if near is not None:
                return near.answer_host(problem, request)
        if self._near.answers(problem, request, view, self.facts, self.capabilities, self.rounds):
            return self._all_rows(problem).answer_host(problem, request, view)
        self.rounds += 1
        began = time.monotonic()
        if isinstance(request, TrustRegionStep):
            asked = self._ball(problem, request)
        else:
            asked = self._round(problem, request, view)
        totals = self._sync(asked)
        if self._rebalance.after_round(time.monotonic() - began, self.facts.nbytes):
            self._sync(self._move_blocks())
        return totals

    def brought(self, problem: Problem) -> Local | None:
        """Return an engine of this process with the same rows; None where they do not travel.

        Cost: 1 round, unless they have come before.
        """
        if sample_requests.bytes_of(1.0, self.facts) > self.capabilities.travelling:
            return None
        return Local.of(self._all_rows(problem))

    def _all_rows(self, problem: Problem) -> Shard:
        folds = problem.folds is not None
        return self._near.all_rows(self.facts, partial(self.total, problem), folds=folds)

    def publish(self, iteration: Iteration) -> None:
        """Log an iteration on the scheduler, for its page and metrics; does not wait."""
        self._events.add(iteration, self.repairs)

    def close(self) -> None:
        """Release the blocks, and close the sessions on the workers."""
        # a cluster that is gone shows nothing
        with contextlib.suppress(Exception):
            self._events.send()
        self._near.close()
        self.placement.close()
        # a cluster that is gone has no sessions
        with contextlib.suppress(Exception):
            on_loop(self.client, self._close_sessions())
        self._shards = {}

    async def _close_sessions(self) -> None:
        if self.client.status == "running":
            closing = self._run(close, self.session, workers=list(await self.client.nthreads()))
            ending = self.client.run_on_scheduler(unregister, self.session)
            await asyncio.wait_for(asyncio.gather(ending, closing), CLEANUP_SECONDS)

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop; raise ClusterLost if the scheduler is gone."""
        return on_scheduler(self.client, work, self._scheduler)

    async def _run(self, function: Any, *args: Any, workers: list[str]) -> dict[str, Any]:
        if workers:
            return await self.client.run(function, *args, workers=workers, on_error="return")
        return {}

    # ---- loading
    async def _need_devices(self, where: DeviceConfig) -> None:
        """Raise RuntimeError unless every worker has a GPU, and NCCL if `where` asks for it."""
        missing = {
            address: reason
            for address, reason in (await self.client.run(find_device)).items()
            if reason
        }
        if not missing:
            if where.collective:
                await need_ranks(self._run, list(await self.client.nthreads()))
            return
        reason = min(missing.values())
        if len(missing) == len(await self.client.nthreads()):
            raise RuntimeError(f"no worker has a GPU: {reason}")
        raise RuntimeError(
            f"the cluster is mixed: {len(missing)} workers have no GPU "
            f"({', '.join(sorted(missing))}; {reason}) and "
            "the others have: give device='cpu', or start all workers with one GPU each"
        )

    async def _start(self) -> DataSummary:
        """Load the partitions, open a shard on every worker, and return a summary of the data."""
        try:
            await self.placement.load()
        except ImportError:
            # a worker that has joined meanwhile may lack daskglm, or have another version
            await check_cluster(self.client)
            raise
        facts, rows = await self._place()
        self._events.begin()
        check_widths([rows[key] for key in self.placement.keys])
        counts = [sum(rows[key][0] for key in keys) for keys in self._keys.values()]
        if len(counts) > 1 and max(counts) > UNEVEN_ROWS * sum(counts) / len(counts):
            logger.info(
                "rows per worker are uneven: %s", ", ".join(f"{count:,}" for count in counts)
            )
        return facts

    # ---- rounds
    async def _round(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Ask all workers; find blocks that did not answer again, and ask for these only."""
        shards, keys = self._shards, self._keys
        parts: list[Totals] = []
        # such a request has one answer of all workers, or none
        together = isinstance(request, TrustRegionStep)
        deadline = time.monotonic() + REPAIR_SECONDS
        for attempt in itertools.count():
            tree = _tree(list(shards))
            question = shards, tree, problem, request, view
            replies = await self._ask(keys, relay, *question, ask=list(tree))
            lost = dict(keys)
            for leader in tree:
                reply = replies.get(leader)
                if isinstance(reply, Failure):
                    raise reply.error
                if isinstance(reply, tuple):
                    totals, answered = reply
                    parts += [totals] if answered else []
                    self.bytes_reduced += (1 if together else len(answered)) * size_of(totals)
                    for address, seconds in answered.items():
                        del lost[address]
                        self._events.worked(address, seconds)
            if not lost:
                break

            if together:
                raise CollectiveLost(f"{len(lost)} of {len(shards)} workers did not answer")
            self.repairs += 1
            blocks = [key for held in lost.values() for key in held]
            logger.warning("%d block(s) did not answer; finding them again", len(blocks))
            if time.monotonic() > deadline:
                raise DataLost(
                    f"{len(blocks)} blocks did not answer within {REPAIR_SECONDS:.0f} s; giving up"
                )
            await asyncio.sleep(min(0.05 * (attempt + 1), 1.0))
            facts, _ = await self._place()
            check_same_rows(self.facts, facts, ordered=problem.folds is not None)
            shards, keys, _, _ = await self._open_shards(blocks)
        return add(parts)

    async def _ball(self, problem: Problem, request: TrustRegionStep) -> Totals:
        """Have the workers' GPUs solve one system; after a failure not again in this fit."""
        try:
            await self._collective.join(self._shards, self._keys)
            return await self._round(problem, request)
        except BaseException as error:
            self.solves_trust_regions = False
            await self._collective.leave(self._shards, self.client)
            if isinstance(error, CollectiveLost):
                logger.warning(
                    "GPUs no longer add up among themselves, sums go over Dask again: %s", error
                )
            raise

    async def _ask(
        self, keys: dict[str, list[str]], function: Any, *args: Any, ask: list[str] | None = None
    ) -> dict[str, Any]:
        """Ask the workers that hold these keys, or those of them in `ask`.

        Returns nothing as soon as a worker has lost its blocks: a call to a worker that has just
        died would wait for the connection's timeout (30 s). Asking again is harmless.
        """
        call = asyncio.ensure_future(
            self._run(function, self.session, *args, workers=ask or list(keys))
        )
        try:
            while True:
                done, _ = await asyncio.wait({call}, timeout=MEMBERSHIP_SECONDS)
                if done:
                    return call.result()
                holders = await self.placement.holders([held[0] for held in keys.values()])
                if any(address not in holders.get(held[0], ()) for address, held in keys.items()):
                    return {}
        finally:
            call.cancel()

    # ---- placement
    async def _place(self) -> tuple[DataSummary, dict[str, tuple[int, int]]]:
        """Locate all blocks, and open one shard on each worker that has some."""
        before = list(self._shards)
        self._shards, self._keys, facts, rows = await self._open_shards(self.placement.keys)
        self._rebalance = RebalancePolicy()
        if before:
            alive = await self.client.nthreads()
            workers = [address for address in {*before, *self._shards} if address in alive]
            cleanup = self._run(
                keep_only, self.session, max(self._shards.values()), workers=workers
            )
            # a worker that is stopped does not answer, and is passed over
            with contextlib.suppress(TimeoutError, OSError):
                await asyncio.wait_for(cleanup, CLEANUP_SECONDS)
        return facts, rows

    async def _move_blocks(self) -> None:
        """Look for workers that have joined, and move blocks to them if that is due."""
        threads = await running_threads(self.client, keep=self._keys)
        busy = sum(threads.get(address, 0) for address in self._keys)
        self._rebalance.set_busy_threads(busy, sum(threads.values()))
        if not self._rebalance.is_due:
            return
        if moves := plan_moves(self._keys, threads):
            logger.info("moving %d block(s) to workers that have come", len(moves))
            await self.placement.move(moves)
            await self._place()
        else:
            # no worker has a block to spare; look again later
            self._rebalance = RebalancePolicy()

    async def _open_shards(
        self, keys: list[str]
    ) -> tuple[dict[str, int], dict[str, list[str]], DataSummary, dict[str, tuple[int, int]]]:
        """Open shards for the keys where they are now, until every worker has all its blocks."""
        await self.client.run_on_scheduler(list_and_show, self.session, self.client.id)
        deadline = time.monotonic() + REPAIR_SECONDS
        while True:
            by_address = await self.placement.locate(keys, deadline)
            await check_workers(self.client, list(by_address), PROBE_SECONDS)
            number = next(self._numbers)
            calls = [self._open(number, address, held) for address, held in by_address.items()]
            replies = await asyncio.gather(*calls)
            opened: dict[str, Any] = {
                a: reply.get(a) for a, reply in zip(by_address, replies, strict=True)
            }
            if all(isinstance(reply, tuple) for reply in opened.values()):
                break
            for reply in opened.values():
                if isinstance(reply, Failure):
                    raise reply.error
                if isinstance(reply, Exception) and not isinstance(reply, OSError):
                    raise reply
            if time.monotonic() > deadline:
                raise DataLost(
                    f"workers could not be reached within {REPAIR_SECONDS:.0f} s: {opened}"
                )
            await asyncio.sleep(0.05)

        facts = DataSummary()
        rows: dict[str, tuple[int, int]] = {}
        self.device = _only_device({address: opened[address][2] for address in by_address})
        self._threads |= {address: opened[address][3] for address in by_address}
        for address in by_address:
            part, sizes = opened[address][:2]
            facts = facts.merge(part)
            rows.update(zip(by_address[address], sizes, strict=True))
        return dict.fromkeys(by_address, number), by_address, facts, rows

    async def _open(self, number: int, address: str, held: list[str]) -> dict[str, Any]:
        """Have a worker open a shard of these keys."""
        # the recipe of a stream has a graph, which takes time to pickle
        recipe = await asyncio.to_thread(self.placement.recipe, held)
        return await self._ask(
            {address: held}, self.placement.open_function, number, held, *recipe, self.where
        )
