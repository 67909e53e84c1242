"""GPUs that add up among themselves, on the stand-in for CuPy, whose NCCL connects threads and processes.

No test here has run on GPUs: it takes two of them.
"""

import logging
import os
import signal
import threading
import time
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.device import gpu
from daskglm.core.requests import CollectiveLost, Evaluate, Problem, TrustRegionStep, add
from daskglm.data.blocks import Place, to_block
from daskglm.engines.cluster import Cluster
from daskglm.engines.collective import unfit
from daskglm.losses.table import LOSSES
from daskglm.solvers import costs
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.conftest import make_problem
from tests.integration.test_device_cluster import PRELOAD, assert_optimal, chunked, pytestmark  # noqa: F401


@pytest.fixture
def ranks_of(cupy):
    """Make communicators of threads; all must have ended when the test has."""
    if not hasattr(cupy.cuda, "allocators"):
        pytest.skip("two ranks want two GPUs, and are tested with the stand-in")
    made = []

    def make(size, **options):
        collective = gpu().collective
        name = collective.unique_id()
        made.extend(collective.Communicator(size, rank, name, **options) for rank in range(size))
        return made[-size:]

    yield make
    for ranks in made:
        ranks.close()


def at_once(*works):
    """Results of works done in threads of their own, or the errors they raised."""
    results = [None] * len(works)

    def do(i):
        try:
            results[i] = works[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=do, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def joined(ranks):
    assert at_once(*(each.join for each in ranks)) == [None] * len(ranks)
    return ranks


def ended():
    """Whether NCCL has let go of all communicators that were closed: their graphs are gone."""
    deadline = time.monotonic() + 10
    while any(thread.name == "daskglm-nccl-end" for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# ---- ranks as threads
def test_sums_in_and_out_of_graphs_have_the_same_bits_on_all_ranks(cupy, ranks_of):
    a, b, c = joined(ranks_of(3))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(1000) for _ in range(3)]

    def work(ranks, mine):
        array, stream = cupy.asarray(mine), cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            ranks.sum(array)
            graph = stream.end_capture()
            graph.launch(stream)
            graph.launch(stream)  # of what the first has left: 3 times as much
            ranks.sum(array)
            ranks.wait(stream.record(), stream)
        return array.get()

    found = at_once(*(lambda r=r, m=m: work(r, m) for r, m in zip((a, b, c), given, strict=True)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], 9.0 * (given[0] + given[1] + given[2]), rtol=1e-12)


def test_only_float64_is_added_up(cupy, ranks_of):
    (alone,) = joined(ranks_of(1))
    with pytest.raises(AssertionError):
        alone.sum(cupy.zeros(3, dtype=np.float32))


def shards_of(X, y, count, where=DeviceConfig("cuda")):  # noqa: B008
    cuts = np.array_split(np.arange(len(y)), count)
    shards = [
        Shard([to_block(X[cut], y[cut], place=Place(), classify=True)], 1, where=where)
        for cut in cuts
    ]
    return shards


def questions(X, radius):
    d = X.shape[1]
    w = np.full(d + 1, 0.1)
    problem = Problem(LOSSES["logistic"].ref, 1.0)
    gradient = np.random.default_rng(1).standard_normal(d + 1)
    penalised = np.append(np.full(d, 30.0), 0.0)  # a few products, which do not enlarge rounding
    return (
        problem,
        Evaluate(w, 0, diagonal=True, curved=True),
        TrustRegionStep(
            (0, w), gradient, np.linspace(1.0, 2.0, d + 1), radius, 0.1, 2.0, penalised
        ),
    )


def together(shards, problem, request):
    """The reply of several shards, as a cluster adds them up."""
    replies = at_once(
        *(lambda shard=shard: shard.answer_host(problem, request) for shard in shards)
    )
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return add(replies)


@pytest.mark.parametrize("radius", [1e3, 0.01])
def test_ranks_solve_the_system_of_all_rows(cupy, ranks_of, radius):
    X, y = make_problem(900, 12)
    problem, evaluate, trust_region_step = questions(X, radius)
    (whole,) = shards_of(X, y, 1)
    parts = shards_of(X, y, 2)
    for shard, ranks in zip(parts, joined(ranks_of(2)), strict=True):
        shard.ranks = ranks
    for shard in (whole, *parts):
        shard.answer_host(problem, evaluate)
    wanted = whole.answer_host(problem, trust_region_step)
    for turn in range(3):  # the first captures, others use what it captured
        found = together(parts, problem, trust_region_step)
        for key in ("step", "residual"):
            np.testing.assert_allclose(
                found[key], wanted[key], rtol=0, atol=1e-12 * abs(wanted[key]).max()
            )
        assert (found["on_border"], found["rows"]) == (wanted["on_border"], wanted["rows"])
        if turn == 1:
            parts[1].ball = None  # one alone has to capture anew, and the other goes along
    for shard in parts:
        shard.ranks.close()
        shard.retire()
    assert ended()


def test_only_the_first_rank_sends_vectors(cupy, ranks_of):
    X, y = make_problem(300, 5)
    problem, evaluate, trust_region_step = questions(X, 10.0)
    parts = shards_of(X, y, 2)
    for shard, ranks in zip(parts, joined(ranks_of(2)), strict=True):
        shard.ranks = ranks
        shard.answer_host(problem, evaluate)
    first, second = at_once(
        *(lambda shard=shard: shard.answer_host(problem, trust_region_step) for shard in parts)
    )
    assert set(first) == {"step", "residual", "on_border", "length", "slope", "left", "rows"}
    assert set(second) == {"rows"}
    for shard in parts:
        shard.retire()


def test_a_rank_that_fails_beforehand_keeps_no_other_waiting(cupy, ranks_of, monkeypatch):
    X, y = make_problem(300, 5)
    problem, evaluate, trust_region_step = questions(X, 10.0)
    parts = shards_of(X, y, 2)
    for shard, ranks in zip(parts, joined(ranks_of(2)), strict=True):
        shard.ranks = ranks
        shard.answer_host(problem, evaluate)

    def fail(*args):
        raise MemoryError("no room")

    monkeypatch.setattr(parts[1], "_workspace", fail)
    # a rank that is told does not wait: this would be more than a test may take
    for shard in parts:
        shard.ranks.patience = 1000.0
    first, second = at_once(
        *(lambda shard=shard: shard.answer_host(problem, trust_region_step) for shard in parts)
    )
    assert isinstance(first, CollectiveLost)
    assert "another GPU could not go on" in str(first)
    assert isinstance(second, MemoryError)
    for shard in parts:
        shard.retire()
    assert ended()


@pytest.mark.slow
@pytest.mark.parametrize("amid", [False, True])
def test_a_rank_that_does_not_come_is_waited_for_no_longer_than_the_patience(
    cupy, ranks_of, monkeypatch, amid
):
    X, y = make_problem(300, 5)
    problem, evaluate, trust_region_step = questions(X, 10.0)
    parts = shards_of(X, y, 2)
    for shard, ranks in zip(parts, joined(ranks_of(2, patience=2.0)), strict=True):
        shard.ranks = ranks
        shard.answer_host(problem, evaluate)
    together(parts, problem, trust_region_step)
    if amid:
        monkeypatch.setattr(
            parts[1].ball, "solve", lambda *args: (_ for _ in ()).throw(OSError("gone"))
        )
        first, _ = at_once(
            *(lambda shard=shard: shard.answer_host(problem, trust_region_step) for shard in parts)
        )
    else:
        (first,) = at_once(lambda: parts[0].answer_host(problem, trust_region_step))
    assert isinstance(first, CollectiveLost)
    assert "did not come to a sum within 2 s" in str(first)
    assert isinstance(
        at_once(lambda: parts[0].answer_host(problem, trust_region_step))[0], CollectiveLost
    )  # at once, for good
    for shard in parts:
        shard.retire()
    assert ended()


def test_who_waits_can_be_told_to_give_up(cupy, ranks_of):
    first, _ = ranks_of(2)
    threading.Timer(0.2, first.leave).start()
    (error,) = at_once(first.join)  # the other never joins
    assert isinstance(error, CollectiveLost)
    assert "given up" in str(error)


def test_ranks_that_differ_in_what_they_call_are_found_out(cupy, ranks_of):
    """The stand-in's own check: one captured, one not, which NCCL leaves undefined."""
    a, b = joined(ranks_of(2, patience=5.0))

    def captured():
        array, stream = cupy.zeros(3), cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            a.sum(array)
            stream.end_capture().launch(stream)
            a.wait(stream.record(), stream)

    def plain():
        array, stream = cupy.zeros(3), cupy.cuda.Stream(non_blocking=True)
        with stream:
            b.sum(array)
            b.wait(stream.record(), stream)

    errors = at_once(captured, plain)
    assert all("ranks call different things" in str(error) for error in errors)


# ---- who may take part
def test_workers_that_cannot_be_ranks_are_named():
    one, two = ("m", "0000:01:00.0", "H100, NCCL 22707"), ("m", "0000:02:00.0", "H100, NCCL 22707")
    assert unfit({"a": one, "b": two}) == ""
    assert unfit({"a": one, "b": ("n", *one[1:])}) == ""
    assert "workers a and b share the GPU 0000:01:00.0 of m" in unfit({"a": one, "b": one})
    assert "different GPUs or libraries (a: H100" in unfit(
        {"a": one, "b": (*two[:2], "A100, NCCL 22707")}
    )
    assert "worker b cannot add up with others: no library" in unfit({"a": one, "b": "no library"})


@pytest.mark.parametrize("value", ["gloo", 1, True])
def test_a_setting_that_does_not_exist_is_an_error(value, client):
    X, y = make_problem(50, 3)
    with dask.config.set({"daskglm.collective": value}):
        with pytest.raises((ValueError, TypeError), match="daskglm.collective"):
            daskglm.fit(*chunked(X, y), client=client)
        # it is for workers; whether dask is imported did matter
        assert daskglm.fit(X, y).report_.converged


# ---- ranks as workers of a cluster
@pytest.fixture(scope="module")
def two_gpus():
    from distributed import LocalCluster

    options = {"dashboard_address": None, "memory_limit": 0, "preload": [PRELOAD]}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster


@pytest.fixture
def gpus(two_gpus):
    """A client of two workers with a GPU each, which is the stand-in."""
    from distributed import Client

    with Client(two_gpus) as client:
        client.wait_for_workers(2)
        yield client


def counted(monkeypatch):
    """Requests by kind, as the cluster is asked them."""
    counts, total = Counter(), Cluster.total

    def count(self, problem, request, *view):
        counts[type(request).__name__] += 1
        return total(self, problem, request, *view)

    monkeypatch.setattr(Cluster, "total", count)
    return counts


def collective_fit(X, y, chunks=4, **options):
    with dask.config.set({"daskglm.collective": "nccl"}):
        return daskglm.fit(*chunked(X, y, chunks), solver="tron", device="cuda", **options)


@pytest.mark.slow
def test_a_fit_asks_once_for_each_system(gpus, monkeypatch):
    X, y = make_problem(1000, 8)
    counts = counted(monkeypatch)
    monkeypatch.setattr(costs, "MOST_PAIRS", 0)  # where systems are solved there are none
    usual = daskglm.fit(*chunked(X, y), solver="tron", device="cuda", tol=1e-8)
    before = dict(counts)
    counts.clear()
    model = collective_fit(X, y, tol=1e-8)
    np.testing.assert_allclose(model.coef_, usual.coef_, rtol=1e-9, atol=1e-12)
    assert model.n_iter_ == usual.n_iter_
    assert model.report_.passes == usual.report_.passes
    assert "TrustRegionStep" not in before
    assert "HessianVector" not in counts
    assert counts["Evaluate"] == before["Evaluate"]
    products, systems = before["HessianVector"], counts["TrustRegionStep"]
    assert 0 < systems < products
    assert (
        model.report_.rounds == usual.report_.rounds - products + systems
    )  # one a system, whatever its products
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
def test_a_cluster_of_one_worker_needs_no_others(gpus, monkeypatch):
    X, y = make_problem(400, 4)
    counts = counted(monkeypatch)
    model = collective_fit(X, y, chunks=1, tol=1e-8)
    assert model.report_.workers == 1
    assert counts["TrustRegionStep"]
    assert not counts["HessianVector"]
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
def test_rows_beyond_the_memory_allowed_go_by_rounds(gpus, monkeypatch, caplog):
    X, y = make_problem(4000, 20)
    counts = counted(monkeypatch)
    with caplog.at_level(logging.WARNING, "daskglm"):
        model = collective_fit(
            X, y, chunks=2, tol=1e-8, device_memory_limit=2000 * 24 + X.nbytes // 4
        )
    assert "not wholly in its GPU's memory" in caplog.text
    assert counts["TrustRegionStep"] == 1  # tried once
    assert counts["HessianVector"]
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "raises"])
def test_a_rank_lost_amid_a_system_changes_nothing(gpus, monkeypatch, caplog, how):
    def spoil():
        """Die, or fail, at the third sum: the first of a system, after one to join and one before the solve."""
        import cupy.cuda.nccl as nccl

        from daskglm.core.device import gpu

        gpu().collective.PATIENCE = 2.0
        usual, calls = nccl.NcclCommunicator.allReduce, []

        def reduce(self, *args):
            calls.append(1)
            if len(calls) == 3:
                nccl.NcclCommunicator.allReduce = usual
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise nccl.NcclError(2)
            usual(self, *args)

        nccl.NcclCommunicator.allReduce = reduce

    def be_quick():
        from daskglm.core.device import gpu

        # the other is told, and does not wait: more than a test may take
        gpu().collective.PATIENCE = 2.0 if how == "raises" else 1000.0

    X, y = make_problem(1500, 8)
    counts = counted(monkeypatch)
    one, other = sorted(gpus.run(os.getpid))
    gpus.run(spoil, workers=[other])
    gpus.run(be_quick, workers=[one])
    with caplog.at_level(logging.WARNING, "daskglm"):
        model = collective_fit(X, y, chunks=6, tol=1e-8)
    assert "sums go over Dask again" in caplog.text
    why = (
        ["did not answer"] if how == "killed" else ["did not come to a sum", "NCCL status 2"]
    )  # whose address is first
    assert any(each in caplog.text for each in why)
    assert counts["TrustRegionStep"] == 1
    assert counts["HessianVector"]
    assert model.report_.converged
    assert (model.report_.repairs > 0) == (how == "killed")
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
def test_ranks_that_are_left_meet_anew_where_a_worker_was_lost_between_systems(gpus, monkeypatch):
    X, y = make_problem(1500, 8)
    pids, counts, total = sorted(gpus.run(os.getpid).values()), Counter(), Cluster.total

    def kill_before_a_point(self, problem, request, *view):
        counts[type(request).__name__] += 1
        if isinstance(request, Evaluate) and counts["TrustRegionStep"] == 2 and len(pids) == 2:
            os.kill(pids.pop(), signal.SIGKILL)
            counts.clear()
        return total(self, problem, request, *view)

    monkeypatch.setattr(Cluster, "total", kill_before_a_point)
    model = collective_fit(X, y, chunks=6, tol=1e-8)
    assert len(pids) == 1
    assert model.report_.repairs
    assert counts["TrustRegionStep"]
    assert not counts["HessianVector"]
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoiled", "says"),
    [
        ({"available": False}, "install nvidia-nccl-cu13 or nvidia-nccl-cu12"),
        ({"place": "0000:01:00.0"}, "share the GPU 0000:01:00.0"),
    ],
    ids=["no library", "one GPU for both"],
)
def test_what_ranks_need_is_asked_for_before_anything_is_loaded(gpus, spoiled, says):
    def spoil(available=True, place=None):
        import os

        import cupy.cuda.nccl as nccl

        nccl.available = available
        os.environ.pop("TWIN_PCI_BUS_ID", None)
        if place:
            os.environ["TWIN_PCI_BUS_ID"] = place

    def untouchable():
        raise AssertionError("the data were loaded")

    X = da.from_delayed(dask.delayed(untouchable)(), shape=(100, 3), dtype=float)
    y = da.from_delayed(dask.delayed(untouchable)(), shape=(100,), dtype=float)
    gpus.run(spoil, **spoiled)
    try:
        with (
            dask.config.set({"daskglm.collective": "nccl"}),
            pytest.raises(RuntimeError, match=says),
        ):
            daskglm.fit(X, y, solver="tron", device="cuda")
    finally:
        gpus.run(spoil)
