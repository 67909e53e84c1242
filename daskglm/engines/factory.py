"""Choose the engine of a fit: this process, or the workers of the selected client."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from daskglm.core.arguments import shown
from daskglm.core.device import gpu
from daskglm.core.engine import Engine
from daskglm.data.alignment import shuffles
from daskglm.data.loading import STREAMED_SHARE, load_here
from daskglm.data.partitions import Partitions
from daskglm.engines.local import Local, available_threads
from daskglm.system.memory import memory_left
from daskglm.worker.device_placement import DeviceConfig

T = TypeVar("T")


def make_engine(
    data: Partitions,
    client: Any,
    where: DeviceConfig,
    *,
    read: bool = False,
    threads: int | None = None,
) -> Engine:
    """Return an engine that holds the data, or reads them at every pass.

    Parameters
    ----------
    data : Partitions
    client : distributed.Client or None
        None: this process.
    where : Where
        Device to compute on.
    read : bool
        Read the data at every pass instead of keeping them in memory.
    threads : int, optional
        Threads of this process; default: all.

    Raises
    ------
    ValueError
        If data that are in memory, or come from a shuffle, are to be read at every pass.
    MemoryError
        If the data do not fit in memory.
    """
    if read:
        return _reading(data, client, where, threads)
    if client is None:
        if where.device == "cuda":
            # an error without a device, before any loading
            gpu()
        return Local(load_here(data, threads or available_threads()), threads, where)
    from distributed import futures_of

    from daskglm.engines.block_placement import BlockPlacement
    from daskglm.engines.cluster import Cluster
    from daskglm.engines.held_placement import HeldPlacement, held_parts
    from daskglm.engines.scheduler_calls import on_scheduler
    from daskglm.engines.versions import check_cluster

    on_scheduler(client, check_cluster(client))
    if data.arrays is None:
        if (kept := held_parts(client, data)) is not None:
            held = HeldPlacement(client, kept, data.makers, data.nbytes)
            return Cluster(client, held, where)
        persisted = [future.key for future in futures_of(data.collections)]
        placement = BlockPlacement(
            client,
            data.lazy,
            pin=not (persisted or data.held),
            nbytes=data.nbytes,
            persisted=persisted,
            held=data.held,
        )
        return Cluster(client, placement, where)
    return Cluster.from_memory(client, data, where)


def _reading(data: Partitions, client: Any, where: DeviceConfig, threads: int | None) -> Engine:
    if data.arrays is not None:
        raise ValueError(
            "out_of_core=True reads dask collections or delayed blocks at every pass, but X is in "
            "memory: leave it out"
        )
    if data.lazy and shuffles(data.lazy[0].dask):
        raise ValueError(
            "out_of_core=True reads data at every pass, but X comes from a shuffle (shuffle, "
            "set_index, merge), which gives rows in another order every time: write the shuffled "
            "data to files first, or fit without out_of_core"
        )
    if "distributed" in sys.modules:
        from distributed import futures_of

        if futures_of((*data.collections, *data.lazy)):
            raise ValueError(
                "out_of_core=True reads data at every pass, but X is persisted: in memory already. "
                "Leave it out, or give X before persist()"
            )
    if client is None:
        return Local.reading(data.lazy, int(STREAMED_SHARE * memory_left()), where, threads)
    from daskglm.engines.cluster import Cluster
    from daskglm.engines.scheduler_calls import on_scheduler
    from daskglm.engines.stream_placement import StreamPlacement
    from daskglm.engines.versions import check_cluster

    on_scheduler(client, check_cluster(client))
    return Cluster(client, StreamPlacement(client, data.lazy), where)


@contextlib.contextmanager
def client_for(lazy: bool, client: Any) -> Iterator[Any]:
    """Yield the client to run on, or None for this process; `lazy` says whether data are.

    Within a task the thread leaves the worker's pool meanwhile, else there might be no thread to
    load blocks.
    """
    # without the module there cannot be a client
    if "distributed" not in sys.modules:
        yield None
        return
    import distributed

    if client is None and lazy:
        with contextlib.suppress(ValueError):
            client = distributed.get_client()
    if client is not None and _in_task():
        with distributed.worker_client() as inner:
            yield inner
    else:
        yield client


def awaitable_on(client: Any, lazy: bool, work: Callable[[], T]) -> T | Awaitable[T]:
    """Do the work now, or in a thread if the client that it will use is asynchronous.

    The event loop of an asynchronous client is the caller's: blocking it would stop the rounds that
    the work waits for.
    """
    check_client(client)
    if client is None and lazy and "distributed" in sys.modules:
        from distributed import get_client

        with contextlib.suppress(ValueError):
            client = get_client()
    return asyncio.to_thread(work) if client is not None and client.asynchronous else work()


def check_client(client: Any) -> None:
    """Raise TypeError if `client` is neither a client nor None, ValueError if it is closed."""
    if client is None:
        return
    # a client exists only where the module was imported
    distributed = sys.modules.get("distributed")
    if distributed is None or not isinstance(client, distributed.Client):
        if isinstance(client, str):
            hint = f"connect first: client=distributed.Client({shown(client)})"
        else:
            hint = ""
        raise TypeError(
            f"client={shown(client)} is not a distributed.Client; {hint or 'give one, or None'}"
        )
    if client.status in ("closing", "closed"):
        raise ValueError(f"client={shown(client)} is closed: connect again, or give None")


def _in_task() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True
