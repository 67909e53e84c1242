"""What workers hold and whether they go on: a fit that waits for blocks says so, and does not wait
for ever.

Dask pauses a worker that uses more than 80 % of its memory limit: it begins no task until memory is
free again, which may be never. Asked of the scheduler, on the client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from distributed import Client

logger = logging.getLogger("daskglm")

# with paused workers and without progress, before a fit gives up; the scheduler hears of progress
# within 5 s
STALLED_SECONDS = 60.0
# of no progress before that is said for the first time, and each time the wait has doubled
WARN_SECONDS = 10.0
SHOWN = 8  # workers that a message names


class Worker(NamedTuple):
    """What the scheduler knows of a worker: bytes of its limit (0: none), process and data of one
    fit; its tasks.
    """

    address: str
    limit: int
    process: int
    lasting: int
    own: int
    spilled: int
    executing: int
    paused: bool

    def beside(self, *, settled: bool) -> int:
        """Bytes that the process has beside the data of the fit; settled: without what came in the
        last 30 s.

        Nothing for workers within this process: what it holds may be the very rows.
        """
        if self.address.startswith("inproc"):
            return 0
        return max((self.lasting if settled else self.process) - self.own, 0)

    def __str__(self) -> str:
        limit = f"{_mib(self.limit)}" if self.limit else "no limit"
        return f"{self.address} ({_mib(self.process)} of {limit})"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _workers(keys: list[str], dask_scheduler: Any = None) -> list[tuple[Any, ...]]:
    """On the scheduler: what is known of all workers; `lasting` is without what has come in the
    last 30 s.
    """
    tasks = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    own: dict[Any, int] = {}
    for task in tasks:
        for state in task.who_has or ():
            own[state] = own.get(state, 0) + task.get_nbytes()
    found = []
    for state in dask_scheduler.workers.values():
        memory, counts = state.memory, state.metrics.get("task_counts", {})
        executing = sum(count for name, count in counts.items() if "executing" in name)
        paused = state.status.name == "paused"
        bytes_ = (
            state.memory_limit or 0,
            memory.process,
            memory.optimistic,
            own.get(state, 0),
            memory.spilled,
        )
        found.append((state.address, *bytes_, executing, paused))
    return found


async def running_threads(client: Client, keep: Collection[str] = ()) -> dict[str, int]:
    """Threads of each worker that Dask has not paused, or that is to be kept; of all where that
    leaves none.
    """
    threads = dict(sorted((await client.nthreads()).items()))
    paused = {
        worker.address
        for worker in await survey(client)
        if worker.paused and worker.address not in keep
    }
    return {
        address: count for address, count in threads.items() if address not in paused
    } or threads


async def survey(client: Client, keys: Sequence[str] = ()) -> list[Worker]:
    """What the scheduler knows of all workers; `own` are the bytes of these keys."""
    return [Worker(*found) for found in await client.run_on_scheduler(_workers, list(keys))]


class Wait:
    """A wait for blocks: warns while nothing moves, and ends where workers are paused and nothing
    moves for too long.

    Parameters
    ----------
    client : distributed.Client
    what : str
        Is waited for, in messages.
    """

    def __init__(self, client: Client, what: str) -> None:
        self.client, self.what = client, what
        self.since, self.seen, self.warn_at = time.monotonic(), None, WARN_SECONDS

    async def look(self, done: int) -> int:
        """Look whether anything has moved, of what `done` things are there; returns the number of
        workers.

        Raises
        ------
        MemoryError
            Where workers are paused, none is at work, and nothing was done or spilled for
            STALLED_SECONDS.
        """
        workers = await survey(self.client)
        paused = [worker for worker in workers if worker.paused]
        seen: Any = (
            done,
            sum(worker.spilled for worker in workers),
            [worker.address for worker in paused],
        )
        busy = any(worker.executing for worker in workers)
        if seen != self.seen or busy or (workers and not paused):
            self.since, self.seen, self.warn_at = time.monotonic(), seen, WARN_SECONDS
            return len(workers)
        waited = time.monotonic() - self.since
        if not workers:
            self._warn(waited, "the cluster has no workers")
            return 0
        which = ", ".join(map(str, paused[:SHOWN])) + (" and others" if len(paused) > SHOWN else "")
        state = (
            f"Dask has paused {len(paused)} of {len(workers)} workers "
            f"because of their memory: {which}"
        )
        if waited > STALLED_SECONDS:
            raise MemoryError(
                f"no progress for {waited:.0f} s while waiting for {self.what}: {state}. Take "
                "more or larger workers, "
                "release what else they hold, or give float32 rows, or out_of_core=True to read "
                "the rows at every pass"
            )
        self._warn(waited, state)
        return len(workers)

    def _warn(self, waited: float, state: str) -> None:
        if waited >= self.warn_at:
            self.warn_at = 2 * waited
            logger.warning(
                "waiting for %s, without progress for %.0f s: %s", self.what, waited, state
            )
