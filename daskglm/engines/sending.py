"""Send rows from the client's memory to the workers. Runs on the client."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Client

from daskglm.data.partitions import Partitions
from daskglm.engines.waiting import Wait, worker_states

# Seconds between two looks while all workers are paused: Dask sends nothing to paused ones.
PAUSED_SECONDS = 0.5


async def send(client: Client, data: Partitions, sent: dict[int, Any]) -> None:
    """Send each worker that is not paused one run of neighbouring rows.

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
        If there are no workers.
    MemoryError
        If Dask has paused all of them for good.
    """
    wait = Wait(client, "workers to send the rows to")
    while not (
        receivers := sorted(
            state.address for state in await worker_states(client) if not state.paused
        )
    ):
        if not await wait.look(0):
            raise RuntimeError("the cluster has no workers to send the rows to")
        await asyncio.sleep(PAUSED_SECONDS)

    async def send_one(number: int, part: Any, address: str) -> None:
        (sent[number],) = await client.scatter([part], workers=[address], hash=False)

    parts = data.split(len(receivers))
    await asyncio.gather(
        *(send_one(k, part, at) for k, (part, at) in enumerate(zip(parts, receivers, strict=True)))
    )
