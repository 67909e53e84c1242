"""Functions that run on a worker to form an NCCL communicator; only `collective` calls them."""

from __future__ import annotations

import asyncio
from typing import Any

from daskglm.core.device import gpu
from daskglm.core.requests import CollectiveLost
from daskglm.engines.worker_session import Failure, session_of
from daskglm.worker.shard import Shard


async def introduce(session: str = "") -> tuple[str, str, str] | str:
    """Return machine, place and kind of this worker's GPU, or why it cannot take part."""
    try:
        found: tuple[str, str, str] = await _in_thread(lambda: gpu().collective.identity())
    except RuntimeError as error:
        return str(error)
    return found


async def name_ranks(session: str) -> bytes | Failure:
    """Return the id of a new communicator, whose ranks will connect to this worker."""
    try:
        name: bytes = await _in_thread(lambda: gpu().collective.unique_id())
    except Exception as error:
        return Failure(error)
    return name


async def join(
    session: str, shards: dict[str, int], order: list[str], name: bytes, dask_worker: Any = None
) -> Any:
    """Join a communicator; the rank is this worker's index in `order`. Returns True or a Failure.

    A single worker needs no communicator, only rows in its GPU's memory.
    """
    state = session_of(session, dask_worker)
    address = dask_worker.address
    shard = state.shards.get(shards[address]) if state else None
    if state is None or shard is None:
        return Failure(CollectiveLost(f"worker {address} does not know its rows any more"))
    async with state.lock:
        state.leave_communicator()
        if not isinstance(shard, Shard) or not shard.solves_trust_regions:
            return Failure(
                CollectiveLost(f"rows of worker {address} are not wholly in its GPU's memory")
            )
        if len(order) == 1:
            return True
        try:
            state.ranks = gpu().collective.Communicator(len(order), order.index(address), name)
            await _in_thread(state.ranks.join)
        except Exception as error:
            return Failure(error)
        shard.ranks = state.ranks
    return True


async def leave(session: str, dask_worker: Any = None) -> None:
    """Abort the communicator. Without the lock: a request that waits for other GPUs holds it."""
    state = session_of(session, dask_worker)
    if state is not None and state.ranks is not None:
        state.ranks.leave()


async def _in_thread(work: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)
