"""Send rows from the client's memory to the workers. Runs on the client."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from distributed import Client

from daskglm.data.partitions import Partitions
from daskglm.engines.placement import REPAIR_SECONDS
from daskglm.engines.waiting import Wait, worker_states

# Seconds between two looks while all workers are paused: Dask sends nothing to paused ones.
PAUSED_SECONDS = 0.5
# How often a run of rows is sent at most, where workers go away meanwhile. Dask waits for up to
# 30 s for one that is there and does not answer.
TRIES = 3


async def send(client: Client, data: Partitions, sent: dict[int, Any]) -> None:
    """Send each worker that is not paused one run of neighbouring rows.

    Where a worker goes away meanwhile its run is sent to another one.

    Parameters
    ----------
    client : distributed.Client
    data : Partitions
        Rows in memory.
    sent : dict
        Filled with futures by number of the run, also if some runs cannot be sent.

    Raises
    ------
    RuntimeError
        If there are no workers for `REPAIR_SECONDS`: they may be about to come back.
    MemoryError
        If Dask has paused all of them for good.
    """

    async def send_one(number: int, part: Any, address: str) -> None:
        for left in reversed(range(TRIES)):
            try:
                (sent[number],) = await client.scatter([part], workers=[address], hash=False)
                return
            except (KeyError, OSError):
                # the scheduler does not know it any more, or cannot reach it
                if not left:
                    raise
                await asyncio.sleep(PAUSED_SECONDS)
                there = await _receivers(client)
                address = address if address in there else there[number % len(there)]

    receivers = await _receivers(client)
    parts = data.split(len(receivers))
    await asyncio.gather(
        *(send_one(k, part, at) for k, (part, at) in enumerate(zip(parts, receivers, strict=True)))
    )


async def _receivers(client: Client) -> list[str]:
    """Return the workers that are not paused; waits where all are, or none is there.

    Raises as `send` does.
    """
    wait, last = Wait(client, "workers to send the rows to"), time.monotonic()
    while not (
        receivers := sorted(
            state.address for state in await worker_states(client) if not state.paused
        )
    ):
        if await wait.look(0):
            last = time.monotonic()
        elif time.monotonic() > last + REPAIR_SECONDS:
            raise RuntimeError(
                f"the cluster has had no workers to send the rows to for {REPAIR_SECONDS:.0f} s"
            )
        await asyncio.sleep(PAUSED_SECONDS)
    return receivers
