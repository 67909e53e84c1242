"""What fits leave on a cluster that their clients did not clean up: workers and scheduler give it back by themselves."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client

import daskglm
from daskglm.core.requests import Evaluate, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines import presence
from daskglm.engines import worker_session as sessions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.cluster import Cluster
from tests.conftest import make_problem

X, y = make_problem(2000, 8)
ROWS = 1_000_000  # of 8 float64, with margins and labels 80 bytes: 80 MB for both workers together
CLIENT = """
import sys, time
import dask, dask.array as da, numpy as np
from distributed import Client
import daskglm

def wait(record):
    print("iteration", record["iteration"], flush=True)
    time.sleep(3600 if record["iteration"] == 2 else 0)

def block(k, rows):
    return np.random.default_rng(k).standard_normal((rows, 8))

def labels(k, rows):
    return (block(k, rows)[:, 0] + np.random.default_rng(k).logistic(size=rows) > 0) * 1.0

address, kind, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]) // 4
with Client(address) as client:
    fit = dict(solver="lbfgs", tol=1e-12, callback=wait, client=client)
    if kind == "sent":
        X, y = (np.concatenate([make(k, rows) for k in range(4)]) for make in (block, labels))
    else:
        X, y = ([dask.delayed(make)(k, rows) for k in range(4)] for make in (block, labels))
        fit["out_of_core"] = kind == "streamed"
    daskglm.fit(X, y, **fit)
"""


@pytest.fixture
def quick(client):
    """A client of workers that ask every 0.2 s which fits go on."""

    def every(seconds, dask_worker):
        sessions.ENDED_SECONDS = seconds
        # the next fit on the worker makes another, whose interval is this
        watch = dask_worker.periodic_callbacks.pop(sessions.WATCH, None)
        if watch is not None:
            watch.stop()

    client.run(every, 0.2)
    yield client
    client.run(every, 10.0)


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def held(client):
    """Sessions, shards, data and bytes of each worker."""

    def count(dask_worker):
        import sys

        module = sys.modules.get(
            "daskglm.engines.worker_session"
        )  # a worker that was started again has not imported it yet
        found = {} if module is None else module._sessions.get(dask_worker, {})
        shards = sum(len(session.shards) for session in found.values())
        return len(found), shards, len(dask_worker.data), psutil.Process().memory_info().rss

    return list(client.run(count).values())


def becomes(seconds, holds):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


# ---- clients that are killed
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("made", "sent")), "streamed"],
)
def test_a_killed_client_leaves_nothing_on_the_workers(quick, kind, tmp_path):
    """The scheduler drops the tasks at once, the workers the rest within two or three of their questions."""
    script = tmp_path / "fit.py"
    script.write_text(CLIENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    def killed_fit():
        command = [sys.executable, str(script), quick.scheduler.address, kind, str(ROWS)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert any("iteration 2" in line for line in process.stdout), "the fit got under way"
            during = held(quick)
            process.send_signal(signal.SIGKILL)
        return during

    killed_fit()  # workers import what they need
    assert becomes(60, lambda: {found[:3] for found in held(quick)} == {(0, 0, 0)})
    before = [found[3] for found in held(quick)]
    during = killed_fit()
    assert {found[:2] for found in during} == {(1, 1)}
    assert becomes(60, lambda: {found[:3] for found in held(quick)} == {(0, 0, 0)})
    assert tasks(quick) == 0
    assert becomes(
        60,
        lambda: all(found[3] < was + 10e6 for found, was in zip(held(quick), before, strict=True)),
    ), (
        before,
        during,
    )
    watched = lambda dask_worker: "daskglm-sessions" in dask_worker.periodic_callbacks  # noqa: E731
    assert becomes(10, lambda: not any(quick.run(watched).values())), (
        "a worker without sessions asks nobody"
    )


@pytest.mark.slow
def test_a_client_that_computes_for_long_between_rounds_keeps_its_sessions(quick):
    lazy = da.from_array(X, chunks=(300, 8)), da.from_array(y, chunks=300)

    def slow(record):
        time.sleep(1.5 if record["iteration"] == 2 else 0.0)

    for out_of_core in (False, True):
        model = daskglm.fit(*lazy, out_of_core=out_of_core, callback=slow)
        assert model.report_.repairs == 0
        assert model.report_.converged
    assert becomes(10, lambda: {found[:2] for found in held(quick)} == {(0, 0)})


@pytest.mark.parametrize("out_of_core", [False, True])
def test_a_session_that_was_closed_wrongly_is_opened_again(quick, out_of_core):
    """A client that lost its connection and is back is another one to the scheduler."""
    lazy = da.from_array(X, chunks=(300, 8)), da.from_array(y, chunks=300)

    def strike(dask_scheduler):
        for name in list(presence._clients[dask_scheduler]):
            presence.unregister(name, dask_scheduler)

    def forget(record):
        if record["iteration"] == 2:
            quick.run_on_scheduler(strike)
            assert becomes(10, lambda: {found[0] for found in held(quick)} == {0})

    model = daskglm.fit(*lazy, solver="lbfgs", tol=1e-10, out_of_core=out_of_core, callback=forget)
    assert model.report_.repairs >= 1
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, tol=1e-12).coef_, rtol=1e-4)


def test_a_session_that_its_client_could_not_close_is_closed(quick):
    """The client lives; the scheduler was told that the fit is over, the workers were not."""
    data = partitions(
        da.from_array(X, chunks=(300, 8)), da.from_array(y, chunks=300), classify=True
    )
    engine = Cluster(quick, BlockPlacement(quick, data.lazy, pin=True))
    engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.zeros(9), 1))
    time.sleep(1.0)
    assert {found[0] for found in held(quick)} == {1}, "an open fit that asks nothing is left alone"
    quick.run_on_scheduler(presence.unregister, engine.session)
    assert becomes(10, lambda: {found[0] for found in held(quick)} == {0})
    engine.close()


def test_the_list_of_sessions_does_not_grow(quick, _cluster):
    def listed():
        return quick.run_on_scheduler(
            lambda dask_scheduler: len(presence._clients.get(dask_scheduler, {}))
        )

    daskglm.fit(X, y, client=quick)
    assert listed() == 0
    with Client(_cluster.scheduler_address, set_as_default=False) as other:
        other.run_on_scheduler(presence.register, "lost", other.id)
        assert listed() == 1
    daskglm.fit(X, y, client=quick)
    assert listed() == 0


# ---- fits that fail
BAD = np.where(np.arange(16000).reshape(2000, 8) == 15999, np.nan, X)


def fails(call):
    """The error of a call, with its traceback and all frames in it."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error was raised")


def stop(record):
    raise RuntimeError("stop")


def lazy(rows):
    return da.from_array(rows, chunks=(300, 8))


FAILING = {
    "rows with NaN": lambda client: daskglm.fit(BAD, y, client=client),
    "lazy rows with NaN": lambda client: daskglm.fit(lazy(BAD), y, client=client),
    "streamed rows with NaN": lambda client: daskglm.fit(
        lazy(BAD), y, client=client, out_of_core=True
    ),
    "one class": lambda client: daskglm.fit(X, np.ones(2000), client=client),
    "callback": lambda client: daskglm.fit(X, y, client=client, callback=stop),
    "path, callback": lambda client: daskglm.fit(X, y, client=client, C=[0.1, 1.0], callback=stop),
    "path one by one, callback": lambda client: daskglm.fit(
        X, y, client=client, C=[0.1, 1.0], solver="lbfgs", callback=stop
    ),
    "path": lambda client: daskglm.fit(BAD, y, client=client, C=[0.1, 1.0]),
    "path, lazy": lambda client: daskglm.fit(lazy(BAD), y, client=client, C=[0.1, 1.0]),
    "cross-validation": lambda client: daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(
        lazy(BAD), y
    ),
    "cross-validation, one class": lambda client: daskglm.LogisticRegressionCV(Cs=[1.0]).fit(
        lazy(X), np.ones(2000)
    ),
    "predict": lambda client: daskglm.fit(X, y).predict(lazy(BAD)).compute(),
    "score": lambda client: daskglm.fit(X, y).score(lazy(BAD), da.from_array(y, chunks=300)),
    "warm start": lambda client: daskglm.fit(
        X, y, client=client, warm_start=(np.full((1, 8), np.nan), [0.0])
    ),
}


@pytest.mark.parametrize("name", list(FAILING))
def test_a_failed_call_leaves_no_task_while_its_error_lives(client, name):
    gc.disable()  # a notebook keeps the last error, and may be idle for hours
    try:
        error = fails(lambda: FAILING[name](client))
        assert becomes(10, lambda: tasks(client) == 0), error
        assert error.__traceback__ is not None
        assert becomes(10, lambda: {found[:3] for found in held(client)} == {(0, 0, 0)})
    finally:
        gc.enable()


@pytest.mark.parametrize("bad", [False, True])
def test_checkpoints_leave_no_task_while_an_error_lives(client, tmp_path, bad):
    gc.disable()
    try:
        options = {
            "solver": "sdca",
            "checkpoint": tmp_path,
            "checkpoint_every": 1,
            "client": client,
        }
        if bad:
            error = fails(lambda: daskglm.fit(X, y, callback=stop, **options))
        else:
            daskglm.fit(X, y, solver_options={"polish": False}, tol=1e-2, **options)
            other = np.where(y > 0, -1.0, 1.0)
            error = fails(lambda: daskglm.fit(X, other, resume=tmp_path, client=client))
        assert becomes(10, lambda: tasks(client) == 0), error
        assert becomes(10, lambda: {found[:3] for found in held(client)} == {(0, 0, 0)})
    finally:
        gc.enable()


def test_an_asynchronous_client_leaves_no_task_while_an_error_lives(_cluster):
    async def main():
        async with Client(_cluster.scheduler_address, asynchronous=True) as client:
            try:
                await daskglm.fit(BAD, y, client=client)
            except ValueError as caught:
                error = caught
            for _ in range(100):
                left = await client.run_on_scheduler(
                    lambda dask_scheduler: len(dask_scheduler.tasks)
                )
                if not left:
                    break
                await asyncio.sleep(0.1)
            return left, error

    gc.disable()
    try:
        assert asyncio.run(main())[0] == 0
    finally:
        gc.enable()


def test_rows_that_were_sent_are_dropped_once_the_blocks_are_made(client):
    found = []
    daskglm.fit(
        X, y, client=client, callback=lambda record: found.append(tasks(client)), solver="lbfgs"
    )
    assert found[-1] == 2, "one block on each worker, and no rows beside it"
