"""The engine that answers on a Dask cluster: one message a round, the work in one thread of each
worker's executor.

Dask owns the blocks, as ordinary futures with lineage; a worker holds only a session of shards and
memos, which may vanish at any time. A round does not touch the task graph: it is one `client.run`
of an async function (of the bare exchanges measured by `python -m benchmarks rounds` the cheapest
that neither blocks retirement of workers nor fails on a dead one). This runs on the client;
`sessions` is the other end.
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
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np
from distributed import Client

from daskglm.core.facts import Facts
from daskglm.core.requests import CollectiveLost, InBall, Problem, Request, Totals, add, size_of
from daskglm.data.partitions import Partitions, check_widths
from daskglm.engines.collective import Collective, need_ranks
from daskglm.engines.placement import (
    REPAIR_SECONDS,
    ClusterLost,
    DataLost,
    Kept,
    Whereabouts,
    moves,
)
from daskglm.engines.presence import begin, end
from daskglm.engines.rebalancing import Wish
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
from daskglm.worker.device_placement import WHERE_THEY_ARE, Where

logger = logging.getLogger("daskglm")

MEMBERSHIP_SECONDS = 0.25  # how often a slow round asks whether its workers still hold their blocks
STAR_WORKERS = 8  # up to so many workers answer to the client itself, more through leaders
TIDY_SECONDS = 5.0  # how long workers may take to forget what they no longer hold
PROBE_SECONDS = 10.0  # how long a scheduler may take to say that it is there
# relative: sums of the same rows differ by rounding, as they are added in another order
SAME_NORMS = 1e-9
_GO_ON = " Where the fit kept a checkpoint, daskglm.fit(..., resume=...) goes on from it"
T = TypeVar("T")


def _identity(dask_scheduler: Any = None) -> str:
    """On the scheduler: its name, which a scheduler that is started again does not keep."""
    return str(dask_scheduler.id)


# ---- on the client
def on_loop(client: Client, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the client's event loop from another thread; works for asynchronous
    clients too.

    Raises
    ------
    ClusterLost
        Where the client has closed meanwhile, as it does when its scheduler stays away.
    """
    future = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
    try:
        while True:
            try:
                return future.result(PROBE_SECONDS)
            except TimeoutError:
                if future.done():
                    raise
                if client.status in ("closing", "closed"):
                    raise ClusterLost(
                        f"the client has lost its scheduler and is closed.{_GO_ON}"
                    ) from None
    except BaseException:
        future.cancel()
        raise


def _tree(addresses: list[str]) -> dict[str, list[str]]:
    """Leaders, which the client asks, and the workers that each leader asks in its turn; a star for
    few workers.

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
            f"some workers compute on a GPU and some do not ({mixed}): give device='cpu' or "
            "device='cuda', or let all "
            "partitions be of one kind"
        )
    return min(kinds, default="cpu")


def _same_rows(before: Facts, now: Facts, *, ordered: bool) -> None:
    """Raise DataLost where partitions that were made again have other rows, or, if that matters, in
    another order.
    """
    rows = [{label: count for label, count, _ in facts.classes} for facts in (before, now)]
    counts = before.n_rows == now.n_rows and before.nonzeros == now.nonzeros and rows[0] == rows[1]
    if not counts or not math.isclose(before.squared_norms, now.squared_norms, rel_tol=SAME_NORMS):
        raise DataLost(
            "partitions that were lost with a worker came back with other rows: their source is "
            "random or has changed. "
            "Write the data to files, or persist them, and fit again"
        )
    if ordered and before.order != now.order:
        raise DataLost(
            "partitions that were lost with a worker came back with their rows in another order "
            "(as shuffles do), and "
            "folds are kept by row: persist the dataframe, or write it to files, and fit again"
        )


class Cluster:
    """All rows of a data set on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    whereabouts : Whereabouts
        Of the partitions.
    where : Where
        Whether workers compute on their GPUs; default: each where its rows are, if that is the same
        for all.

    Raises
    ------
    ClusterLost
        Where the scheduler goes away.
    Exception
        Whatever the first faulty partition raised while loading.
    """

    xp: Any = np  # vectors cross the network and the client may have no device

    def __init__(
        self, client: Client, whereabouts: Whereabouts, where: Where = WHERE_THEY_ARE
    ) -> None:
        self.client, self.whereabouts, self.where = client, whereabouts, where
        self.device, self.solves_balls = "cpu", False
        self.session = uuid.uuid4().hex
        self.rounds = 0
        self.bytes_reduced = 0
        self.repairs = 0
        self._numbers = itertools.count()
        self._shards: dict[str, int] = {}
        self._keys: dict[str, list[str]] = {}
        self._wish = Wish()
        self._collective = Collective(self.session, self._run, self._ask)
        self._scheduler = self._sync(self._name_of_scheduler())
        if where.device == "cuda":
            self._sync(self._need_devices(where))  # before anything is computed
        try:
            self.facts = self._sync(self._start())
            if self.device == "cuda" and where.collective:
                self._sync(need_ranks(self._run, list(self._shards)))
                self.solves_balls = True
        except BaseException:
            self.close()
            raise

    @property
    def shares_memory(self) -> bool:
        """Never."""
        return False

    @property
    def samples(self) -> bool:
        """Whether parts of the rows can be asked: where workers hold them in host memory."""
        return self.whereabouts.resident and self.device == "cpu"

    @property
    def answers_samples(self) -> bool:
        """Whether parts of the rows can be asked: only where they cost their part."""
        return self.samples

    @classmethod
    def from_memory(
        cls, client: Client, data: Partitions, where: Where = WHERE_THEY_ARE
    ) -> Cluster:
        """Deal rows held by this process to the workers, one block each. They are sent once and
        have no recipe.
        """
        sent: dict[int, Any] = {}
        try:
            on_loop(client, send(client, data, sent))
            rows = [sent[k] for k in sorted(sent)]
            return cls(client, Kept(client, data.from_futures(rows), pin=False, sent=rows), where)
        finally:
            for future in sent.values():  # by name: the traceback of an error may hold this frame
                future.release()

    @property
    def workers(self) -> int:
        """Workers that hold blocks."""
        return len(self._shards)

    def total(self, problem: Problem, request: Request) -> Totals:
        """Answer one request with sums over all rows, in the order of workers' addresses. Cost: 1
        round.
        """
        self.rounds += 1
        began = time.monotonic()
        asked = (
            self._ball(problem, request)
            if isinstance(request, InBall)
            else self._round(problem, request)
        )
        totals = self._sync(asked)
        if self._wish.after(time.monotonic() - began, self.facts.nbytes):
            self._sync(self._spread())
        return totals

    def close(self) -> None:
        """Release the blocks and let the workers forget this fit."""
        self.whereabouts.close()
        with contextlib.suppress(Exception):  # a cluster that is gone has forgotten already
            on_loop(self.client, self._forget())
        self._shards = {}

    async def _forget(self) -> None:
        if self.client.status == "running":
            closing = self._run(close, self.session, workers=list(await self.client.nthreads()))
            ending = self.client.run_on_scheduler(end, self.session)
            await asyncio.wait_for(asyncio.gather(ending, closing), TIDY_SECONDS)

    def _sync(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work on the client's loop; where it fails, tell whether that is because the
        scheduler is gone.
        """
        try:
            return on_loop(self.client, work)
        except (OSError, DataLost, CancelledError, asyncio.CancelledError) as error:
            if on_loop(self.client, self._has_lost_scheduler()):
                raise ClusterLost(
                    "the scheduler that this fit ran on is gone, or was started anew "
                    f"({error!r}).{_GO_ON}"
                ) from error
            raise

    async def _name_of_scheduler(self) -> str:
        return str(await self.client.run_on_scheduler(_identity))

    async def _has_lost_scheduler(self) -> bool:
        try:
            name = await asyncio.wait_for(self._name_of_scheduler(), PROBE_SECONDS)
        except Exception:
            return True
        return hasattr(self, "_scheduler") and name != self._scheduler

    async def _run(self, function: Any, *args: Any, workers: list[str]) -> dict[str, Any]:
        return (
            await self.client.run(function, *args, workers=workers, on_error="return")
            if workers
            else {}
        )

    # ---- loading
    async def _need_devices(self, where: Where) -> None:
        """Raise RuntimeError unless every worker has a GPU, and NCCL where that is wanted."""
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

    async def _start(self) -> Facts:
        """Load the partitions, open a shard on every worker and learn what the data are."""
        try:
            await self.whereabouts.load()
        except ImportError:  # of a worker that has come meanwhile
            await check_cluster(self.client)
            raise
        facts, rows = await self._place()
        check_widths([rows[key] for key in self.whereabouts.keys])
        counts = [sum(rows[key][0] for key in keys) for keys in self._keys.values()]
        if len(counts) > 1 and max(counts) > 1.3 * sum(counts) / len(counts):
            logger.info(
                "rows per worker are uneven: %s", ", ".join(f"{count:,}" for count in counts)
            )
        return facts

    # ---- rounds
    async def _round(self, problem: Problem, request: Request) -> Totals:
        shards, keys = self._shards, self._keys
        parts: list[Totals] = []
        together = isinstance(request, InBall)  # whose answer is one, or none
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
                    self.bytes_reduced += (1 if together else len(answered)) * size_of(totals)
                    for address in answered:
                        del lost[address]
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
            _same_rows(self.facts, facts, ordered=problem.folds is not None)
            shards, keys, _, _ = await self._open_shards(blocks)
        return add(parts)

    async def _ball(self, problem: Problem, request: InBall) -> Totals:
        """Have the workers' GPUs solve one system together; once they cannot, never again in this
        fit.
        """
        try:
            await self._collective.join(self._shards, self._keys)
            return await self._round(problem, request)
        except BaseException as error:
            self.solves_balls = False
            await self._collective.leave(self._shards, self.client)
            if isinstance(error, CollectiveLost):
                logger.warning(
                    "GPUs no longer add up among themselves, sums go over Dask again: %s", error
                )
            raise

    async def _ask(
        self, keys: dict[str, list[str]], function: Any, *args: Any, ask: list[str] | None = None
    ) -> dict[str, Any]:
        """Ask the workers that hold these keys, or those of them in `ask`, racing the answer with
        their membership.

        A call to a worker that has just died can sit in the connection timeout (30 s) while Dask
        knows it is gone; then nothing is returned, and asking again is harmless.
        """
        call = asyncio.ensure_future(
            self._run(function, self.session, *args, workers=ask or list(keys))
        )
        try:
            while True:
                done, _ = await asyncio.wait({call}, timeout=MEMBERSHIP_SECONDS)
                if done:
                    return call.result()
                holders = await self.whereabouts.holders([held[0] for held in keys.values()])
                if any(address not in holders.get(held[0], ()) for address, held in keys.items()):
                    return {}
        finally:
            call.cancel()

    # ---- placement
    async def _place(self) -> tuple[Facts, dict[str, tuple[int, int]]]:
        """Find all blocks and open one shard a worker for them."""
        before = list(self._shards)
        self._shards, self._keys, facts, rows = await self._open_shards(self.whereabouts.keys)
        self._wish = Wish()
        if before:
            alive = await self.client.nthreads()
            workers = [address for address in {*before, *self._shards} if address in alive]
            tidy = self._run(keep_only, self.session, max(self._shards.values()), workers=workers)
            # a worker that is stopped is left alone
            with contextlib.suppress(TimeoutError, OSError):
                await asyncio.wait_for(tidy, TIDY_SECONDS)
        return facts, rows

    async def _spread(self) -> None:
        """Let workers that have come meanwhile take a part of the blocks, if there are enough for
        that.
        """
        threads = await running_threads(self.client, keep=self._keys)
        self._wish.learn(
            sum(threads.get(address, 0) for address in self._keys), sum(threads.values())
        )
        if self._wish.is_due and (new := moves(self._keys, threads)):
            logger.info("moving %d block(s) to workers that have come", len(new))
            await self.whereabouts.move(new)
            await self._place()
        elif self._wish.is_due:
            self._wish = Wish()  # there is no block to spare; look again later

    async def _open_shards(
        self, keys: list[str]
    ) -> tuple[dict[str, int], dict[str, list[str]], Facts, dict[str, tuple[int, int]]]:
        """Open shards for the keys where they are now, until every worker agrees that it holds its
        own.
        """
        await self.client.run_on_scheduler(begin, self.session, self.client.id)
        deadline = time.monotonic() + REPAIR_SECONDS
        while True:
            by_address = await self.whereabouts.locate(keys, deadline)
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
        facts = Facts()
        rows: dict[str, tuple[int, int]] = {}
        self.device = _only_device({address: opened[address][2] for address in by_address})
        for address in by_address:
            part, sizes, _ = opened[address]
            facts = facts.merge(part)
            rows.update(zip(by_address[address], sizes, strict=True))
        return dict.fromkeys(by_address, number), by_address, facts, rows

    async def _open(self, number: int, address: str, held: list[str]) -> dict[str, Any]:
        """Have a worker make a shard of its blocks."""
        # of a stream it holds a graph
        recipe = await asyncio.to_thread(self.whereabouts.recipe, held)
        return await self._ask(
            {address: held}, self.whereabouts.opening, number, held, *recipe, self.where
        )
