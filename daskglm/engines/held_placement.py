"""Rows that workers hold already, as futures of a persisted collection: no task makes their blocks.

A task for each partition, and another for what is beside it, took some 10 ms each on a busy worker,
and 70 of the 85 ms in which 56 MB of rows on two workers were loaded. Each worker converts and
checks its rows when it opens its shard instead. What is persisted keeps its lineage. Runs on the
client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from dask.core import flatten
from distributed import Client, Future

from daskglm.data.partitions import Partitions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.worker_session import Held, open_held


def held_parts(client: Client, data: Partitions) -> dict[str, list[Future]] | None:
    """Return the futures of all partitions of X and of what is beside it, by name.

    None where some are not in the memory of this client's workers, or are made of what is.
    """
    found = {name: _futures(values) for name, values in data.sources.items()}
    all_there = all(
        isinstance(future, Future) and future.client is client and future.status == "finished"
        for futures in found.values()
        for future in futures
    )
    return found if found and all_there else None


def _futures(values: Any) -> list[Any]:
    """Return what the partitions of a collection are in its graph, in order."""
    graph = dict(values.__dask_graph__())
    found = []
    for key in flatten(values.__dask_keys__()):
        value = graph[key]
        while hasattr(value, "target"):  # an alias
            value = graph.get(value.target)
        found.append(value)
    return found


class HeldPlacement:
    """Partitions whose rows are in the workers' memory.

    Parameters
    ----------
    client : distributed.Client
    kept : dict of str to list of Future
        Of "X" and of what is beside it, one for each partition. They are the user's, who releases
        them.
    makers : sequence of dict
        Settings of `block_of_parts` for each partition.
    nbytes : int, optional
        Bytes of the rows.
    """

    open_function = staticmethod(open_held)
    resident = True

    def __init__(
        self,
        client: Client,
        kept: Mapping[str, Sequence[Future]],
        makers: Sequence[Mapping[str, Any]],
        nbytes: int | None = None,
    ) -> None:
        self.kept = kept
        self.makers = makers
        persisted = [future.key for futures in kept.values() for future in futures]
        self.parts = {
            name: BlockPlacement(client, [], pin=False, nbytes=nbytes, persisted=persisted)
            for name in kept
        }
        for name, futures in kept.items():
            self.parts[name].futures = list(futures)
        # where each part was when it was last looked for
        self.addresses: dict[str, str] = {}

    @property
    def rows(self) -> BlockPlacement:
        """Where X is."""
        return self.parts["X"]

    @property
    def keys(self) -> list[str]:
        """Keys of the partitions of X, in their order."""
        return self.rows.keys

    async def load(self) -> None:
        """Load nothing, as the rows are there; raise MemoryError where blocks have no room."""
        if self.rows.nbytes is None:
            scheduler: Any = self.rows.client.scheduler
            sizes = await scheduler.nbytes(keys=self.keys, summary=False)
            self.rows.nbytes = sum(sizes.values())
        await self.rows.check_memory()

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Return the keys that each worker holds, once all parts of these partitions are held."""
        wanted = set(keys)
        at = [i for i, key in enumerate(self.keys) if key in wanted]
        searches = [
            part.locate([part.keys[i] for i in at], deadline) for part in self.parts.values()
        ]
        for found in await asyncio.gather(*searches):
            for address, held in found.items():
                self.addresses.update(dict.fromkeys(held, address))
        by_address: dict[str, list[str]] = {}
        for key in keys:
            by_address.setdefault(self.addresses[key], []).append(key)
        return dict(sorted(by_address.items()))

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """Return what the blocks of these keys are made of."""
        number = {key: i for i, key in enumerate(self.keys)}
        names = {name: part.keys for name, part in self.parts.items()}
        return (
            [
                Held(
                    {
                        name: (keys[number[key]], self.addresses[keys[number[key]]])
                        for name, keys in names.items()
                    },
                    self.makers[number[key]],
                )
                for key in held
            ],
        )

    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Return the addresses of the workers that hold each partition of X."""
        return await self.rows.holders(keys)

    async def move(self, keys: Mapping[str, str]) -> None:
        """Copy partitions of X to other workers; what is beside them follows as it is needed."""
        await self.rows.move(keys)

    def close(self) -> None:
        """Release what was copied; the rest is the user's."""
        for name, part in self.parts.items():
            theirs = set(map(id, self.kept.get(name, ())))
            part.futures = [future for future in part.futures if id(future) not in theirs]
            part.close()
        self.kept = {}
