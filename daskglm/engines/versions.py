"""Whether the scheduler and the workers have the daskglm of the client, asked before anything of it
is sent to them.

A worker without it cannot read what it is sent: Dask cuts its link instead.
"""

from __future__ import annotations

import asyncio
import pkgutil
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client

# for `pkgutil.resolve_name`, which every Python can unpickle by its name
VERSION = "daskglm:__version__"
SHOWN = 8  # workers that a message names
# how long workers may take to import this package: 2 s, on a busy machine more than 10
IMPORT_SECONDS = 60.0

# by client: who has this version
_KNOWN: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


async def check_cluster(client: Client) -> None:
    """Ask the scheduler and all workers that were not asked before for their version of daskglm.

    Raises
    ------
    RuntimeError
        Where some cannot import daskglm, or another version of it, with their addresses.
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
    """Ask those of these workers that were not asked before; raises RuntimeError as `check_cluster`
    does.
    """
    known = _KNOWN.setdefault(client, set())
    new = [address for address in addresses if address not in known]
    if not new:
        return
    asking = client.run(pkgutil.resolve_name, VERSION, workers=new, on_error="return")
    try:
        replies = await asyncio.wait_for(asking, seconds)
    except TimeoutError:  # some worker is stopped: the fit will tell
        return
    replies = {
        address: reply for address, reply in replies.items() if not isinstance(reply, OSError)
    }
    check_replies({f"worker {address}": reply for address, reply in sorted(replies.items())})
    known.update(replies)


def check_replies(replies: Mapping[str, Any]) -> None:
    """Raise RuntimeError unless all replies, versions or errors by who gave them, are the version
    of this process.
    """
    here = pkgutil.resolve_name(VERSION)
    wrong = {who: reply for who, reply in replies.items() if reply != here}
    if not wrong:
        return
    told = [
        f"{who} cannot import daskglm ({reply!r})"
        if isinstance(reply, Exception)
        else f"{who} has daskglm {reply}"
        for who, reply in list(wrong.items())[:SHOWN]
    ]
    more = f", and {len(wrong) - SHOWN} others" if len(wrong) > SHOWN else ""
    raise RuntimeError(
        f"this process has daskglm {here}, but {', '.join(told)}{more}: install daskglm {here} in "
        "the Python "
        "environment that they are started from, and start them again"
    )
