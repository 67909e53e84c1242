"""NCCL over the workers of a fit: the client forms a communicator and ends it.

As in RAFT's comms over Dask, one worker makes an id, the client sends it to all, and all join at
the same time. From then on the GPUs sum products among themselves, and Dask only asks them to solve
whole systems. See docs/multi-gpu.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from daskglm.core.requests import CollectiveLost
from daskglm.engines.ranks import introduce, join, leave, name_ranks
from daskglm.engines.worker_session import Failure

logger = logging.getLogger("daskglm")

# Seconds that workers may take to leave a communicator.
LEAVE_SECONDS = 5.0

Run = Callable[..., Awaitable[dict[str, Any]]]


async def need_ranks(run: Run, workers: list[str]) -> None:
    """Raise RuntimeError unless the GPUs of these workers can form a communicator."""
    if problem := unfit(await run(introduce, workers=workers)):
        raise RuntimeError(problem)


def unfit(found: dict[str, Any]) -> str:
    """Return why workers cannot form a communicator, from the reply of each; empty if they can."""
    for address, who in sorted(found.items()):
        if not isinstance(who, tuple):
            return f"worker {address} cannot add up with others: {who}"
    places: dict[tuple[str, str], str] = {}
    for address, (machine, place, _) in sorted(found.items()):
        if (other := places.setdefault((machine, place), address)) != address:
            return (
                f"workers {other} and {address} share the GPU {place} of {machine}, which NCCL "
                "cannot do: start one worker for each GPU, or set daskglm.collective to None"
            )
    if len({kind for _, _, kind in found.values()}) > 1:
        mixed = "; ".join(f"{address}: {kind}" for address, (_, _, kind) in sorted(found.items()))
        return (
            f"workers have different GPUs or libraries ({mixed}), whose rounding may differ, so "
            "that they would not decide alike: use equal ones, or set daskglm.collective to None"
        )
    return ""


class Collective:
    """The communicator of one fit.

    Parameters
    ----------
    session : str
    run, ask : functions
        Call a function on workers. `ask` passes the session, and returns early if a worker is lost.
    """

    def __init__(self, session: str, run: Run, ask: Run) -> None:
        self.session = session
        self.run = run
        self.ask = ask
        # shards that are ranks of the communicator
        self.shards: dict[str, int] = {}

    async def join(self, shards: dict[str, int], keys: dict[str, list[str]]) -> None:
        """Form a communicator of these shards, unless they have one. Cost: 3 rounds.

        Raises
        ------
        CollectiveLost
            If some worker cannot join.
        """
        if self.shards is shards:
            return
        order = sorted(shards)
        if problem := unfit(await self.ask(keys, introduce)):
            raise CollectiveLost(problem)
        name = (await self.ask({order[0]: keys[order[0]]}, name_ranks)).get(order[0])
        if not isinstance(name, bytes):
            raise CollectiveLost(f"worker {order[0]} could not begin: {name!r}")
        joined = await self.ask(keys, join, shards, order, name)
        for address in order:
            reply = joined.get(address, "no answer")
            if isinstance(reply, Failure):
                raise reply.error
            if reply is not True:
                raise CollectiveLost(f"worker {address} did not join: {reply!r}")
        self.shards = shards
        logger.info("%d GPUs add up products among themselves", len(order))

    async def leave(self, shards: dict[str, int], client: Any) -> None:
        """End the communicator, so that ranks do not wait for each other any more."""
        self.shards = {}
        # a worker that is stopped does not answer, and is passed over
        with contextlib.suppress(TimeoutError, OSError):
            alive = [address for address in await client.nthreads() if address in shards]
            await asyncio.wait_for(self.run(leave, self.session, workers=alive), LEAVE_SECONDS)
