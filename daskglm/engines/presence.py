"""Which fits still go on: the scheduler keeps a list of them, by the clients that it is connected
to.

A client that is killed says nothing to the workers, and what a session holds is outside of Dask's
accounting. But the scheduler learns at once that a client's connection is closed (of a host that is
lost: within Dask's own timeout, 30 s), so workers ask it. Only the connection counts: a client may
compute between two rounds for as long as it likes.
"""

from __future__ import annotations

import pickle
import weakref
from typing import Any

_clients: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""On the scheduler: for each session of a fit what the scheduler knows its client by."""


# ---- on the scheduler
def begin(session: str, client: str, dask_scheduler: Any = None) -> None:
    """List a session of a client, and strike those whose clients are gone off the list."""
    listed = _clients.setdefault(dask_scheduler, {})
    for name in set(listed).difference(_going_on(list(listed), dask_scheduler)):
        del listed[name]
    listed[session] = dask_scheduler.clients.get(client)


def end(session: str, dask_scheduler: Any = None) -> None:
    """Strike a session off the list."""
    _clients.get(dask_scheduler, {}).pop(session, None)


def _going_on(sessions: list[str], dask_scheduler: Any = None) -> list[str]:
    """Those of the sessions whose clients have been connected all the time and have not ended
    them.
    """
    listed = _clients.get(dask_scheduler, {})
    # one that comes back gets a new state
    connected = {id(state) for state in dask_scheduler.clients.values()}
    return [name for name in sessions if id(listed.get(name)) in connected]


# ---- on a worker
async def going_on(sessions: list[str], dask_worker: Any) -> list[str]:
    """Ask the scheduler which of the sessions still go on.

    Raises
    ------
    OSError
        Where the scheduler cannot be reached.
    RuntimeError
        Where it cannot answer.
    """
    reply = await dask_worker.scheduler.run_function(
        function=pickle.dumps(_going_on), args=pickle.dumps((sessions,)), kwargs=None, wait=True
    )
    if reply["status"] != "OK":
        raise RuntimeError(
            f"the scheduler could not tell which fits go on: {reply.get('exception_text', reply)}"
        )
    return list(reply["result"])
