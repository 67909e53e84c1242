"""Rows sent from the client's memory: which workers receive them, and what becomes of failures."""

import asyncio

import numpy as np
import pytest

from daskglm.data.partitions import partitions
from daskglm.engines import sending
from daskglm.engines.waiting import WorkerState
from tests.conftest import make_problem

X, y = make_problem(10, 3)


class FakeClient:
    """A client whose `scatter` records what each worker is sent."""

    def __init__(self, failing=(), error=OSError):
        self.received, self.failing, self.error = {}, failing, error

    async def scatter(self, parts, *, workers, hash):
        (address,) = workers
        if address in self.failing:
            raise self.error(f"{address} is gone")
        assert not hash
        (self.received[address],) = parts
        return [f"future of {address}"]


def worker(address, *, paused=False):
    return WorkerState(address, 0, 0, 0, 0, 0, 0, 0, paused)


def send(monkeypatch, looks, client=None):
    """Send X and y where the scheduler's states at each look are `looks`; the last one stays."""
    client, sent, left = client or FakeClient(), {}, list(looks)

    async def states(*_):
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(sending, "worker_states", states)
    monkeypatch.setattr("daskglm.engines.waiting.worker_states", states)
    monkeypatch.setattr(sending, "PAUSED_SECONDS", 0.0)
    try:
        asyncio.run(sending.send(client, partitions(X, y, classify=True), sent))
    finally:
        client.sent = sent
    return client


def test_each_worker_receives_one_run_of_neighbouring_rows(monkeypatch):
    client = send(monkeypatch, [[worker("b"), worker("a"), worker("c")]])
    assert client.sent == {0: "future of a", 1: "future of b", 2: "future of c"}
    parts = [client.received[address] for address in "abc"]
    assert [start for start, *_ in parts] == [0, 3, 6]
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), X)
    np.testing.assert_array_equal(np.concatenate([part[2] for part in parts]), y)


def test_paused_workers_receive_nothing(monkeypatch):
    client = send(monkeypatch, [[worker("a", paused=True), worker("b")]])
    assert list(client.received) == ["b"]
    assert len(client.received["b"][1]) == len(X)


def test_rows_wait_for_a_worker_that_is_not_paused(monkeypatch):
    paused = [worker("a", paused=True)]
    client = send(monkeypatch, [paused, paused, paused, [worker("a")]])
    assert client.sent == {0: "future of a"}


def test_workers_that_stay_paused_end_the_wait(monkeypatch):
    monkeypatch.setattr("daskglm.engines.waiting.STALLED_SECONDS", 0.0)
    with pytest.raises(MemoryError, match="waiting for workers to send the rows to: Dask has paus"):
        send(monkeypatch, [[worker("a", paused=True)]])


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr("daskglm.engines.sending.REPAIR_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="had no workers to send the rows to for 0 s"):
        send(monkeypatch, [[]])


def test_workers_that_are_gone_for_a_moment_are_waited_for(monkeypatch):
    """Found by the soak: rows in memory were refused while the only workers were started again."""
    client = send(monkeypatch, [[], [], [worker("a")]])
    assert client.sent == {0: "future of a"}


def test_runs_that_were_sent_are_returned_where_others_fail(monkeypatch):
    client = FakeClient(failing={"b"})
    with pytest.raises(OSError, match="b is gone"):
        send(monkeypatch, [[worker("a"), worker("b"), worker("c")]], client)
    assert {0, 2} == set(client.sent)


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_rows_of_a_worker_that_has_gone_meanwhile_are_sent_to_another(monkeypatch, error):
    """Dask says KeyError of a worker that the scheduler has forgotten."""
    client = FakeClient(failing={"b"}, error=error)
    send(monkeypatch, [[worker("a"), worker("b")], [worker("a"), worker("c")]], client)
    assert client.sent == {0: "future of a", 1: "future of c"}
    assert sum(len(client.received[address][1]) for address in "ac") == len(X)
