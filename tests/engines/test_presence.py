"""The scheduler knows which sessions have a client that is still connected."""

import asyncio
import pickle
from types import SimpleNamespace

import pytest

from daskglm.engines import presence


class Scheduler:
    """The part of a scheduler that is asked for: its clients by name."""

    def __init__(self, *names):
        self.clients = {name: SimpleNamespace() for name in names}


def test_sessions_end_with_their_clients_or_by_themselves():
    scheduler = Scheduler("client-1", "client-2")
    presence.register("a", "client-1", dask_scheduler=scheduler)
    presence.register("b", "client-2", dask_scheduler=scheduler)
    assert presence._active(["a", "b", "c"], dask_scheduler=scheduler) == ["a", "b"]
    del scheduler.clients["client-1"]
    assert presence._active(["a", "b"], dask_scheduler=scheduler) == ["b"]
    presence.unregister("b", dask_scheduler=scheduler)
    assert presence._active(["a", "b"], dask_scheduler=scheduler) == []


def test_a_client_that_comes_back_has_lost_its_sessions():
    scheduler = Scheduler("client")
    presence.register("a", "client", dask_scheduler=scheduler)
    scheduler.clients["client"] = SimpleNamespace()
    assert presence._active(["a"], dask_scheduler=scheduler) == []


def test_sessions_of_lost_clients_are_dropped_when_another_registers():
    scheduler = Scheduler("one", "two")
    presence.register("a", "one", dask_scheduler=scheduler)
    del scheduler.clients["one"]
    presence.register("b", "two", dask_scheduler=scheduler)
    assert set(presence._clients[scheduler]) == {"b"}


def worker_of(reply):
    async def run_function(function, args, kwargs, wait):
        pickle.loads(function)
        return reply(*pickle.loads(args))

    return SimpleNamespace(scheduler=SimpleNamespace(run_function=run_function))


def test_a_worker_asks_the_scheduler():
    worker = worker_of(lambda sessions: {"status": "OK", "result": sessions[:1]})
    assert asyncio.run(presence.active_sessions(["a", "b"], worker)) == ["a"]


def test_an_error_of_the_scheduler_is_raised():
    worker = worker_of(lambda sessions: {"status": "error", "exception_text": "out of memory"})
    with pytest.raises(RuntimeError, match="out of memory"):
        asyncio.run(presence.active_sessions(["a"], worker))
