"""Partitions that workers read at every pass: the client assigns them, without tasks or futures.

When a worker is lost, its partitions are assigned to the others, who read them from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import dask
from distributed import Client

from daskglm.engines.placement import DataLost, assign
from daskglm.engines.waiting import Wait, running_threads
from daskglm.engines.worker_session import open_stream


class StreamPlacement:
    """Partitions that the workers of a Dask cluster read at every pass.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition. Every worker must be able to read its source.
    """

    open_function = staticmethod(open_stream)
    resident = False

    def __init__(self, client: Client, lazy: Sequence[Any]) -> None:
        self.client = client
        self.recipes = {f"partition-{i}": recipe for i, recipe in enumerate(lazy)}
        self.readers: dict[str, str] = {}

    @property
    def keys(self) -> list[str]:
        """Keys of the partitions, in their order."""
        return list(self.recipes)

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """Return the pickled delayed blocks of these keys, with the part of the graph they need."""
        return (cloudpickle.dumps(dask.optimize(*(self.recipes[key] for key in held))),)

    def close(self) -> None:
        """Release the delayed blocks."""
        self.recipes = {}

    async def load(self) -> None:
        """Load nothing: partitions are read by the passes."""

    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Return the worker that reads each key, if it is alive."""
        alive = await self.client.nthreads()
        return {key: [self.readers[key]] if self.readers.get(key) in alive else [] for key in keys}

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Assign partitions without a living reader, and return the keys that each worker reads."""
        wait = Wait(self.client, "workers to read the data")
        while not (alive := await self.client.nthreads()):
            if time.monotonic() > deadline:
                raise DataLost("the cluster has no workers left to read the data")
            await wait.look(0)
            await asyncio.sleep(0.2)

        unassigned = [key for key in self.keys if self.readers.get(key) not in alive]
        if unassigned:
            threads = await running_threads(self.client)
            for address, part in assign(unassigned, threads).items():
                self.readers.update(dict.fromkeys(part, address))

        by_address: dict[str, list[str]] = {}
        for key in keys:
            by_address.setdefault(self.readers[key], []).append(key)
        return dict(sorted(by_address.items()))

    async def move(self, keys: Mapping[str, str]) -> None:
        """Assign partitions to other workers."""
        self.readers.update(keys)
