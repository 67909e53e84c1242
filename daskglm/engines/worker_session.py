"""What runs on a worker: sessions that hold the shards of one fit, and the functions a client runs
there.

A session is a cache. Blocks in it are Dask's own objects; memos are rebuilt from what requests
carry. The functions are async and run on the worker's event loop, so the work itself goes to a
thread. Called by `cluster` only.

A worker that has sessions asks the scheduler every few seconds which of them still go on, and
closes the others: those of clients that were killed, and those that a client could not close. Where
that is wrong (a client that lost its connection and is back) the next round finds no shard and
opens another.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
from tornado.ioloop import PeriodicCallback

from daskglm.core.device import gpu, on_device, to_host
from daskglm.core.facts import Facts
from daskglm.core.requests import Problem, Request, Totals, add
from daskglm.data.blocks import Block
from daskglm.engines.presence import going_on
from daskglm.worker.block_cache import Memo
from daskglm.worker.device_placement import Where
from daskglm.worker.shard import Shard
from daskglm.worker.streaming import StreamedShard

STREAM_SHARE = 0.6  # of what is left of a worker's memory, for rows that are read at every pass
LOOK_SECONDS = 10.0  # between two questions to the scheduler; measured: 0.4 ms of its time each
MISSES = 2  # answers in a row that a session is over before it is closed
WATCH = "daskglm-sessions"  # name of the periodic callback among those of the worker
# Dask's ways to send objects, device memory as it is
DEVICE_FAMILIES = ("cuda", "dask", "pickle", "error")

logger = logging.getLogger("daskglm")


@dataclass(frozen=True)
class Failure:
    """An error of our own code on a worker, told apart from failures of the connection to it."""

    error: Exception


@dataclass
class Session:
    """What one fit keeps on one worker: shards by number, memos and moved blocks by key, a lock
    that keeps order.
    """

    shards: dict[int, Shard | StreamedShard] = field(default_factory=dict)
    memos: dict[str, Memo] = field(default_factory=dict)
    placed: dict[Any, Block] = field(default_factory=dict)
    known: dict[str, Facts] = field(default_factory=dict)
    ranks: Any = None  # a communicator over the devices of this fit's workers
    misses: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def close(self) -> None:
        """Release blocks, memos and threads."""
        self.part()
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()
        self.memos.clear()
        self.placed.clear()

    def part(self) -> None:
        """Leave the communicator, where there is one, and forget the graphs that were captured with
        it.
        """
        for shard in self.shards.values():
            if isinstance(shard, Shard):
                shard.ball = shard.ranks = None
        if self.ranks is not None:
            self.ranks.close()
        self.ranks = None


_sessions: weakref.WeakKeyDictionary[Any, dict[str, Session]] = weakref.WeakKeyDictionary()


async def open_shard(
    session: str, shard: int, keys: list[str], where: Where, dask_worker: Any = None
) -> Any:
    """Gather blocks that this worker holds into a shard.

    Returns facts, sizes of blocks and the kind of device; or the keys that are missing; or a
    Failure.
    """
    missing = [key for key in keys if key not in dask_worker.data]
    if missing:
        return missing
    state = _session(session, dask_worker)
    async with state.lock:
        blocks = [dask_worker.data[key] for key in keys]
        _warn_of_spilling(blocks, dask_worker)
        make = partial(
            Shard, blocks, dask_worker.state.nthreads, state.memos, keys, where, state.placed
        )
        try:
            opened = await asyncio.get_running_loop().run_in_executor(None, make)
        except Exception as error:
            return Failure(error)
        state.shards[shard] = opened
    return (
        opened.facts,
        [(block.facts.n_rows, block.facts.n_features) for block in blocks],
        opened.device,
    )


def _warn_of_spilling(blocks: list[Block], dask_worker: Any) -> None:
    """Tell in the worker's log that dask-cuda may copy rows off the GPU in vain, since the session
    holds them too.
    """
    # a plain dict where it does not
    spills = hasattr(getattr(dask_worker.data, "device_buffer", None), "fast")
    if spills and any(on_device(block.X) for block in blocks):
        logger.warning(
            "worker %s: dask-cuda spills rows on its GPU when it takes memory to be short, which "
            "frees nothing while "
            "a fit uses them: start the cluster with device_memory_limit=0",
            dask_worker.address,
        )


async def open_stream(
    session: str, shard: int, keys: list[str], recipes: bytes, where: Where, dask_worker: Any = None
) -> Any:
    """Read partitions once, from pickled delayed blocks, and keep what is needed to read them at
    every pass.

    Returns what `open_shard` does.
    """
    state = _session(session, dask_worker)
    async with state.lock:
        limit = dask_worker.memory_manager.memory_limit or psutil.virtual_memory().total
        used = psutil.Process().memory_info().rss
        room = int(STREAM_SHARE * max(limit - used, 0))

        def make() -> StreamedShard:
            threads = dask_worker.state.nthreads
            return StreamedShard(
                pickle.loads(recipes), keys, threads, room, where, state.known, state.memos
            )

        try:
            opened = await asyncio.get_running_loop().run_in_executor(None, make)
        except MemoryError as error:
            here = f"worker {dask_worker.address}, which uses {used:,} bytes of {limit:,}"
            return Failure(MemoryError(f"{here}: {error}"))
        except Exception as error:
            return Failure(error)
        state.shards[shard] = opened
    return opened.facts, opened.sizes, opened.device


def _session(session: str, dask_worker: Any) -> Session:
    """The session of a fit; as long as there are any, the worker looks which of them still go
    on.
    """
    if WATCH not in dask_worker.periodic_callbacks:
        watch = PeriodicCallback(partial(close_ended, dask_worker), 1000 * LOOK_SECONDS)
        dask_worker.periodic_callbacks[WATCH] = watch  # which it stops when it closes
        watch.start()
    return _sessions.setdefault(dask_worker, {}).setdefault(session, Session())


def session_of(session: str, dask_worker: Any) -> Session | None:
    """The session of a fit on a worker, where it has one."""
    return _sessions.get(dask_worker, {}).get(session)


async def close_ended(dask_worker: Any) -> None:
    """Close the sessions that the scheduler has not known for some answers in a row; without
    sessions ask no more.
    """
    sessions = _sessions.get(dask_worker, {})
    if not sessions:
        watch = dask_worker.periodic_callbacks.pop(WATCH, None)
        if watch is not None:
            watch.stop()
        return
    asked = dict(sessions)
    try:
        alive = set(await going_on(list(asked), dask_worker))
    except (OSError, RuntimeError) as error:
        logger.info("which fits go on is not known: %r", error)
        return
    for name, state in asked.items():
        state.misses = 0 if name in alive else state.misses + 1
        if state.misses >= MISSES and sessions.get(name) is state:
            logger.info("the client of session %s is gone: its rows are released", name)
            del sessions[name]
            async with state.lock:  # what is at work ends first
                state.close()


async def find_device() -> str:
    """Why this worker cannot compute on a GPU; empty where it can."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, gpu)
    except RuntimeError as error:
        return str(error)
    return ""


async def answer(
    session: str,
    shards: dict[str, int],
    problem: Problem,
    request: Request,
    stay: bool = False,
    dask_worker: Any = None,
) -> Any:
    """Answer a request from the shard that this worker was given; None if it does not know it.

    `stay` leaves sums on the device they were made on.
    """
    state = session_of(session, dask_worker)
    shard = state.shards.get(shards[dask_worker.address]) if state else None
    if state is None or shard is None:
        return None
    async with state.lock:  # a request asked twice must not meet itself
        try:
            work = partial(_answer_on_device, shard) if stay else shard.answer_host
            return await asyncio.get_running_loop().run_in_executor(None, work, problem, request)
        except Exception as error:
            return Failure(error)


def _answer_on_device(shard: Shard | StreamedShard, problem: Problem, request: Request) -> Totals:
    """The reply with sums where they were made, and there to be read by any thread.

    The thread that adds them up, and UCX, share no stream with this one where each thread has a
    default stream of its own (CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1).
    """
    totals = shard.answer(problem, request)
    if any(map(on_device, totals.values())):
        gpu().wait()
    return totals


async def keep_only(session: str, shard: int, dask_worker: Any = None) -> None:
    """Forget all shards of a fit that were opened before this one, and what was remembered for
    their blocks alone.
    """
    state = session_of(session, dask_worker)
    if state is None:
        return
    async with state.lock:
        for number in [number for number in state.shards if number < shard]:
            state.shards.pop(number).retire()
        names = {name for opened in state.shards.values() for name in opened.memo_names}
        for remembered in (state.memos, state.placed):
            for name in [name for name in remembered if name not in names]:
                del remembered[name]


async def close(session: str, dask_worker: Any = None) -> None:
    """Forget a fit."""
    state = _sessions.get(dask_worker, {}).pop(session, None)
    if state is not None:
        state.close()


async def relay(
    session: str,
    shards: dict[str, int],
    tree: dict[str, list[str]],
    problem: Problem,
    request: Request,
    dask_worker: Any = None,
) -> Any:
    """Answer together with the workers under this one in the tree; return the sum and whose it is,
    or a Failure.

    Sums of workers with GPUs are added up on this worker's, if the connections between workers
    carry device memory.
    """
    under = tree[dask_worker.address]
    stay = bool(under) and carries_device_memory(dask_worker.address)
    question = pickle.dumps((session, shards, problem, request, stay)) if under else b""
    replies = await asyncio.gather(
        answer(session, shards, problem, request, stay, dask_worker=dask_worker),
        *(_forward(dask_worker, address, question) for address in under),
        return_exceptions=True,
    )
    for reply in replies:
        if isinstance(reply, Failure):
            return reply
    parts: dict[str, Totals] = {
        address: reply
        for address, reply in zip([dask_worker.address, *under], replies, strict=True)
        if isinstance(reply, dict)
    }
    total = add(list(parts.values())) if parts else {}
    return {key: to_host(value) for key, value in total.items()}, list(parts)


def carries_device_memory(address: str) -> bool:
    """Whether connections of this kind move device memory without the host: UCX does, over NVLink
    or InfiniBand.
    """
    return address.startswith("ucx")


async def _forward(dask_worker: Any, address: str, question: bytes) -> Any:
    """Ask another worker, over the connection that Dask's workers have among themselves."""
    families = {"serializers": DEVICE_FAMILIES, "deserializers": DEVICE_FAMILIES}
    reply = await dask_worker.rpc(address).run(
        function=pickle.dumps(answer),
        args=question,
        kwargs=None,
        wait=True,
        **(families if carries_device_memory(address) else {}),
    )
    return reply["result"] if reply["status"] == "OK" else None
