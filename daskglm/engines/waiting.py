"""The state of the workers as the scheduler knows it, and waits that warn and give up.

Dask pauses a worker that uses more than 80 % of its memory limit: it starts no task until memory is
free again, which may be never. Runs on the client.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import dask
from distributed import Client

logger = logging.getLogger("daskglm")

# Seconds with paused workers and without progress after which a fit gives up. The scheduler learns
# of progress within 5 s.
STALLED_SECONDS = 60.0

# Seconds without progress before the first warning; then one whenever the wait has doubled.
WARN_SECONDS = 10.0

# Most workers that a message names.
SHOWN = 8


class WorkerState(NamedTuple):
    """What the scheduler knows of a worker.

    Attributes
    ----------
    address : str
    limit : int
        Bytes of its memory limit; 0: none.
    usable : int
        Bytes that it may use before Dask pauses it, by the scheduler's configuration; 0: no limit.
    process, settled : int
        Bytes of its process, and the same without what was allocated in the last 30 s.
    own, spilled : int
        Bytes of some keys on it, and bytes that it has spilled to disk.
    executing : int
        Number of tasks that it executes.
    paused : bool
        True if Dask has paused it.
    """

    address: str
    limit: int
    usable: int
    process: int
    settled: int
    own: int
    spilled: int
    executing: int
    paused: bool

    def foreign_bytes(self, *, settled: bool) -> int:
        """Return the bytes of the process besides the data of the fit.

        0 for a worker in this process: what the process holds may be the rows themselves.
        """
        if self.address.startswith("inproc"):
            return 0
        return max((self.settled if settled else self.process) - self.own, 0)

    def __str__(self) -> str:
        limit = f"{_mib(self.limit)}" if self.limit else "no limit"
        return f"{self.address} ({_mib(self.process)} of {limit})"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _states(keys: list[str], dask_scheduler: Any = None) -> list[tuple[Any, ...]]:
    """On the scheduler: return the fields of a `WorkerState` for each worker."""
    tasks = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    own: dict[Any, int] = {}
    for task in tasks:
        for state in task.who_has or ():
            own[state] = own.get(state, 0) + task.get_nbytes()
    # workers may be configured otherwise, but only they know that; False: they are never paused
    share = dask.config.get("distributed.worker.memory.pause", False) or 1.0
    found = []
    for state in dask_scheduler.workers.values():
        memory = state.memory
        counts = state.metrics.get("task_counts", {})
        executing = sum(count for name, count in counts.items() if "executing" in name)
        paused = state.status.name == "paused"
        # memory.optimistic leaves out what was allocated in the last 30 s
        bytes_ = (
            state.memory_limit or 0,
            int(share * (state.memory_limit or 0)),
            memory.process,
            memory.optimistic,
            own.get(state, 0),
            memory.spilled,
        )
        found.append((state.address, *bytes_, executing, paused))
    return found


async def running_threads(client: Client, keep: Collection[str] = ()) -> dict[str, int]:
    """Return the threads of each worker that is not paused, or is in `keep`.

    If all are paused, return the threads of all.
    """
    threads = dict(sorted((await client.nthreads()).items()))
    states = await worker_states(client)
    paused = {state.address for state in states if state.paused}.difference(keep)
    running = {address: count for address, count in threads.items() if address not in paused}
    return running or threads


async def worker_states(client: Client, keys: Sequence[str] = ()) -> list[WorkerState]:
    """Return the state of each worker; `own` are the bytes of `keys`."""
    return [WorkerState(*found) for found in await client.run_on_scheduler(_states, list(keys))]


class Wait:
    """A wait that warns while there is no progress, and gives up if workers stay paused.

    Parameters
    ----------
    client : distributed.Client
    what : str
        What is waited for, in messages.
    """

    def __init__(self, client: Client, what: str) -> None:
        self.client, self.what = client, what
        self.since = time.monotonic()
        self.seen = None
        self.warn_at = WARN_SECONDS

    async def look(self, done: int) -> int:
        """Look for progress, and return the number of workers.

        Parameters
        ----------
        done : int
            How many of the things that are waited for are there.

        Raises
        ------
        MemoryError
            If workers are paused, none executes a task, and nothing was done or spilled for
            `STALLED_SECONDS`.
        """
        workers = await worker_states(self.client)
        paused = [worker for worker in workers if worker.paused]
        seen: Any = (
            done,
            sum(worker.spilled for worker in workers),
            [worker.address for worker in paused],
        )
        busy = any(worker.executing for worker in workers)

        if seen != self.seen or busy or (workers and not paused):
            self.since = time.monotonic()
            self.seen = seen
            self.warn_at = WARN_SECONDS
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
                "more or larger workers, release what else they hold, or give float32 rows, or "
                "out_of_core=True to read the rows at every pass"
            )
        self._warn(waited, state)
        return len(workers)

    def _warn(self, waited: float, state: str) -> None:
        if waited >= self.warn_at:
            self.warn_at = 2 * waited
            logger.warning(
                "waiting for %s, without progress for %.0f s: %s", self.what, waited, state
            )
