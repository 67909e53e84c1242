"""Sessions on workers: the shards of one fit, and the functions that the client runs there.

A session is a cache, which may be lost at any time. Its blocks are Dask's own objects, and what it
computes from them is rebuilt from what requests carry. The functions are async and run on the
worker's event loop; the work itself runs in a thread. Only `cluster` calls them.

A worker with sessions asks the scheduler every few seconds which of them are still active, and
closes the others: those of clients that were killed or could not close them. If that was wrong (a
client lost its connection and is back), the next round finds no shard and opens another.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import pickle
import time
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import psutil
from numba.core.registry import cpu_target
from tornado.ioloop import PeriodicCallback

from daskglm.core.device import gpu, on_device, to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem, Request, Totals, add
from daskglm.core.view import View
from daskglm.data.block_makers import block_of_parts
from daskglm.data.blocks import Block
from daskglm.data.loading import STREAMED_SHARE
from daskglm.engines.presence import active_sessions
from daskglm.worker.block_cache import BlockCache
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from daskglm.worker.streaming import StreamedShard

# Seconds between two questions to the scheduler; each takes 0.4 ms of its time (measured).
ENDED_SECONDS = 10.0

# Answers in a row without a session after which it is closed.
MISSES = 2

# Name of our periodic callback among those of the worker.
WATCH = "daskglm-sessions"

# Dask's serializers for results that may be in device memory, which is sent as it is.
DEVICE_FAMILIES = ("cuda", "dask", "pickle", "error")

logger = logging.getLogger("daskglm")


async def report_memory(dask_worker: Any) -> None:
    """Tell the scheduler how much memory the worker uses with all code that a fit needs.

    That is this module with its imports, what numba loads before it compiles a kernel (45 MiB), and
    the modules of dask arrays, which come with the graph of the rows (30 to 90 MiB).
    """
    importlib.import_module("dask.array")
    cpu_target.target_context.refresh()
    dask_worker.monitor.update()
    await dask_worker.heartbeat()


@dataclass(frozen=True)
class Failure:
    """An error of daskglm on a worker, as opposed to a failure of the connection to it."""

    error: Exception


@dataclass
class Session:
    """What one fit keeps on one worker.

    Attributes
    ----------
    shards : dict of int to shard
        By number: a repair opens another shard.
    caches, placed, known, made : dict
        Cached results, blocks on the device, facts of partitions, and blocks of rows that Dask
        holds, by key.
    ranks : communicator, optional
        Of NCCL, over the GPUs of this fit's workers.
    misses : int
        Answers in a row in which the scheduler did not know the session.
    lock : asyncio.Lock
        Held while a request is answered.
    """

    shards: dict[int, Shard | StreamedShard] = field(default_factory=dict)
    caches: dict[str, BlockCache] = field(default_factory=dict)
    placed: dict[Any, Block] = field(default_factory=dict)
    known: dict[str, DataSummary] = field(default_factory=dict)
    made: dict[str, Block] = field(default_factory=dict)
    ranks: Any = None
    misses: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def close(self) -> None:
        """Release blocks, cached results and threads."""
        self.leave_communicator()
        for shard in self.shards.values():
            shard.close()
        self.shards.clear()
        self.caches.clear()
        self.placed.clear()
        self.made.clear()

    def leave_communicator(self) -> None:
        """Leave the communicator, if there is one, and drop the graphs captured with it."""
        for shard in self.shards.values():
            if isinstance(shard, Shard):
                shard.ball = shard.ranks = None
        if self.ranks is not None:
            self.ranks.close()
        self.ranks = None


_sessions: weakref.WeakKeyDictionary[Any, dict[str, Session]] = weakref.WeakKeyDictionary()


async def open_shard(
    session: str, shard: int, keys: list[str], where: DeviceConfig, dask_worker: Any = None
) -> Any:
    """Make a shard of blocks that this worker holds.

    Returns
    -------
    (facts, sizes, device, threads), or the list of the keys that are missing, or a Failure
        `sizes` has the rows and the features of each block, `threads` is how many answer.
    """
    missing = [key for key in keys if key not in dask_worker.data]
    if missing:
        return missing
    state = _session(session, dask_worker)
    async with state.lock:
        blocks = [dask_worker.data[key] for key in keys]
        return await _opened(state, shard, blocks, keys, where, dask_worker)


async def _opened(
    state: Session,
    shard: int,
    blocks: list[Block],
    keys: list[str],
    where: DeviceConfig,
    dask_worker: Any,
) -> Any:
    """Make a shard of blocks; see `open_shard`."""
    _warn_of_spilling(blocks, dask_worker)
    make = partial(
        Shard, blocks, dask_worker.state.nthreads, state.caches, keys, where, state.placed
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
        opened.threads,
    )


class Held(NamedTuple):
    """What a block is made of: key and address of each part, and settings of `block_of_parts`."""

    parts: dict[str, tuple[str, str]]
    settings: Mapping[str, Any]


async def open_held(
    session: str,
    shard: int,
    keys: list[str],
    recipes: list[Held],
    where: DeviceConfig,
    dask_worker: Any = None,
) -> Any:
    """Make a shard of rows that Dask holds here; convert and check them, where that is not done.

    What is beside them may be on other workers. Returns what `open_shard` returns.
    """
    state = _session(session, dask_worker)
    async with state.lock:
        new = {key: held for key, held in zip(keys, recipes, strict=True) if key not in state.made}
        there: dict[str, str] = {}
        for held in new.values():
            there.update(held.parts.values())
        rows = await _gathered(there, dask_worker)
        if missing := [key for key in there if key not in rows]:
            return missing

        def make(held: Held) -> Block:
            parts = {name: rows[key] for name, (key, _) in held.parts.items()}
            return block_of_parts(parts, **held.settings)

        def make_all() -> None:
            with ThreadPoolExecutor(dask_worker.state.nthreads) as pool:
                state.made.update(zip(new, pool.map(make, new.values()), strict=True))

        try:
            await asyncio.get_running_loop().run_in_executor(None, make_all)
        except Exception as error:
            return Failure(error)
        blocks = [state.made[key] for key in keys]
        return await _opened(state, shard, blocks, keys, where, dask_worker)


async def _gathered(there: Mapping[str, str], dask_worker: Any) -> dict[str, Any]:
    """Return data of this worker, or of workers at these addresses, by key; some may be gone."""
    found = {key: dask_worker.data[key] for key in there if key in dask_worker.data}
    apart: dict[str, list[str]] = {}
    for key, address in there.items():
        if key not in found and address != dask_worker.address:
            apart.setdefault(address, []).append(key)
    asked = (
        _run_there(dask_worker, address, take_held, pickle.dumps((keys,)))
        for address, keys in apart.items()
    )
    for reply in await asyncio.gather(*asked, return_exceptions=True):
        found.update(reply if isinstance(reply, dict) else {})
    return found


async def take_held(keys: list[str], dask_worker: Any = None) -> dict[str, Any]:
    """Return what this worker holds of these keys."""
    return {key: dask_worker.data[key] for key in keys if key in dask_worker.data}


def _warn_of_spilling(blocks: list[Block], dask_worker: Any) -> None:
    """Log a warning if dask-cuda may copy rows off the GPU, which frees nothing during a fit."""
    # without spilling the data of a worker are in a plain dict
    spills = hasattr(getattr(dask_worker.data, "device_buffer", None), "fast")
    if spills and any(on_device(block.X) for block in blocks):
        logger.warning(
            "worker %s: dask-cuda spills rows on its GPU when it takes memory to be short, which "
            "frees nothing while a fit uses them: start the cluster with device_memory_limit=0",
            dask_worker.address,
        )


async def open_stream(
    session: str,
    shard: int,
    keys: list[str],
    recipes: bytes,
    where: DeviceConfig,
    dask_worker: Any = None,
) -> Any:
    """Make a shard that reads partitions, given as pickled delayed blocks, at every pass.

    Each is read once now. Returns what `open_shard` returns.
    """
    state = _session(session, dask_worker)
    async with state.lock:
        limit = dask_worker.memory_manager.memory_limit or psutil.virtual_memory().total
        used = psutil.Process().memory_info().rss
        room = int(STREAMED_SHARE * max(limit - used, 0))

        def make() -> StreamedShard:
            threads = dask_worker.state.nthreads
            return StreamedShard(
                pickle.loads(recipes), keys, threads, room, where, state.known, state.caches
            )

        try:
            opened = await asyncio.get_running_loop().run_in_executor(None, make)
        except MemoryError as error:
            here = f"worker {dask_worker.address}, which uses {used:,} bytes of {limit:,}"
            return Failure(MemoryError(f"{here}: {error}"))
        except Exception as error:
            return Failure(error)
        state.shards[shard] = opened
    return opened.facts, opened.sizes, opened.device, opened.threads


def _session(session: str, dask_worker: Any) -> Session:
    """Return the session of a fit, made if needed.

    While there are sessions, the worker asks the scheduler for the active ones.
    """
    if WATCH not in dask_worker.periodic_callbacks:
        watch = PeriodicCallback(partial(close_ended, dask_worker), 1000 * ENDED_SECONDS)
        # the worker stops its periodic callbacks when it closes
        dask_worker.periodic_callbacks[WATCH] = watch
        watch.start()
    return _sessions.setdefault(dask_worker, {}).setdefault(session, Session())


def session_of(session: str, dask_worker: Any) -> Session | None:
    """Return the session of a fit on a worker; None if there is none."""
    return _sessions.get(dask_worker, {}).get(session)


async def close_ended(dask_worker: Any) -> None:
    """Close sessions that were not active in `MISSES` answers; stop asking without sessions."""
    sessions = _sessions.get(dask_worker, {})
    if not sessions:
        watch = dask_worker.periodic_callbacks.pop(WATCH, None)
        if watch is not None:
            watch.stop()
        return
    asked = dict(sessions)
    try:
        active = set(await active_sessions(list(asked), dask_worker))
    except (OSError, RuntimeError) as error:
        logger.info("the scheduler did not say which fits are active: %r", error)
        return
    for name, state in asked.items():
        state.misses = 0 if name in active else state.misses + 1
        if state.misses >= MISSES and sessions.get(name) is state:
            logger.info("the client of session %s is gone: its rows are released", name)
            del sessions[name]
            # a request that is being answered ends first
            async with state.lock:
                state.close()


async def find_device() -> str:
    """Return why this worker cannot compute on a GPU; empty if it can."""
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
    view: View,
    stay: bool = False,
    dask_worker: Any = None,
) -> Any:
    """Answer a request from this worker's shard; None if it has lost the shard.

    Parameters
    ----------
    shards : dict of str to int
        Number of the shard of each worker, by address.
    stay : bool
        Leave the sums on the device that computed them.
    """
    state = session_of(session, dask_worker)
    shard = state.shards.get(shards[dask_worker.address]) if state else None
    if state is None or shard is None:
        return None
    # a request may come twice, and must not run twice at the same time
    async with state.lock:
        try:
            work = partial(_answer_on_device, shard) if stay else shard.answer_host
            return await asyncio.get_running_loop().run_in_executor(
                None, work, problem, request, view
            )
        except Exception as error:
            return Failure(error)


def _answer_on_device(
    shard: Shard | StreamedShard, problem: Problem, request: Request, view: View
) -> Totals:
    """Return sums that stay on the device, after all work on them has ended.

    Another thread, or UCX, reads them; if each thread has a default stream of its own
    (CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1) it would not wait for this thread's stream.
    """
    totals = shard.answer(problem, request, view)
    if any(map(on_device, totals.values())):
        gpu().wait()
    return totals


async def keep_only(session: str, shard: int, dask_worker: Any = None) -> None:
    """Drop all shards of a fit that were opened before this one, with their cached results."""
    state = session_of(session, dask_worker)
    if state is None:
        return
    async with state.lock:
        for number in [number for number in state.shards if number < shard]:
            state.shards.pop(number).retire()
        names = {name for opened in state.shards.values() for name in opened.block_names}
        for cached in (state.caches, state.placed):
            for name in [name for name in cached if name not in names]:
                del cached[name]
        # names of joined blocks are tuples of names
        single = names | {each for name in names if isinstance(name, tuple) for each in name}
        for name in [name for name in state.made if name not in single]:
            del state.made[name]


async def close(session: str, dask_worker: Any = None) -> None:
    """Close the session of a fit."""
    state = _sessions.get(dask_worker, {}).pop(session, None)
    if state is not None:
        state.close()


async def relay(
    session: str,
    shards: dict[str, int],
    tree: dict[str, list[str]],
    problem: Problem,
    request: Request,
    view: View,
    dask_worker: Any = None,
) -> Any:
    """Answer together with the workers that this worker leads in `tree`, and add the answers.

    If the connections between workers carry device memory, sums are added on this worker's GPU.

    Returns
    -------
    (totals, seconds that each worker that answered took, by address), or a Failure
    """
    under = tree[dask_worker.address]
    stay = bool(under) and carries_device_memory(dask_worker.address)
    question = pickle.dumps((session, shards, problem, request, view, stay)) if under else b""
    began = time.perf_counter()
    seconds: dict[str, float] = {}

    async def timed(address: str, answering: Coroutine[Any, Any, Any]) -> Any:
        reply = await answering
        seconds[address] = time.perf_counter() - began
        return reply

    own = answer(session, shards, problem, request, view, stay, dask_worker=dask_worker)
    replies = await asyncio.gather(
        timed(dask_worker.address, own),
        *(timed(address, _forward(dask_worker, address, question)) for address in under),
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
    on_host = {key: to_host(value) for key, value in total.items()}
    return on_host, {address: seconds[address] for address in parts}


def carries_device_memory(address: str) -> bool:
    """Return True if connections like this one send device memory without a copy to the host.

    UCX does, over NVLink or InfiniBand.
    """
    return address.startswith("ucx")


async def _forward(dask_worker: Any, address: str, question: bytes) -> Any:
    """Ask another worker."""
    return await _run_there(dask_worker, address, answer, question)


async def _run_there(dask_worker: Any, address: str, function: Any, args: bytes) -> Any:
    """Run a function on another worker, over Dask's connection between workers."""
    families = {"serializers": DEVICE_FAMILIES, "deserializers": DEVICE_FAMILIES}
    reply = await dask_worker.rpc(address).run(
        function=pickle.dumps(function),
        args=args,
        kwargs=None,
        wait=True,
        **(families if carries_device_memory(address) else {}),
    )
    return reply["result"] if reply["status"] == "OK" else None
