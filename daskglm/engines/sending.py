"""Rows held by the client, sent to the workers: one run of neighbours to each that may take data.
On the client.
"""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Client

from daskglm.data.partitions import Partitions
from daskglm.engines.waiting import Wait, survey

# between two looks at workers that are all paused; Dask sends paused ones nothing
LOOK_SECONDS = 0.5


async def send(client: Client, data: Partitions, sent: dict[int, Any]) -> None:
    """Send the rows; `sent` gets futures by number of the run, also where some cannot be sent.

    Raises
    ------
    RuntimeError
        Where there are no workers.
    MemoryError
        Where Dask has paused all of them for good.
    """
    wait = Wait(client, "workers to send the rows to")
    while not (
        takers := sorted(worker.address for worker in await survey(client) if not worker.paused)
    ):
        if not await wait.look(0):
            raise RuntimeError("the cluster has no workers to send the rows to")
        await asyncio.sleep(LOOK_SECONDS)

    async def send_one(number: int, part: Any, address: str) -> None:
        (sent[number],) = await client.scatter([part], workers=[address], hash=False)

    parts = data.split(len(takers))
    await asyncio.gather(
        *(send_one(k, part, at) for k, (part, at) in enumerate(zip(parts, takers, strict=True)))
    )
