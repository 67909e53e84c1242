"""Check that scheduler and workers have the client's version of daskglm, before sending anything.

A worker without daskglm cannot unpickle what it is sent, and Dask would close its connection. Those
that have it then import what a fit needs: only after that is the memory they have left known.
"""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client

from daskglm.engines.waiting import SHOWN
from daskglm.engines.worker_session import report_memory

# Argument of `pkgutil.resolve_name`, which every Python can unpickle, with or without daskglm.
VERSION = "daskglm:__version__"

# Seconds that workers may take to import what a fit needs: mostly 1, on a busy machine over 10.
IMPORT_SECONDS = 60.0

# For each client the addresses that are known to have its version.
_KNOWN: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


async def check_cluster(client: Client) -> None:
    """Check the scheduler and all workers that were not checked before.

    Raises
    ------
    RuntimeError
        If some cannot import daskglm or have another version, with their addresses.
    """
    known = _KNOWN.setdefault(client, set())
    if client.scheduler.address not in known:
        try:
            reply = await client.run_on_scheduler(pkgutil.resolve_name, VERSION)
        except (ImportError, AttributeError) as error:
            reply = error
        check_replies({f"the scheduler {client.scheduler.address}": reply})
        known.add(client.scheduler.address)
    await check_workers(client, list(await client.nthreads()))


async def check_workers(
    client: Client, addresses: Sequence[str], seconds: float = IMPORT_SECONDS
) -> None:
    """Check the workers at these addresses, as `check_cluster` does.

    Workers that do not answer within `seconds` are passed over.
    """
    known = _KNOWN.setdefault(client, set())
    new = [address for address in addresses if address not in known]
    if not new:
        return
    asking = client.run(pkgutil.resolve_name, VERSION, workers=new, on_error="return")
    try:
        replies = await asyncio.wait_for(asking, seconds)
    except TimeoutError:
        # some worker is stopped; the fit will report it
        return
    replies = {
        address: reply for address, reply in replies.items() if not isinstance(reply, OSError)
    }
    check_replies({f"worker {address}": reply for address, reply in sorted(replies.items())})
    preparing = client.run(report_memory, workers=list(replies), on_error="ignore")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(preparing, seconds)
    known.update(replies)


def check_replies(replies: Mapping[str, Any]) -> None:
    """Raise RuntimeError unless all replies are the version of this process.

    `replies` has a version or an exception for each process.
    """
    here = pkgutil.resolve_name(VERSION)
    wrong = {who: reply for who, reply in replies.items() if reply != here}
    if not wrong:
        return
    described = [
        f"{who} cannot import daskglm ({reply!r})"
        if isinstance(reply, Exception)
        else f"{who} has daskglm {reply}"
        for who, reply in list(wrong.items())[:SHOWN]
    ]
    more = f", and {len(wrong) - SHOWN} others" if len(wrong) > SHOWN else ""
    raise RuntimeError(
        f"this process has daskglm {here}, but {', '.join(described)}{more}: install daskglm "
        f"{here} in the Python environment that they are started from, and start them again"
    )
