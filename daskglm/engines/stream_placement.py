"""Where rows are that workers read at every pass: the client deals partitions; no task and no
future exists.

A worker that is lost takes its part of the deal with it; the others take that over, and read it
from now on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import dask
from distributed import Client

from daskglm.engines.placement import DataLost, deal
from daskglm.engines.waiting import Wait, running_threads
from daskglm.engines.worker_session import open_stream


class Dealt:
    """Partitions that the workers of a Dask cluster read at every pass.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition; its source has to be one that every worker can read.
    """

    opening = staticmethod(open_stream)
    resident = False

    def __init__(self, client: Client, lazy: Sequence[Any]) -> None:
        self.client = client
        self.recipes = {f"partition-{i}": recipe for i, recipe in enumerate(lazy)}
        self.home: dict[str, str] = {}

    @property
    def keys(self) -> list[str]:
        """Of the partitions, in order."""
        return list(self.recipes)

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """How to read partitions: each comes with the graph of its collection, of which it needs
        its own part.
        """
        return (cloudpickle.dumps(dask.optimize(*(self.recipes[key] for key in held))),)

    def close(self) -> None:
        """Forget the recipes."""
        self.recipes = {}

    async def load(self) -> None:
        """Nothing is loaded before it is worked on."""

    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """The worker that has a key in the deal, if it lives."""
        alive = await self.client.nthreads()
        return {key: [self.home[key]] if self.home.get(key) in alive else [] for key in keys}

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Deal the partitions that no living worker has, in runs by numbers of threads."""
        wait = Wait(self.client, "workers to read the data")
        while not (alive := await self.client.nthreads()):
            if time.monotonic() > deadline:
                raise DataLost("the cluster has no workers left to read the data")
            await wait.look(0)
            await asyncio.sleep(0.2)
        homeless = [key for key in self.keys if self.home.get(key) not in alive]
        for address, part in (
            deal(homeless, await running_threads(self.client)).items() if homeless else ()
        ):
            self.home.update({key: address for key in part})
        by_address: dict[str, list[str]] = {}
        for key in keys:
            by_address.setdefault(self.home[key], []).append(key)
        return dict(sorted(by_address.items()))

    async def move(self, keys: Mapping[str, str]) -> None:
        """Deal partitions to other workers, who will read them."""
        self.home.update(keys)
