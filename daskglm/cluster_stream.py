"""The engine for rows that workers read at every pass: the client deals partitions, no task and no future exists.

A worker that is lost takes its part of the deal with it; the others take that over, and read it from now on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import cloudpickle
import dask
from distributed import Client

from daskglm.cluster import Cluster, DataLost
from daskglm.placing import WHERE_THEY_ARE, Where
from daskglm.sessions import open_stream


class StreamingCluster(Cluster):
    """Partitions that the workers of a Dask cluster read at every pass.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition; its source has to be one that every worker can read.
    where : Where

    Raises
    ------
    Exception
        Whatever the first faulty partition raised when it was first read.
    """

    def __init__(self, client: Client, lazy: Sequence[Any], where: Where = WHERE_THEY_ARE) -> None:
        self._recipes = {f"partition-{i}": recipe for i, recipe in enumerate(lazy)}
        self._deal: dict[str, str] = {}
        super().__init__(client, [], pin=True, where=where)

    def _submit(self, lazy: Sequence[Any], pin: bool) -> list[Any]:
        return []

    async def _loaded(self, *, estimate: bool) -> None:
        return None

    def _keys_in_order(self) -> list[str]:
        return list(self._recipes)

    def _open(self, number: int, address: str, held: list[str]) -> Coroutine[Any, Any, dict[str, Any]]:
        # each recipe comes with the graph of its whole collection, of which a worker needs its own part
        recipes = cloudpickle.dumps(dask.optimize(*(self._recipes[key] for key in held)))
        return self._ask({address: held}, open_stream, number, held, recipes, self.where)

    async def _holders(self, keys: list[str]) -> dict[str, Sequence[str]]:
        alive = await self.client.nthreads()
        return {key: [self._deal[key]] if self._deal.get(key) in alive else [] for key in keys}

    async def _locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Deal the partitions that no living worker has, in runs by numbers of threads."""
        while not (alive := dict(sorted((await self.client.nthreads()).items()))):
            if time.monotonic() > deadline:
                raise DataLost("the cluster has no workers left to read the data")
            await asyncio.sleep(0.2)
        homeless = [key for key in self._recipes if self._deal.get(key) not in alive]
        done, threads = 0.0, sum(alive.values())
        for address, count in alive.items():
            low, high = round(done * len(homeless)), round((done + count / threads) * len(homeless))
            self._deal.update({key: address for key in homeless[low:high]})
            done += count / threads
        by_address: dict[str, list[str]] = {}
        for key in keys:
            by_address.setdefault(self._deal[key], []).append(key)
        return dict(sorted(by_address.items()))
