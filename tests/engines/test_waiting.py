"""Workers that Dask has paused, or that lack the package: a fit says so, and does not wait for ever."""

import contextlib
import logging
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, futures_of, wait

import daskglm
from daskglm.data.loading import check_room
from daskglm.data.partitions import partitions
from daskglm.engines.factory import make_engine
from daskglm.engines.placement import DataLost
from daskglm.engines.versions import check_replies
from daskglm.engines.waiting import worker_states
from daskglm.worker.device_placement import AS_THEY_ARE
from tests.conftest import make_problem
from tests.engines.test_worker_session import becomes, held, tasks
from tests.integration.test_faults import Processes

X, y = make_problem(2000, 8)
BEST = daskglm.fit(X, y, tol=1e-12)


def rows():
    return da.from_array(X, chunks=(300, 8)), da.from_array(y, chunks=300)


def set_status(client, status, addresses=None):
    """Pause workers by hand, as Dask does where they use too much memory, or let them go on."""

    def change(dask_worker, status=status):
        from distributed.core import Status

        dask_worker.status = Status[status]

    client.run(change, workers=addresses)


@contextlib.contextmanager
def paused(client, addresses=None):
    set_status(client, "paused", addresses)
    try:
        yield
    finally:
        set_status(client, "running", addresses)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("daskglm.engines.waiting.STALLED_SECONDS", 2.0)
    monkeypatch.setattr("daskglm.engines.waiting.WARN_SECONDS", 0.5)
    monkeypatch.setattr("daskglm.engines.block_placement.STUCK_SECONDS", 0.2)


# ---- paused workers
@pytest.mark.parametrize("kind", ["made", "sent"])
def test_a_fit_ends_where_all_workers_are_paused(client, impatient, caplog, kind):
    data, options = (rows(), {}) if kind == "made" else ((X, y), {"client": client})
    with paused(client), caplog.at_level(logging.WARNING, "daskglm"):
        with pytest.raises(
            MemoryError, match=r"no progress for \d+ s while .* paused 2 of 2 .*tcp://.*MiB of"
        ) as caught:
            daskglm.fit(*data, **options)
    for address in client.nthreads():
        assert address in str(caught.value)
    assert "out_of_core=True" in str(caught.value)
    assert any("without progress" in record.message for record in caplog.records)
    assert becomes(10, lambda: tasks(client) == 0)
    assert {found[0] for found in held(client)} == {0}
    np.testing.assert_allclose(daskglm.fit(*rows(), tol=1e-12).coef_, BEST.coef_, rtol=1e-6)


def test_workers_paused_amid_a_fit_or_before_one_out_of_core_do_not_matter(client):
    def pause(record):
        if record["iteration"] == 1:
            set_status(client, "paused")

    try:
        model = daskglm.fit(*rows(), solver="lbfgs", tol=1e-10, callback=pause)
        streamed = daskglm.fit(*rows(), solver="lbfgs", tol=1e-10, out_of_core=True)
    finally:
        set_status(client, "running")
    for found in (model, streamed):
        np.testing.assert_allclose(found.coef_, BEST.coef_, rtol=1e-4)


def test_rows_go_to_the_workers_that_are_not_paused(client):
    first = min(client.nthreads())
    with paused(client, [first]):
        for out_of_core in (False, True):
            model = daskglm.fit(*rows(), tol=1e-10, out_of_core=out_of_core)
            assert model.report_.workers == 1
            np.testing.assert_allclose(model.coef_, BEST.coef_, rtol=1e-4)


def test_a_wait_goes_on_while_workers_are_at_work(client, impatient):
    """Slow partitions are no reason to give up, not even where a worker is paused."""
    first = min(client.nthreads())

    def slow(block):
        import time

        time.sleep(0.6)
        return block

    lazy = rows()[0].map_blocks(slow, dtype=float, meta=np.empty((0, 0)))
    with paused(client, [first]):
        assert daskglm.fit(lazy, rows()[1]).report_.converged


@pytest.mark.slow
def test_blocks_lost_amid_a_fit_while_the_others_are_paused(tmp_path, impatient):
    with Processes(tmp_path) as running, Client(running.address, timeout=20) as client:
        client.wait_for_workers(2)
        names = {
            str(about["name"]): address
            for address, about in client.scheduler_info(n_workers=-1)["workers"].items()
        }

        def strike(record):
            if record["iteration"] == 2:
                set_status(client, "paused", [names["0"]])
                running.kill(running.workers[1])

        with pytest.raises(MemoryError, match=rf"blocks to be found again.*{names['0']}"):
            daskglm.fit(*rows(), solver="lbfgs", tol=1e-12, callback=strike)


@pytest.mark.slow
@pytest.mark.parametrize("out_of_core", [False, True])
def test_all_workers_gone_amid_a_fit(tmp_path, impatient, monkeypatch, caplog, out_of_core):
    monkeypatch.setattr("daskglm.engines.cluster.REPAIR_SECONDS", 5.0)
    monkeypatch.setattr("daskglm.engines.block_placement.REPAIR_SECONDS", 5.0)
    with Processes(tmp_path) as running, Client(running.address, timeout=20) as client:
        client.wait_for_workers(2)

        def strike(record):
            if record["iteration"] == 2:
                for worker in running.workers:
                    running.kill(worker)

        with (
            caplog.at_level(logging.WARNING, "daskglm"),
            pytest.raises(DataLost, match="not all came back|no workers"),
        ):
            daskglm.fit(
                *rows(), solver="lbfgs", tol=1e-12, callback=strike, out_of_core=out_of_core
            )
    assert any("the cluster has no workers" in record.message for record in caplog.records)


@pytest.mark.slow
def test_rows_beyond_what_the_imports_leave_of_small_workers():
    """Two workers of 450 MB, 320 MB of rows: their limits leave room, the code that they import does not."""

    def block(k):
        return np.random.default_rng(k).standard_normal((20_000, 50))

    parts = [da.from_delayed(dask.delayed(block)(k), (20_000, 50), float) for k in range(40)]
    big = da.concatenate(parts)
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="450MB", dashboard_address=None
    ) as cluster:
        with Client(cluster):
            with pytest.raises(
                MemoryError, match=r"may use together 0.671 GiB, of which .* in use"
            ):
                daskglm.fit(big, da.ones(big.shape[0], chunks=20_000), loss="squared")


@pytest.mark.slow
def test_rows_of_unknown_size_beyond_what_the_imports_leave():
    """What workers have imported a moment ago counts, though Dask calls it recent."""

    def block(k):
        return np.random.default_rng(k).standard_normal((20_000, 50))

    X = [dask.delayed(block)(k) for k in range(40)]
    y = [dask.delayed(np.arange)(20_000) for _ in X]
    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="450MB", dashboard_address=None
    ) as cluster:
        with Client(cluster):
            with pytest.raises(MemoryError, match=r"estimated from \d+ of 40 partitions.* in use"):
                daskglm.fit(X, y, loss="squared")


def test_room_is_what_is_left():
    check_room(100, 211, "", taken=100)
    with pytest.raises(
        MemoryError, match="the 2 workers have together 2 GiB, of which 1.5 GiB are in use"
    ):
        check_room(2**29, 2**31, "the 2 workers have together", taken=3 * 2**29)


def test_what_is_persisted_is_not_counted_twice(client, monkeypatch):
    """The rows of a fit that are in the workers' memory already, and rows within this process, take no more room."""
    lazy = [value.persist() for value in rows()]
    keys = [future.key for value in lazy for future in futures_of(value)]
    wait(lazy)
    workers = client.sync(worker_states, client, keys)
    assert sum(worker.own for worker in workers) >= X.nbytes + y.nbytes
    worker = workers[0]._replace(process=900, settled=700, own=300)
    assert worker.foreign_bytes(settled=False) == 600
    assert worker.foreign_bytes(settled=True) == 400
    assert worker._replace(own=1000).foreign_bytes(settled=True) == 0
    assert worker._replace(address="inproc://here").foreign_bytes(settled=False) == 0
    kept = []
    monkeypatch.setattr(
        "daskglm.engines.cluster.Cluster",
        lambda client, placement, where: kept.append(placement),
    )
    make_engine(partitions(*lazy, classify=True), client, AS_THEY_ARE)
    assert set(kept[0].rows.persisted) == set(keys)
    make_engine(partitions(lazy[0], 1.0 - lazy[1], classify=True), client, AS_THEY_ARE)
    assert set(kept[1].persisted) == set(keys)


# ---- workers without the package
@pytest.mark.parametrize("kind", ["missing", "other version"])
def test_a_worker_without_the_package_is_named(kind):
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        with Client(cluster) as client:
            victim = min(client.nthreads())
            if kind == "missing":
                client.run(lambda: sys.modules.__setitem__("daskglm", None), workers=[victim])
                message = rf"worker {victim} cannot import daskglm \(ModuleNotFoundError.*: install daskglm "
            else:
                client.run(
                    lambda: setattr(__import__("daskglm"), "__version__", "0.0.1"), workers=[victim]
                )
                message = rf"this process has daskglm .*, but worker {victim} has daskglm 0.0.1: install daskglm "
            for data, options in (
                (rows(), {}),
                ((X, y), {"client": client}),
                (rows(), {"out_of_core": True}),
            ):
                with pytest.raises(RuntimeError, match=message) as caught:
                    daskglm.fit(*data, **options)
                assert str(max(client.nthreads())) not in str(caught.value)
            assert becomes(10, lambda: tasks(client) == 0)


def test_each_worker_is_asked_for_its_version_once(client, monkeypatch):
    daskglm.fit(*rows())
    asked = []
    monkeypatch.setattr("daskglm.engines.versions.check_replies", asked.append)
    daskglm.fit(*rows())
    daskglm.fit(X, y, client=client)
    assert not asked


def test_a_scheduler_without_the_package_is_named():
    with pytest.raises(
        RuntimeError, match=r"the scheduler tcp://u cannot import daskglm \(ModuleNotFoundError"
    ):
        check_replies({"the scheduler tcp://u": ModuleNotFoundError("No module named 'daskglm'")})
    replies = {f"worker {k}": "0.0.1" for k in range(20)}
    with pytest.raises(RuntimeError, match="and 12 others: install"):
        check_replies(replies)
    check_replies({"worker": daskglm.__version__})
