"""Partitions as blocks in the workers' memory: ordinary futures of Dask, with their lineage.

Runs on the client, but for the functions that say otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client

from daskglm.data.loading import check_room, sample_of
from daskglm.engines.one_graph import one_graph
from daskglm.engines.placement import REPAIR_SECONDS, DataLost, assign
from daskglm.engines.waiting import Wait, WorkerState, worker_states
from daskglm.engines.worker_session import open_shard

# Seconds to wait for lost blocks before looking whether their tasks are stuck.
STUCK_SECONDS = 2.0

# Seconds for the release of futures to reach the scheduler before a new graph does.
RELEASE_SECONDS = 0.2


# ---- on the scheduler
def _states(keys: list[str], dask_scheduler: Any = None) -> dict[str, str]:
    """On the scheduler: return the error of each task that will not be done; "" if forgotten."""
    tasks, found = dask_scheduler.tasks, {}
    for key in keys:
        if key not in tasks or tasks[key].state == "forgotten":
            found[key] = ""
        elif tasks[key].state == "erred":
            # Dask sets no text where workers died of the task itself, most often for its memory
            died = "the workers that computed it died, perhaps for want of memory"
            found[key] = tasks[key].exception_text or died
    return found


def _stuck(dask_scheduler: Any = None) -> bool:
    """On the scheduler: return True if tasks wait for a worker although there are workers."""
    return bool(dask_scheduler.workers and dask_scheduler.unrunnable)


# ---- on a worker
def _identity(block: Any) -> Any:
    return block


# ---- on the client
class BlockPlacement:
    """Partitions kept as blocks in the workers' memory.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition.
    pin : bool
        True: give each worker a run of neighbouring partitions. False: leave the placement to Dask,
        as for persisted collections.
    nbytes : int, optional
        Bytes of the rows; default: estimated when some partitions are loaded.
    persisted : sequence of str
        Keys of data that are in the workers' memory already and from which the partitions are
        made: they need no further memory.
    held : sequence of Future
        As `persisted`, of parts that can be made again. They are released when the first block is
        there; from then on each part leaves the memory as soon as its block is made.
    sent : sequence of Future
        Rows that the client has sent and from which the partitions are made. They are released as
        soon as the partitions are submitted, else the rows would be in memory twice; afterwards
        they cannot be made again.
    """

    open_function = staticmethod(open_shard)
    resident = True

    def __init__(
        self,
        client: Client,
        lazy: Sequence[Any],
        *,
        pin: bool,
        nbytes: int | None = None,
        persisted: Sequence[str] = (),
        held: Sequence[Any] = (),
        sent: Sequence[Any] = (),
    ) -> None:
        self.client = client
        self.lazy = list(lazy)
        self.pin = pin
        self.nbytes = nbytes
        self.persisted = [*persisted, *(future.key for future in held)]
        self.held = list(held)
        self.sent = list(sent)
        self.futures: list[Any] = []
        # bytes of each worker's process, besides the rows, when loading began
        self.before: dict[str, int] = {}
        self.moves = 0

    @property
    def keys(self) -> list[str]:
        """Keys of the blocks, in the order of the partitions."""
        return [future.key for future in self.futures]

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """Return no further arguments: the blocks are on the worker."""
        return ()

    def close(self) -> None:
        """Release the blocks."""
        # not left to the garbage collector: the traceback of an error may refer to this object
        for future in [*self.futures, *self.held, *self.sent]:
            future.release()
        self.futures = []
        self.lazy = []
        self.held = []
        self.sent = []

    # ---- loading
    async def load(self) -> None:
        """Compute the blocks, which stay on the workers that made them.

        Raises
        ------
        MemoryError
            If the rows need more memory than all workers have left, or Dask pauses workers for
            good.
        DataLost
            If there are no workers for `REPAIR_SECONDS`.
        Exception
            The error of the first partition that failed.
        """
        await self.check_memory()
        self.futures = await self._submit()
        if self.sent:
            self.lazy = []
        for future in self.sent:
            future.release()
        await self._wait_for_load()

    async def check_memory(self) -> None:
        """Note what workers use before rows are loaded; raise MemoryError if these do not fit."""
        workers = await self._workers()
        self.before = {each.address: each.foreign_bytes(settled=False) for each in workers}
        if self.nbytes is not None:
            self._check_room(self.nbytes, workers)

    async def _wait_for_load(self) -> None:
        """Wait until all blocks are loaded, as long as there are workers that make progress."""
        loading = asyncio.ensure_future(self._loaded())
        last = time.monotonic()
        wait = Wait(self.client, f"{len(self.futures)} blocks to be loaded")
        try:
            while not (await asyncio.wait({loading}, timeout=STUCK_SECONDS))[0]:
                if await wait.look(sum(future.status == "finished" for future in self.futures)):
                    last = time.monotonic()
                elif time.monotonic() > last + REPAIR_SECONDS:
                    raise DataLost(
                        f"there have been no workers for {REPAIR_SECONDS:.0f} s to load the data on"
                    )
                if self.lazy and await self.client.run_on_scheduler(_stuck):
                    loading.cancel()
                    await self._submit_again(
                        {future.key for future in self.futures if future.status != "finished"}
                    )
                    loading = asyncio.ensure_future(self._loaded())
            await loading
        finally:
            loading.cancel()

    async def _submit(self) -> list[Any]:
        threads = dict(sorted((await self.client.nthreads()).items()))
        assigned = assign(self.lazy, threads) if self.pin and threads else {}

        def submit() -> list[Any]:
            if not assigned:
                return list(self.client.compute(self.lazy))
            if (graph := one_graph(assigned)) is not None:
                keys = [each.key for each in self.lazy]
                return list(self.client.get(graph, keys, sync=False))
            futures: list[Any] = []
            for address, part in assigned.items():
                if part:
                    futures += self.client.compute(
                        part, workers=[address], allow_other_workers=True
                    )
            return futures

        # a large graph takes seconds to submit, during which the event loop must go on
        return await asyncio.to_thread(submit)

    async def _loaded(self) -> None:
        """Wait for all blocks; estimate the bytes of all rows when some blocks are there."""
        total = len(self.futures)
        sample = sample_of(total)
        errors = asyncio.as_completed([future.exception() for future in self.futures])
        for count, done in enumerate(errors, 1):
            error = await done
            if error is not None:
                raise error
            # not before: the scheduler may hear of a release before it knows the blocks
            for future in self.held:
                future.release()
            self.held = []
            if self.nbytes is None and count == sample < total:
                loaded = [future.key for future in self.futures if future.status == "finished"]
                sizes = await self.client.scheduler.nbytes(keys=loaded, summary=False)
                needed = sum(sizes.values()) / len(loaded) * total
                self._check_room(needed, await self._workers(), read=(len(loaded), total))

    async def _workers(self) -> list[WorkerState]:
        """Return the states of all workers; their own bytes are those of this fit's rows."""
        own = [*self.persisted, *(future.key for future in [*self.sent, *self.futures])]
        return await worker_states(self.client, own)

    def _check_room(
        self, needed: float, workers: list[WorkerState], read: tuple[int, int] | None = None
    ) -> None:
        """Raise MemoryError if rows of `needed` bytes exceed what all workers may still use.

        `read` is the number of partitions loaded so far, and of all. While rows are being loaded,
        memory that tasks need for a moment does not count; what was in use before does.
        """
        # a worker without a limit may take any amount
        if not all(worker.limit for worker in workers):
            return
        taken = 0
        for worker in workers:
            before = self.before.get(worker.address, 0)
            now = worker.foreign_bytes(settled=False)
            taken += max(worker.foreign_bytes(settled=True), min(before, now))
        usable = sum(worker.usable for worker in workers)
        whose = f"before Dask pauses them the {len(workers)} workers may use together"
        check_room(needed, usable, whose, taken=taken, read=read)

    # ---- where blocks are
    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Return the addresses of the workers that hold each block."""
        return dict(await self.client.scheduler.who_has(keys=keys))

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Return the keys that each worker holds, in the order of the partitions.

        Waits for lost blocks to be computed again; raises DataLost if that cannot be.
        """
        wanted = set(keys)
        look_at = time.monotonic() + STUCK_SECONDS
        wait = Wait(self.client, f"{len(keys)} blocks to be found again")
        while True:
            await self._check_lost(wanted)
            holders = await self.holders(keys)
            by_address: dict[str, list[str]] = {}
            for key in keys:
                if holders.get(key):
                    by_address.setdefault(min(holders[key]), []).append(key)
            if sum(map(len, by_address.values())) == len(keys):
                return dict(sorted(by_address.items()))
            now = time.monotonic()
            if now > deadline:
                raise DataLost(
                    f"{len(keys)} blocks were asked for and not all came back in "
                    f"{REPAIR_SECONDS:.0f} s"
                )
            if now > look_at:
                look_at = now + STUCK_SECONDS
                await wait.look(sum(map(len, by_address.values())))
                if self.lazy and await self.client.run_on_scheduler(_stuck):
                    await self._submit_again({key for key in keys if not holders.get(key)})
            await asyncio.sleep(0.05)

    async def _check_lost(self, wanted: set[str]) -> None:
        """Raise DataLost if a block cannot be computed again."""
        doubtful = [
            f.key
            for f in self.futures
            if f.key in wanted and f.status in ("error", "cancelled", "lost")
        ]
        if not doubtful:
            return
        for key, error in (await self.client.run_on_scheduler(_states, doubtful)).items():
            whose = (
                f"partition {self.keys.index(key)} was lost with its worker "
                "and cannot be computed again"
            )
            if error:
                raise DataLost(f"{whose}: {error}")
            raise DataLost(f"{whose}: data scattered by a client have no recipe")

    async def _submit_again(self, lost: set[str]) -> None:
        """Submit the tasks of lost blocks again, without naming workers.

        If all workers are lost at once, distributed (2026.7) sets tasks with named workers aside,
        even if others are allowed, and does not look at them again when other workers join.
        """
        at = [i for i, future in enumerate(self.futures) if future.key in lost]
        for i in at:
            self.futures[i].release()
        # a callback of this loop sends the release, which must arrive before the new graph
        await asyncio.sleep(RELEASE_SECONDS)
        for i, future in zip(at, self.client.compute([self.lazy[i] for i in at]), strict=True):
            self.futures[i] = future

    async def move(self, keys: Mapping[str, str]) -> None:
        """Copy blocks to other workers, and release the old ones.

        Tasks that depend on the blocks copy them, so that the lineage remains.
        """
        self.moves += 1
        for i, future in enumerate(self.futures):
            if future.key in keys:
                name = f"{future.key}-moved-{self.moves}"
                address = keys[future.key]
                self.futures[i] = self.client.submit(
                    _identity,
                    future,
                    key=name,
                    workers=[address],
                    allow_other_workers=True,
                    pure=False,
                )
        await self._wait_for_load()
