"""Functions that form a communicator on a worker: their answers where it cannot take part."""

import asyncio
from types import SimpleNamespace

import pytest

from daskglm.core.requests import CollectiveLost
from daskglm.data.blocks import Place, to_block
from daskglm.engines import ranks, worker_session
from daskglm.worker.shard import Shard
from tests.conftest import make_problem

X, y = make_problem(20, 3)


class Worker:
    """A stand-in for a Dask worker; sessions keep it by a weak reference."""

    address = "tcp://a"


class Communicator:
    """Ranks that connect at once, or fail to."""

    made, fails = None, False

    def __init__(self, size, rank, name):
        type(self).made = size, rank, name
        self.left = False

    def join(self):
        if self.fails:
            raise OSError("no route")

    def leave(self):
        self.left = True

    def close(self):
        pass


class Backend:
    """A GPU backend, of which only the collective is asked."""

    def __init__(self, communicator=Communicator):
        self.collective = SimpleNamespace(
            identity=lambda: ("host", "gpu 0", "H"),
            unique_id=lambda: b"name",
            Communicator=communicator,
        )


@pytest.fixture
def worker(monkeypatch):
    """A worker with a session "s", whose shard 3 has all its rows on a GPU."""
    made = Worker()
    session = worker_session.Session()
    shard = Shard([to_block(X, y, place=Place(), classify=True)], 1)
    monkeypatch.setattr(Shard, "solves_trust_regions", True)
    session.shards[3] = shard
    monkeypatch.setitem(worker_session._sessions, made, {"s": session})
    monkeypatch.setattr(ranks, "gpu", Backend)
    yield made
    shard.close()


def join(worker, order, session="s", number=3):
    return asyncio.run(ranks.join(session, {"tcp://a": number}, order, b"name", worker))


def session_of(worker):
    return worker_session.session_of("s", worker)


def no_gpu():
    raise RuntimeError("device='cuda' needs CuPy")


def assert_lost(reply, text):
    assert isinstance(reply, worker_session.Failure)
    assert isinstance(reply.error, CollectiveLost)
    assert text in str(reply.error)


def test_a_gpu_introduces_itself(worker):
    assert asyncio.run(ranks.introduce()) == ("host", "gpu 0", "H")


def test_a_worker_without_a_gpu_says_why(monkeypatch):
    monkeypatch.setattr(ranks, "gpu", no_gpu)
    assert asyncio.run(ranks.introduce()) == "device='cuda' needs CuPy"


def test_a_communicator_is_named_or_the_failure_returned(worker, monkeypatch):
    assert asyncio.run(ranks.name_ranks("s")) == b"name"
    monkeypatch.setattr(ranks, "gpu", no_gpu)
    reply = asyncio.run(ranks.name_ranks("s"))
    assert isinstance(reply, worker_session.Failure)
    assert "needs CuPy" in str(reply.error)


def test_the_rank_is_the_place_in_the_order(worker):
    assert join(worker, ["tcp://b", "tcp://a", "tcp://c"]) is True
    assert Communicator.made == (3, 1, b"name")
    session = session_of(worker)
    assert session.ranks is not None
    assert session.shards[3].ranks is session.ranks


def test_one_worker_needs_no_communicator(worker):
    assert join(worker, ["tcp://a"]) is True
    assert session_of(worker).ranks is None


@pytest.mark.parametrize(("session", "number"), [("ended", 3), ("s", 4)])
def test_a_worker_without_the_rows_is_lost(worker, session, number):
    assert_lost(join(worker, ["tcp://a"], session, number), "does not know its rows")


def test_rows_outside_the_memory_of_the_gpu_are_refused(worker, monkeypatch):
    monkeypatch.setattr(Shard, "solves_trust_regions", False)
    assert_lost(join(worker, ["tcp://a", "tcp://b"]), "not wholly in its GPU's memory")


def test_a_failure_to_connect_is_returned_and_the_shard_stays_alone(worker, monkeypatch):
    monkeypatch.setattr(Communicator, "fails", True)
    reply = join(worker, ["tcp://a", "tcp://b"])
    assert isinstance(reply, worker_session.Failure)
    assert "no route" in str(reply.error)
    assert session_of(worker).shards[3].ranks is None


def test_leaving_aborts_the_communicator_without_the_lock(worker):
    join(worker, ["tcp://a", "tcp://b"])
    session = session_of(worker)

    async def leave_while_a_request_waits():
        async with session.lock:
            await asyncio.wait_for(ranks.leave("s", worker), 5)

    asyncio.run(leave_while_a_request_waits())
    assert session.ranks.left


def test_leaving_an_ended_session_does_nothing(worker):
    asyncio.run(ranks.leave("ended", worker))
