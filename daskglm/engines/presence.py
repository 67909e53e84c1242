"""Which fits are still running: the scheduler lists the session of each, with its client.

A client that is killed says nothing to the workers, and Dask does not count what a session holds.
But the scheduler learns at once that a client's connection is closed (after Dask's timeout of 30 s
if its host is lost), so workers ask the scheduler. Only the connection counts: a client may compute
between two rounds for any time.
"""

from __future__ import annotations

import pickle
import weakref
from typing import Any

# On the scheduler: the scheduler's state of the client of each session.
_clients: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


# ---- on the scheduler
def register(session: str, client: str, dask_scheduler: Any = None) -> None:
    """List a session of a client, and drop sessions whose clients are gone."""
    listed = _clients.setdefault(dask_scheduler, {})
    for name in set(listed).difference(_active(list(listed), dask_scheduler)):
        del listed[name]
    listed[session] = dask_scheduler.clients.get(client)


def unregister(session: str, dask_scheduler: Any = None) -> None:
    """Drop a session."""
    _clients.get(dask_scheduler, {}).pop(session, None)


def running_sessions(dask_scheduler: Any = None) -> list[str]:
    """Return the sessions whose clients did not end them and are connected."""
    return _active(list(_clients.get(dask_scheduler, {})), dask_scheduler)


def _active(sessions: list[str], dask_scheduler: Any = None) -> list[str]:
    """Return the sessions whose clients did not end them and were connected all the time."""
    listed = _clients.get(dask_scheduler, {})
    # a client that comes back gets a new state
    connected = {id(state) for state in dask_scheduler.clients.values()}
    return [name for name in sessions if id(listed.get(name)) in connected]


# ---- on a worker
async def active_sessions(sessions: list[str], dask_worker: Any) -> list[str]:
    """Ask the scheduler which of these sessions are still active.

    Raises
    ------
    OSError
        If the scheduler cannot be reached.
    RuntimeError
        If the scheduler raised an error.
    """
    reply = await dask_worker.scheduler.run_function(
        function=pickle.dumps(_active), args=pickle.dumps((sessions,)), kwargs=None, wait=True
    )
    if reply["status"] != "OK":
        raise RuntimeError(
            f"the scheduler could not tell which fits go on: {reply.get('exception_text', reply)}"
        )
    return list(reply["result"])
