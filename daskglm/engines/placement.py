"""Which worker has which partition: kept as blocks in the workers' memory, as ordinary futures with
lineage.

It knows partitions by key; `cluster` asks it where they are, again whenever workers were lost or
have come. `dealt` is the same for rows that are read at every pass. Runs on the client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from distributed import Client

from daskglm.data.loading import check_room, sample_of
from daskglm.engines.waiting import Wait, survey
from daskglm.engines.worker_session import open_shard

STUCK_SECONDS = 2.0  # how long to wait for lost blocks before looking whether their tasks are stuck
REPAIR_SECONDS = (
    300.0  # how long lost blocks, or workers, may take to come back before the fit gives up
)


class ClusterLost(RuntimeError):
    """The scheduler is gone, or another one has taken its place."""


class DataLost(RuntimeError):
    """Blocks of the data are gone and cannot be computed again."""


class Whereabouts(Protocol):
    """Where the partitions of a data set are.

    `opening` is the function that has a worker make a shard of its own; `resident` tells whether
    rows stay in memory.
    """

    opening: Any
    resident: bool

    @property
    def keys(self) -> list[str]:
        """Of the partitions, in order."""

    async def load(self) -> None:
        """Have the partitions loaded, if they are to be; raises what the first faulty one
        raised.
        """

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Keys by the address of a worker that has them, in order; waits for what was lost, until
        the deadline.
        """

    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Workers that have each key now."""

    async def move(self, keys: Mapping[str, str]) -> None:
        """Bring partitions to other workers, given by address."""

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """What `opening` wants besides keys."""

    def close(self) -> None:
        """Let go of the partitions."""


# ---- on the scheduler
def _states(keys: list[str], dask_scheduler: Any = None) -> dict[str, str]:
    """On the scheduler: why tasks will not be done: forgotten, or erred and how."""
    tasks, found = dask_scheduler.tasks, {}
    for key in keys:
        if key not in tasks or tasks[key].state == "forgotten":
            found[key] = ""
        elif tasks[key].state == "erred":
            found[key] = tasks[key].exception_text or "an error"
    return found


def _stuck(dask_scheduler: Any = None) -> bool:
    """On the scheduler: whether tasks wait for a worker although there are workers."""
    return bool(dask_scheduler.workers and dask_scheduler.unrunnable)


# ---- on a worker
def _same(block: Any) -> Any:
    return block


# ---- on the client
class Kept:
    """Blocks in the workers' memory.

    Parameters
    ----------
    client : distributed.Client
    lazy : sequence of Delayed
        One `to_block` per partition.
    pin : bool
        Deal the partitions to workers in runs (else Dask's own placement holds, as for persisted
        collections).
    nbytes : int, optional
        That the rows will take; default: estimated when some partitions have been loaded.
    persisted : sequence of str
        Keys of data in the workers' memory already that the partitions are made of: no more room is
        wanted for them.
    sent : sequence of Future
        Rows that the client has sent, of which the partitions are made: they cannot be made again.
        They are let go of as soon as the partitions have been submitted, else they would stay
        beside the blocks.
    """

    opening = staticmethod(open_shard)
    resident = True

    def __init__(
        self,
        client: Client,
        lazy: Sequence[Any],
        *,
        pin: bool,
        nbytes: int | None = None,
        persisted: Sequence[str] = (),
        sent: Sequence[Any] = (),
    ) -> None:
        self.client, self.lazy, self.pin, self.nbytes = client, list(lazy), pin, nbytes
        self.persisted, self.sent = list(persisted), list(sent)
        self.futures: list[Any] = []
        self.moves = 0

    @property
    def keys(self) -> list[str]:
        """Of the blocks, in the order of the partitions."""
        return [future.key for future in self.futures]

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """Nothing: the blocks are there."""
        return ()

    def close(self) -> None:
        """Release the blocks, by name, since the traceback of an error may hold this."""
        for future in [*self.futures, *self.sent]:
            future.release()
        self.futures, self.lazy, self.sent = [], [], []

    # ------------------------------------------------------------------ loading
    async def load(self) -> None:
        """Compute the blocks, which stay where they are made; raise what the first faulty one
        raised.

        Raises
        ------
        MemoryError
            Where the rows are larger than the memory that is left on all workers, or Dask pauses
            workers for good.
        DataLost
            Where there are no workers for too long.
        """
        if self.nbytes is not None:
            await self._check_room(self.nbytes)
        self.futures = await self._submit()
        if self.sent:
            self.lazy = []
        for future in self.sent:
            future.release()
        await self._wait_for_load()

    async def _wait_for_load(self) -> None:
        """Wait until all blocks are there, as long as workers are and go on."""
        loading, last = asyncio.ensure_future(self._loaded()), time.monotonic()
        wait = Wait(self.client, f"{len(self.futures)} blocks to be loaded")
        try:
            while not (await asyncio.wait({loading}, timeout=STUCK_SECONDS))[0]:
                if await wait.look(sum(future.status == "finished" for future in self.futures)):
                    last = time.monotonic()
                elif time.monotonic() > last + REPAIR_SECONDS:
                    raise DataLost(
                        f"there have been no workers for {REPAIR_SECONDS:.0f} s to load the data on"
                    )
            await loading
        finally:
            loading.cancel()

    async def _submit(self) -> list[Any]:
        threads = dict(sorted((await self.client.nthreads()).items()))
        dealt = deal(self.lazy, threads) if self.pin and threads else {}

        def submit() -> list[Any]:
            if not dealt:
                return list(self.client.compute(self.lazy))
            there = [(part, [address]) for address, part in dealt.items() if part]
            runs = [
                self.client.compute(part, workers=at, allow_other_workers=True)
                for part, at in there
            ]
            return [future for run in runs for future in run]

        return await asyncio.to_thread(
            submit
        )  # a large graph takes seconds, for which the loop must not stand still

    async def _loaded(self) -> None:
        some, all_ = sample_of(len(self.futures)), len(self.futures)
        for count, done in enumerate(
            asyncio.as_completed([future.exception() for future in self.futures]), 1
        ):
            error = await done
            if error is not None:
                raise error
            if self.nbytes is None and count == some < all_:
                there = [future.key for future in self.futures if future.status == "finished"]
                sizes = await self.client.scheduler.nbytes(keys=there, summary=False)
                needed = sum(sizes.values()) / len(there) * all_
                await self._check_room(needed, read=(len(there), all_))

    async def _check_room(self, needed: float, read: tuple[int, int] | None = None) -> None:
        """Raise MemoryError where rows of so many bytes are more than what the workers have left
        together.

        While rows are `read`, what tasks take for a moment does not count.
        """
        own = [*self.persisted, *(future.key for future in [*self.sent, *self.futures])]
        workers = await survey(self.client, own)
        if all(worker.limit for worker in workers):  # else no limit is known
            taken = sum(worker.beside(settled=read is not None) for worker in workers)
            whose = f"the {len(workers)} workers have together"
            check_room(
                needed, sum(worker.limit for worker in workers), whose, taken=taken, read=read
            )

    # ------------------------------------------------------------------ where blocks are
    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Workers that hold each block."""
        return dict(await self.client.scheduler.who_has(keys=keys))

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Which worker holds which of the keys, in the order of partitions; waits for lost blocks
        to be recomputed.
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
        """Raise DataLost where a block will not come back."""
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
        """Submit the tasks of lost blocks without pins.

        With all workers gone at once, distributed (2026.7) parks tasks whose workers are named,
        even loosely, and does not look at them again when other workers come.
        """
        at = [i for i, future in enumerate(self.futures) if future.key in lost]
        for i in at:
            self.futures[i].release()
        await asyncio.sleep(
            0.2
        )  # the release is sent by a callback of this loop; it must arrive before the new graph
        for i, future in zip(at, self.client.compute([self.lazy[i] for i in at]), strict=True):
            self.futures[i] = future

    async def move(self, keys: Mapping[str, str]) -> None:
        """Copy blocks to other workers by tasks that depend on them, so that lineage remains, and
        drop the old ones.
        """
        self.moves += 1
        for i, future in enumerate(self.futures):
            if future.key in keys:
                name, address = f"{future.key}-moved-{self.moves}", keys[future.key]
                self.futures[i] = self.client.submit(
                    _same, future, key=name, workers=[address], allow_other_workers=True, pure=False
                )
        await self._wait_for_load()


def deal(parts: Sequence[Any], threads: Mapping[str, int]) -> dict[str, list[Any]]:
    """Parts for each worker: runs of neighbours, by its number of threads."""
    done, total = 0, sum(threads.values())
    dealt: dict[str, list[Any]] = {}
    for address, count in threads.items():
        low, high = round(len(parts) * done / total), round(len(parts) * (done + count) / total)
        dealt[address] = list(parts[low:high])
        done += count
    return dealt


def moves(held: Mapping[str, Sequence[str]], threads: Mapping[str, int]) -> dict[str, str]:
    """Which keys to move to workers that hold none, so that all hold as many as befits their
    threads.
    """
    total, keys = sum(threads.values()), sum(map(len, held.values()))
    wanted = {address: keys * count // total for address, count in threads.items()}
    spare = [
        key for address, own in held.items() for key in reversed(own[wanted.get(address, 0) :])
    ]
    found: dict[str, str] = {}
    for address in threads:
        for _ in range(wanted[address] if not held.get(address) else 0):
            if spare:
                found[spare.pop(0)] = address
    return found
