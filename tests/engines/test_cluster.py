"""A real cluster of two worker processes: faults, leaks, placement, concurrency. No mock of Dask."""

import os
import pickle
import signal
import threading

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import daskglm
from daskglm.core.requests import Evaluate, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.cluster import Cluster
from daskglm.engines.worker_session import _sessions
from tests.engines.fits import (
    X,
    assert_same_fit,
    at_round,
    rows,
    settle,
    small_cluster,
    y,
)


def sessions_left(dask_worker):
    return len(_sessions.get(dask_worker, {}))


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_the_same_answer_as_in_process(client, solver):
    model = daskglm.fit(*rows(), solver=solver, tol=1e-12)
    assert_same_fit(model, 1e-5)
    report, here = model.report_, daskglm.fit(X, y, solver=solver, tol=1e-12).report_
    assert report.workers == 2
    assert report.objective == pytest.approx(here.objective, rel=1e-12)
    assert report.bytes_reduced > 0
    if solver == "newton":
        assert report.passes == here.passes


def test_bytes_and_rounds_are_those_of_the_requests(client):
    engine = Cluster(
        client, BlockPlacement(client, partitions(*rows(), classify=True).lazy, pin=True)
    )
    try:
        engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.zeros(9), 1))
        assert engine.rounds == 1
        assert engine.bytes_reduced == 2 * 9 * 8  # the gradients of two workers
        assert engine.capabilities.workers == 2
    finally:
        engine.close()


@pytest.mark.slow
def test_twenty_fits_leave_nothing_behind(client):
    daskglm.fit(*rows())
    assert settle(client) == 0
    client.run(sessions_left)  # workers import this module, and pytest with it, which takes 45 MB
    memory = client.run(lambda: __import__("psutil").Process().memory_info().rss)
    for i in range(20):
        if i % 5 == 0:
            with pytest.raises(RuntimeError, match="stop"):
                daskglm.fit(
                    *rows(), callback=lambda record: (_ for _ in ()).throw(RuntimeError("stop"))
                )
        else:
            daskglm.fit(*rows(), solver="lbfgs")
    assert settle(client) == 0
    assert set(client.run(sessions_left).values()) == {0}
    after = client.run(lambda: __import__("psutil").Process().memory_info().rss)
    assert max(after[a] - memory[a] for a in after) < 20e6


def test_a_failed_load_leaves_nothing_behind(client):
    bad = X.copy()
    bad[1234, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN: partition 4, row 34, column 5"):
        daskglm.fit(da.from_array(bad, chunks=(300, 8)), rows()[1])
    assert settle(client) == 0
    assert set(client.run(sessions_left).values()) == {0}


def test_errors_of_workers_come_through(client):
    widths = [dask.delayed(X[:1000]), dask.delayed(X[1000:, :5])]
    with pytest.raises(ValueError, match="partition 0 has 8 columns but partition 1 has 5"):
        daskglm.fit(widths, [dask.delayed(y[:1000]), dask.delayed(y[1000:])])
    with pytest.raises(ValueError, match="partition 1, X has 1000 rows but y has 999"):
        daskglm.fit(
            [dask.delayed(X[:1000]), dask.delayed(X[1000:])],
            [dask.delayed(y[:1000]), dask.delayed(y[1001:])],
        )
    with pytest.raises(ValueError, match="one class"):
        daskglm.fit(rows()[0], da.ones(2000, chunks=300))


def test_more_workers_than_partitions_and_empty_workers(client):
    assert_same_fit(daskglm.fit(da.from_array(X, chunks=(2000, 8)), y, tol=1e-12))
    uneven = da.from_array(X, chunks=((0, 0, 0, 0, 1, 1999, 0), 8))
    assert_same_fit(daskglm.fit(uneven, y, tol=1e-12))


@pytest.mark.slow
def test_frames_of_unknown_lengths(client):
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(label=np.where(y > 0, "yes", "no"))
    lazy = dd.from_pandas(frame, npartitions=7)
    model = daskglm.fit(lazy[lazy.a > -1e9], "label", tol=1e-12)
    assert_same_fit(model)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(
        model.predict(lazy.drop(columns="label")).compute(), model.predict(frame[list("abcdefgh")])
    )


# ---- faults


@pytest.mark.parametrize(
    "solver",
    [
        "newton",
        pytest.param("tron", marks=pytest.mark.nightly),
        pytest.param("lbfgs", marks=pytest.mark.nightly),
    ],
)
def test_a_worker_killed_amid_a_fit_changes_nothing(solver):
    with small_cluster() as cluster, Client(cluster) as client:
        victim = sorted(client.run(os.getpid).values())[0]
        model = daskglm.fit(
            *rows(),
            solver=solver,
            tol=1e-12,
            callback=at_round(2, lambda: os.kill(victim, signal.SIGKILL)),
        )
        assert_same_fit(model, 1e-5)
        assert model.report_.repairs >= 1
        extra = model.report_.passes - daskglm.fit(X, y, solver=solver, tol=1e-12).report_.passes
        assert extra <= 4.0
        assert settle(client) == 0


@pytest.mark.slow
def test_a_worker_retired_amid_a_fit_changes_nothing():
    with small_cluster() as cluster, Client(cluster) as client:
        address = sorted(client.scheduler_info()["workers"])[0]
        model = daskglm.fit(
            *rows(),
            solver="lbfgs",
            tol=1e-12,
            callback=at_round(
                2, lambda: client.retire_workers([address], close_workers=True) and None
            ),
        )
        assert_same_fit(model, 1e-5)


@pytest.mark.slow
def test_all_workers_killed_amid_a_fit_come_back_through_their_nannies():
    with small_cluster(2) as cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        kill = at_round(1, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids] and None)
        assert_same_fit(daskglm.fit(*rows(), solver="lbfgs", tol=1e-12, callback=kill), 1e-5)


# ---- ways to call
def test_two_fits_at_once(client):
    found = {}

    def work(name, solver):
        found[name] = daskglm.fit(*rows(), solver=solver, tol=1e-12, client=client)

    threads = [
        threading.Thread(target=work, args=(i, s))
        for i, s in enumerate(["tron", "lbfgs", "newton"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 3
    for model in found.values():
        assert_same_fit(model, 1e-5)


def test_an_in_process_cluster_of_threads():
    with LocalCluster(
        n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        with Client(cluster):
            model = daskglm.fit(*rows(), tol=1e-12)
    assert_same_fit(model)
    assert model.report_.workers == 2


def test_a_pickled_estimator_from_a_cluster_works_without_one(client):
    model = pickle.loads(pickle.dumps(daskglm.fit(*rows(), client=client)))
    assert model.score(X, y) > 0.7


@pytest.mark.slow
def test_lazy_predictions_on_the_cluster(client):
    lazy, labels = rows()
    model = daskglm.fit(lazy, labels)
    assert model.score(lazy, labels) == pytest.approx(model.score(X, y))


def test_a_round_is_not_a_graph(client):
    """No task is made after loading: the scheduler's counter of tasks stands still during the rounds."""

    def transitions(dask_scheduler):
        return dask_scheduler.transition_counter

    engine = Cluster(
        client, BlockPlacement(client, partitions(*rows(100), classify=True).lazy, pin=True)
    )
    try:
        engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.zeros(9), 1))
        before = client.run_on_scheduler(transitions)
        for token in range(20):
            engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.zeros(9), token))
        assert client.run_on_scheduler(transitions) == before
    finally:
        engine.close()


@pytest.mark.slow
def test_many_workers_answer_through_leaders(monkeypatch):
    monkeypatch.setattr("daskglm.engines.cluster.STAR_WORKERS", 2)
    with small_cluster(4) as cluster, Client(cluster) as client:
        engine = Cluster(
            client, BlockPlacement(client, partitions(*rows(), classify=True).lazy, pin=True)
        )
        star = daskglm.fit(X, y, tol=1e-12)
        totals = engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.ones(9), 1))
        assert engine.bytes_reduced == 4 * 9 * 8
        engine.close()
        assert totals["rows"] == 2000
        victim = sorted(client.run(os.getpid).values())[-1]
        model = daskglm.fit(
            *rows(), solver="lbfgs", tol=1e-12, callback=at_round(2, lambda: os.kill(victim, 9))
        )
        assert_same_fit(model, 1e-5)
        assert model.report_.repairs >= 1
        np.testing.assert_allclose(model.coef_, star.coef_, rtol=1e-5)
