"""Partitions of tables in the workers' memory, until blocks have been made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Client, Future

from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.scheduler_calls import on_scheduler
from daskglm.engines.versions import check_cluster


def look(
    client: Client, parts: Sequence[Any], wanted: Sequence[Any]
) -> tuple[list[Any], tuple[Future, ...]]:
    """Return results of delayed objects, and futures of the parts that they are made of.

    As long as there are futures of the parts, what is computed of the same delayed parts finds them
    in the workers' memory. What is lost with a worker is made again from its source.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of Delayed
        To be kept; empty: none.
    wanted : sequence of Delayed
        Small results.

    Raises
    ------
    MemoryError
        If the parts need more memory than all workers have left.
    ClusterLost, DataLost
        As rows that are loaded do.
    Exception
        The error of a part.
    """
    on_scheduler(client, check_cluster(client))
    held = BlockPlacement(client, parts, pin=False)
    found = None
    try:
        if parts:
            on_scheduler(client, held.load())
        found = BlockPlacement(client, wanted, pin=False, persisted=held.keys)
        on_scheduler(client, found.load())
        return client.gather(found.futures, asynchronous=False), tuple(held.futures)
    except BaseException:
        held.close()
        raise
    finally:
        if found is not None:
            found.close()


def again(held: Sequence[Future]) -> tuple[Future, ...]:
    """Return futures of the same parts, which are released by themselves."""
    return tuple(Future(future.key, future.client) for future in held)
