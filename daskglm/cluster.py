"""The engine that answers on a Dask cluster: one message a round, the work in one thread of each worker's executor.

Dask owns the blocks, as ordinary futures with lineage; a worker holds only a session of shards and memos, which may
vanish at any time. A round does not touch the task graph: it is one `client.run` of an async function (of the bare
exchanges measured by `python -m benchmarks rounds` the cheapest that neither blocks retirement of workers nor fails
on a dead one). This runs on the client; `sessions` is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
from distributed import Client

from daskglm.inputs import Partitions, check_widths
from daskglm.messages import Facts, Problem, Request, Totals, add, size_of
from daskglm.placing import WHERE_THEY_ARE, Where
from daskglm.room import check_room, sample_of
from daskglm.sessions import Failure, carries_device_memory, close, find_device, open_shard, relay

logger = logging.getLogger("daskglm")

MEMBERSHIP_SECONDS = 0.25  # how often a slow round asks whether its workers still hold their blocks
STUCK_SECONDS = 2.0  # how long to wait for lost blocks before looking whether their tasks are stuck
STAR_WORKERS = 8  # up to so many workers answer to the client itself, more through leaders
REPAIR_SECONDS = 300.0  # how long lost blocks may take to come back before the fit gives up
T = TypeVar("T")


class DataLost(RuntimeError):
    """Blocks of the data are gone and cannot be computed again."""


# ---------------------------------------------------------------------------- on the scheduler
def _unknown(keys: list[str], dask_scheduler: Any = None) -> list[str]:
    """On the scheduler: keys it has forgotten, or given up."""
    tasks = dask_scheduler.tasks
    return [key for key in keys if key not in tasks or tasks[key].state in ("erred", "forgotten")]


def _limits(dask_scheduler: Any = None) -> list[int]:
    """On the scheduler: how much memory each worker may take."""
    return [worker.memory_limit for worker in dask_scheduler.workers.values()]


def _stuck(dask_scheduler: Any = None) -> bool:
    """On the scheduler: whether tasks wait for a worker although there are workers."""
    return bool(dask_scheduler.workers and dask_scheduler.unrunnable)


# ---------------------------------------------------------------------------- on the client
def on_loop(client: Client, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the client's event loop from another thread; works for asynchronous clients too."""
    future = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _tree(addresses: list[str]) -> dict[str, list[str]]:
    """Leaders, which the client asks, and the workers that each leader asks in its turn; a star for few workers.

    Where workers send each other device memory, a leader for every few: their sums meet on its GPU.
    """
    ordered = sorted(addresses)
    width = 1 if len(ordered) <= STAR_WORKERS else math.ceil(math.sqrt(len(ordered)))
    if ordered and carries_device_memory(ordered[0]):
        width = max(width, min(len(ordered), STAR_WORKERS))
    groups = [ordered[i : i + width] for i in range(0, len(ordered), width)]
    return {group[0]: group[1:] for group in groups}


def _only_device(devices: dict[str, str]) -> str:
    """The kind of device that all workers compute on; raises RuntimeError where they differ."""
    kinds = set(devices.values())
    if len(kinds) > 1:
        mixed = ", ".join(f"{address}: {device}" for address, device in sorted(devices.items()))
        raise RuntimeError(
            f"some workers compute on a GPU and some do not ({mixed}): give device='cpu' or device='cuda', or let all "
            "partitions be of one kind"
        )
    return min(kinds, default="cpu")


class Cluster:
    """All rows of a data set on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition.
    pin : bool
        Deal the partitions to workers in runs (else Dask's own placement holds, as for persisted collections).
    where : Where
        Whether workers compute on their GPUs; default: each where its rows are, if that is the same for all.
    nbytes : int, optional
        That the rows will take; default: estimated when some partitions have been loaded.

    Raises
    ------
    MemoryError
        Where the rows are larger than the memory of all workers.
    Exception
        Whatever the first faulty partition raised while loading.
    """

    xp: Any = np  # vectors cross the network and the client may have no device
    solves_balls: bool = False

    def __init__(
        self,
        client: Client,
        lazy: Sequence[Any],
        *,
        pin: bool,
        where: Where = WHERE_THEY_ARE,
        nbytes: int | None = None,
    ) -> None:
        self.client, self.where = client, where
        self.device = "cpu"
        self.session = uuid.uuid4().hex
        self.rounds = 0
        self.bytes_reduced = 0
        self.repairs = 0
        self._numbers = itertools.count()
        self._shards: dict[str, int] = {}
        self._keys: dict[str, list[str]] = {}
        self._lazy = list(lazy)
        if where.device == "cuda":
            self._sync(self._need_devices())  # before anything is computed
        if nbytes is not None:
            check_room(nbytes, *self._sync(self._memory()))
        self._futures = self._submit(lazy, pin)
        self._order = {future.key: i for i, future in enumerate(self._futures)}
        try:
            self._sync(self._loaded(estimate=nbytes is None))
            self.facts = self._sync(self._start())
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_memory(cls, client: Client, data: Partitions, where: Where = WHERE_THEY_ARE) -> Cluster:
        """Deal rows held by this process to the workers, one block each. They are sent once and have no recipe."""

        async def send() -> list[Any]:
            addresses = sorted(await client.nthreads())
            if not addresses:
                raise RuntimeError("the cluster has no workers to send the rows to")
            parts = data.split(len(addresses))
            sent = [client.scatter([part], workers=[a], hash=False) for part, a in zip(parts, addresses, strict=True)]
            return [futures[0] for futures in await asyncio.gather(*sent)]

        engine = cls(client, data.from_futures(on_loop(client, send())), pin=False, where=where)
        engine._lazy = []  # else the rows as they were sent would stay beside the blocks
        return engine

    @property
    def workers(self) -> int:
        """Workers that hold blocks."""
        return len(self._shards)

    def total(self, problem: Problem, request: Request) -> Totals:
        """Answer one request with sums over all rows, in the order of workers' addresses. Cost: 1 round."""
        self.rounds += 1
        return self._sync(self._round(problem, request))

    def close(self) -> None:
        """Release the blocks and let the workers forget this fit."""
        for future in self._futures:
            future.release()  # by name, since the traceback of an error may hold this engine
        self._futures, self._lazy = [], []
        with contextlib.suppress(Exception):  # a cluster that is gone has forgotten already
            self._sync(self._forget())
        self._shards = {}

    async def _forget(self) -> None:
        alive = await self.client.nthreads()
        await self._run(close, self.session, workers=[a for a in self._shards if a in alive])

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        return on_loop(self.client, work)

    async def _run(self, function: Any, *args: Any, workers: list[str]) -> dict[str, Any]:
        return await self.client.run(function, *args, workers=workers, on_error="return") if workers else {}

    # ------------------------------------------------------------------ loading
    def _submit(self, lazy: Sequence[Any], pin: bool) -> list[Any]:
        """Start computing the blocks, which stay where they are made."""
        threads = dict(sorted(self._sync(self._nthreads()).items()))
        if not pin or not threads:
            return list(self.client.compute(list(lazy)))
        shares = np.cumsum([0, *threads.values()]) / sum(threads.values())
        cuts = np.rint(shares * len(lazy)).astype(int)
        futures: list[Any] = []
        for address, lo, hi in zip(threads, cuts[:-1], cuts[1:], strict=True):
            part = list(lazy[lo:hi])
            futures += self.client.compute(part, workers=[address], allow_other_workers=True) if part else []
        return futures

    async def _need_devices(self) -> None:
        """Raise RuntimeError unless every worker has a GPU."""
        missing = {address: reason for address, reason in (await self.client.run(find_device)).items() if reason}
        if not missing:
            return
        reason = min(missing.values())
        if len(missing) == len(await self.client.nthreads()):
            raise RuntimeError(f"no worker has a GPU: {reason}")
        raise RuntimeError(
            f"the cluster is mixed: {len(missing)} workers have no GPU ({', '.join(sorted(missing))}; {reason}) and "
            "the others have: give device='cpu', or start all workers with one GPU each"
        )

    async def _nthreads(self) -> dict[str, int]:
        return dict(await self.client.nthreads())

    async def _loaded(self, *, estimate: bool) -> None:
        """Wait until all blocks are there; raise what the first faulty one raised."""
        some, all_ = sample_of(len(self._futures)), len(self._futures)
        for count, done in enumerate(asyncio.as_completed([future.exception() for future in self._futures]), 1):
            error = await done
            if error is not None:
                raise error
            if estimate and count == some < all_:
                there = [future.key for future in self._futures if future.status == "finished"]
                sizes = await self.client.scheduler.nbytes(keys=there, summary=False)
                needed = sum(sizes.values()) / len(there) * all_
                check_room(needed, *await self._memory(), read=(len(there), all_))

    async def _memory(self) -> tuple[int, str]:
        """Bytes that the workers have together (0: not all have a limit), and how to say so."""
        limits = await self.client.run_on_scheduler(_limits)
        return (sum(limits) if all(limits) else 0), f"the {len(limits)} workers have together"

    async def _start(self) -> Facts:
        """Open a shard on every worker and learn what the data are."""
        facts, rows = await self._place(self._keys_in_order())
        check_widths([rows[key] for key in self._keys_in_order()])
        counts = [sum(rows[key][0] for key in keys) for keys in self._keys.values()]
        if len(counts) > 1 and max(counts) > 1.3 * sum(counts) / len(counts):
            logger.info("rows per worker are uneven: %s", ", ".join(f"{count:,}" for count in counts))
        return facts

    def _keys_in_order(self) -> list[str]:
        return [future.key for future in self._futures]

    # ------------------------------------------------------------------ rounds
    async def _round(self, problem: Problem, request: Request) -> Totals:
        shards, keys = self._shards, self._keys
        parts: list[Totals] = []
        deadline = time.monotonic() + REPAIR_SECONDS
        for attempt in itertools.count():
            tree = _tree(list(shards))
            replies = await self._ask(keys, relay, shards, tree, problem, request, ask=list(tree))
            lost = dict(keys)
            for leader in tree:
                reply = replies.get(leader)
                if isinstance(reply, Failure):
                    raise reply.error
                if isinstance(reply, tuple):
                    totals, answered = reply
                    parts += [totals] if answered else []
                    self.bytes_reduced += len(answered) * size_of(totals)
                    for address in answered:
                        del lost[address]
            if not lost:
                break
            self.repairs += 1
            blocks = [key for held in lost.values() for key in held]
            logger.warning("%d block(s) did not answer; finding them again", len(blocks))
            if time.monotonic() > deadline:
                raise DataLost(f"{len(blocks)} blocks did not answer within {REPAIR_SECONDS:.0f} s; giving up")
            await asyncio.sleep(min(0.05 * (attempt + 1), 1.0))
            await self._place(self._keys_in_order())
            shards, keys = await self._place_some(blocks)
        return add(parts)

    async def _ask(
        self, keys: dict[str, list[str]], function: Any, *args: Any, ask: list[str] | None = None
    ) -> dict[str, Any]:
        """Ask the workers that hold these keys, or those of them in `ask`, racing the answer with their membership.

        A call to a worker that has just died can sit in the connection timeout (30 s) while Dask knows it is gone;
        then nothing is returned, and asking again is harmless.
        """
        call = asyncio.ensure_future(self._run(function, self.session, *args, workers=ask or list(keys)))
        try:
            while True:
                done, _ = await asyncio.wait({call}, timeout=MEMBERSHIP_SECONDS)
                if done:
                    return call.result()
                holders = await self._holders([held[0] for held in keys.values()])
                if any(address not in holders.get(held[0], ()) for address, held in keys.items()):
                    return {}
        finally:
            call.cancel()

    # ------------------------------------------------------------------ placement
    async def _place(self, keys: list[str]) -> tuple[Facts, dict[str, tuple[int, int]]]:
        """Find all blocks and open one shard a worker for them."""
        self._shards, self._keys, facts, rows = await self._open_shards(keys)
        return facts, rows

    async def _place_some(self, keys: list[str]) -> tuple[dict[str, int], dict[str, list[str]]]:
        shards, by_address, _, _ = await self._open_shards(keys)
        return shards, by_address

    async def _open_shards(
        self, keys: list[str]
    ) -> tuple[dict[str, int], dict[str, list[str]], Facts, dict[str, tuple[int, int]]]:
        """Open shards for the keys where they are now, until every worker agrees that it holds its own."""
        deadline = time.monotonic() + REPAIR_SECONDS
        while True:
            by_address = await self._locate(keys, deadline)
            number = next(self._numbers)
            calls = [self._open(number, address, held) for address, held in by_address.items()]
            replies = await asyncio.gather(*calls)
            opened: dict[str, Any] = {a: reply.get(a) for a, reply in zip(by_address, replies, strict=True)}
            if all(isinstance(reply, tuple) for reply in opened.values()):
                break
            for reply in opened.values():
                if isinstance(reply, Failure):
                    raise reply.error
                if isinstance(reply, Exception) and not isinstance(reply, OSError):
                    raise reply
            if time.monotonic() > deadline:
                raise DataLost(f"workers could not be reached within {REPAIR_SECONDS:.0f} s: {opened}")
            await asyncio.sleep(0.05)
        facts = Facts()
        rows: dict[str, tuple[int, int]] = {}
        self.device = _only_device({address: opened[address][2] for address in by_address})
        for address in by_address:
            part, sizes, _ = opened[address]
            facts = facts.merge(part)
            rows.update(zip(by_address[address], sizes, strict=True))
        return dict.fromkeys(by_address, number), by_address, facts, rows

    def _open(self, number: int, address: str, held: list[str]) -> Coroutine[Any, Any, dict[str, Any]]:
        """Have a worker make a shard of the blocks it holds."""
        return self._ask({address: held}, open_shard, number, held, self.where)

    async def _holders(self, keys: list[str]) -> dict[str, Sequence[str]]:
        return dict(await self.client.scheduler.who_has(keys=keys))

    async def _locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Which worker holds which of the keys, in the order of partitions; waits for lost blocks to be recomputed."""
        wanted = set(keys)
        look_at = time.monotonic() + STUCK_SECONDS
        while True:
            doubtful = [f.key for f in self._futures if f.key in wanted and f.status in ("error", "cancelled", "lost")]
            gone = await self.client.run_on_scheduler(_unknown, doubtful) if doubtful else []
            if gone:
                raise DataLost(
                    f"partition {self._order[gone[0]]} was lost with its worker and cannot be computed again: data "
                    "scattered by a client have no recipe"
                )
            holders = await self._holders(keys)
            by_address: dict[str, list[str]] = {}
            for key in keys:
                if holders.get(key):
                    by_address.setdefault(min(holders[key]), []).append(key)
            if sum(map(len, by_address.values())) == len(keys):
                return dict(sorted(by_address.items()))
            now = time.monotonic()
            if now > deadline:
                raise DataLost(f"{len(keys)} blocks were asked for and not all came back in {REPAIR_SECONDS:.0f} s")
            if now > look_at:
                look_at = now + STUCK_SECONDS
                if self._lazy and await self.client.run_on_scheduler(_stuck):
                    await self._submit_again({key for key in keys if not holders.get(key)})
            await asyncio.sleep(0.05)

    async def _submit_again(self, lost: set[str]) -> None:
        """Submit the tasks of lost blocks without pins.

        With all workers gone at once, distributed (2026.7) parks tasks whose workers are named, even loosely, and
        does not look at them again when other workers come.
        """
        at = [i for i, future in enumerate(self._futures) if future.key in lost]
        for i in at:
            self._futures[i].release()
        await asyncio.sleep(0.2)  # the release is sent by a callback of this loop; it must arrive before the new graph
        for i, future in zip(at, self.client.compute([self._lazy[i] for i in at]), strict=True):
            self._futures[i] = future
