"""Run coroutines on the event loop of a client, and tell when its scheduler is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from distributed import Client

from daskglm.engines.placement import ClusterLost, DataLost

# Seconds that a scheduler may take to answer a probe.
PROBE_SECONDS = 10.0

_RESUME = " If the fit kept a checkpoint, daskglm.fit(..., resume=...) resumes it"

T = TypeVar("T")


def _identity(dask_scheduler: Any = None) -> str:
    """On the scheduler: return its id, which is another one after a restart."""
    return str(dask_scheduler.id)


def on_loop(client: Client, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop of a client (asynchronous ones too) from another thread.

    Raises
    ------
    ClusterLost
        If the client closes meanwhile, as it does when its scheduler stays away.
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
                        f"the client has lost its scheduler and is closed.{_RESUME}"
                    ) from None
    except BaseException:
        future.cancel()
        raise


def on_scheduler(client: Client, work: Coroutine[Any, Any, T], scheduler: str | None = None) -> T:
    """Run a coroutine, as `on_loop`, that asks the scheduler.

    Parameters
    ----------
    client : distributed.Client
    work : coroutine
    scheduler : str, optional
        The id of the scheduler that it ought to be; default: any.

    Raises
    ------
    ClusterLost
        If the coroutine fails and the scheduler is gone, or another one.
    """
    try:
        return on_loop(client, work)
    except (OSError, DataLost, CancelledError, asyncio.CancelledError) as error:
        if on_loop(client, _has_lost_scheduler(client, scheduler)):
            raise ClusterLost(
                "the scheduler that this fit ran on is gone, or was started anew "
                f"({error!r}).{_RESUME}"
            ) from error
        raise


async def name_of_scheduler(client: Client) -> str:
    """Return the id of a client's scheduler."""
    return str(await client.run_on_scheduler(_identity))


async def _has_lost_scheduler(client: Client, scheduler: str | None) -> bool:
    try:
        name = await asyncio.wait_for(name_of_scheduler(client), PROBE_SECONDS)
    except Exception:
        return True
    return scheduler is not None and name != scheduler
