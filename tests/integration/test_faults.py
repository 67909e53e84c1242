"""What clusters do to a fit: each fault ends with the right answer or a clear error, within a bounded time."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.engines.placement import ClusterLost, assign, plan_moves
from daskglm.engines.rebalancing import RebalancePolicy
from tests.conftest import make_problem
from tests.launch.hosts import HERE, Hosts, refusal

X, y = make_problem(2000, 8)
BEST = daskglm.fit(X, y, tol=1e-13)


def rows(chunk=200):
    return da.from_array(X, chunks=(chunk, 8)), da.from_array(y, chunks=chunk)


def slowly(seconds):
    """A callback that makes a fit last: it waits after each iteration."""

    def wait(record):
        time.sleep(seconds)

    return wait


def at(number, action, seconds=0.0):
    """A callback that acts once, and waits after each iteration."""

    def call(record):
        if record["iteration"] == number:
            action()
        time.sleep(seconds)

    return call


def assert_best(model, rtol=1e-4):
    np.testing.assert_allclose(model.coef_, BEST.coef_, rtol=rtol, atol=1e-7)


@contextlib.contextmanager
def cluster_of(workers, **options):
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0, **options}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        yield cluster, client


# ---- who gets what
def test_deals_and_moves():
    assert assign("abcdefgh", {"u": 1, "v": 3}) == {"u": ["a", "b"], "v": list("cdefgh")}
    assert plan_moves({"u": list("abcd"), "v": list("efgh")}, {"u": 1, "v": 1, "w": 1}) == {
        "d": "w",
        "c": "w",
    }
    assert plan_moves({"u": ["a"]}, {"u": 1, "v": 1}) == {}
    assert plan_moves({"u": list("abcd")}, {"u": 1, "v": 1}) == {"d": "v", "c": "v"}


def test_blocks_move_when_waiting_has_cost_as_much():
    policy = RebalancePolicy()
    assert not policy.after_round(10.0, 10**9), "nobody is idle"
    policy.set_busy_threads(2, 4)
    assert [policy.after_round(1.0, 10**8) for _ in range(4)] == [
        False,
        False,
        True,
        True,
    ]  # 0.5 s a round lost; 1.5 to move
    policy.set_busy_threads(4, 4)
    assert not policy.after_round(100.0, 10**8)


# ---- faults of workers
@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lbfgs", pytest.param("sdca", marks=pytest.mark.nightly)])
def test_a_worker_stopped_for_20_seconds(solver):
    with cluster_of(2) as (_, client):
        victim = min(client.run(os.getpid).values())

        def stop():
            os.kill(victim, signal.SIGSTOP)
            threading.Timer(20, os.kill, (victim, signal.SIGCONT)).start()

        options = {"solver_options": {"polish": False}} if solver == "sdca" else {}
        model = daskglm.fit(
            *rows(), solver=solver, tol=1e-9, random_state=0, callback=at(2, stop), **options
        )
        assert_best(model, 1e-3)
        assert model.report_.repairs == 0, "it was waited for"


@pytest.mark.slow
def test_a_worker_stopped_for_good_is_given_up_by_the_scheduler():
    import dask

    with dask.config.set({"distributed.scheduler.worker-ttl": "5s"}), cluster_of(2) as (_, client):
        stopped = []

        # on a busy machine the scheduler may have given up a worker before, and its nanny has another
        def stop():
            stopped.append(min(client.run(os.getpid).values()))
            os.kill(stopped[0], signal.SIGSTOP)

        model = daskglm.fit(*rows(), solver="lbfgs", tol=1e-10, callback=at(2, stop))
        assert_best(model)
        assert model.report_.repairs >= 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped[0], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["in-memory", "out-of-core"]
)
@pytest.mark.parametrize("solver", [pytest.param("gd", marks=pytest.mark.nightly), "sdca"])
def test_a_worker_that_comes_amid_a_fit_takes_a_part_when_that_pays(monkeypatch, kept, solver):
    monkeypatch.setattr("daskglm.engines.rebalancing.JOINED_SECONDS", 0.1)
    with cluster_of(1) as (cluster, client):

        def grow():
            cluster.scale(3)
            client.wait_for_workers(3)

        options = (
            {"solver_options": {"polish": False, "aggregation": "adaptive"}}
            if solver == "sdca"
            else {}
        )
        fit = {
            "solver": solver,
            "tol": 1e-4 if options else 1e-6,
            "max_iter": 400,
            "out_of_core": not kept,
            "random_state": 0,
            **options,
        }
        model = daskglm.fit(*rows(), callback=at(2, grow, 0.05), **fit)
        assert model.report_.workers == 3
        assert model.report_.repairs == 0
        assert_best(model, 2e-2)


@pytest.mark.slow
def test_a_worker_that_comes_is_left_alone_where_there_is_no_block_to_spare(monkeypatch):
    monkeypatch.setattr("daskglm.engines.rebalancing.JOINED_SECONDS", 0.05)
    with cluster_of(1) as (cluster, client):

        def grow():
            cluster.scale(2)
            client.wait_for_workers(2)

        model = daskglm.fit(
            *rows(2000), solver="gd", tol=1e-6, callback=at(2, grow, 0.02), max_iter=100
        )
        assert model.report_.workers == 1
        assert_best(model, 2e-2)


@pytest.mark.slow
def test_a_slow_worker_only_takes_longer():
    """One worker gets a tenth of the processor's time: it is stopped nine tenths of every 50 ms."""
    with cluster_of(2) as (_, client):
        victim, ended = min(client.run(os.getpid).values()), threading.Event()

        def throttle():
            while not ended.is_set():
                for number, seconds in ((signal.SIGSTOP, 0.045), (signal.SIGCONT, 0.005)):
                    os.kill(victim, number)
                    time.sleep(seconds)

        thread = threading.Thread(target=throttle)
        thread.start()
        try:
            model = daskglm.fit(*rows(), solver="newton", tol=1e-10)
        finally:
            ended.set()
            thread.join()
        assert_best(model)


# ---- faults of the scheduler
class Processes:
    """A scheduler and workers of their own, so that each can be killed."""

    def __init__(self, folder, workers=2):
        self.folder, self.file = folder, folder / "scheduler.json"
        self.environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.all = []
        self.scheduler = self.start_scheduler(0)
        self.workers = [self.start_worker(k) for k in range(workers)]

    def start(self, module, *arguments):
        command = [sys.executable, "-m", module, *map(str, arguments)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.all.append(
            subprocess.Popen(command, env=self.environment, start_new_session=True, **quiet)
        )
        return self.all[-1]

    def start_scheduler(self, port):
        self.file.unlink(missing_ok=True)
        where = ("--host", "127.0.0.1", "--port", port, "--dashboard-address", "127.0.0.1:0")
        process = self.start(
            "distributed.cli.dask_scheduler", *where, "--scheduler-file", self.file
        )
        deadline = time.monotonic() + 30
        while not self.file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.1)
        self.address = json.loads(self.file.read_text())["address"]
        return process

    def start_worker(self, name):
        more = (
            "--nthreads",
            1,
            "--memory-limit",
            0,
            "--name",
            name,
            "--dashboard-address",
            "127.0.0.1:0",
        )
        return self.start("distributed.cli.dask_worker", self.address, *more)

    def kill(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all:
            self.kill(process)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["lbfgs", pytest.param("sdca", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "again", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["gone", "started-anew"]
)
def test_a_scheduler_that_goes_is_a_clear_error_and_a_checkpoint_goes_on(tmp_path, solver, again):
    from distributed import Client

    options = {"solver": solver, "tol": 1e-9, "random_state": 0}
    if solver == "sdca":
        options["solver_options"] = {"polish": False}
    with Processes(tmp_path) as running:
        with Client(running.address, timeout=20) as client:
            client.wait_for_workers(2)

            def kill():
                running.kill(running.scheduler)
                if again:
                    running.start_scheduler(running.address.rpartition(":")[2])
                    for k in range(2):
                        running.start_worker(k + 2)

            with pytest.raises(ClusterLost, match=r"resume=.* resumes it"):
                daskglm.fit(
                    *rows(),
                    checkpoint=tmp_path / "c",
                    checkpoint_every=1,
                    callback=at(3, kill),
                    **options,
                )
    with cluster_of(3):
        model = daskglm.fit(*rows(), resume=tmp_path / "c", **options)
    assert model.report_.resumed == 3
    assert_best(model, 1e-3)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "amid", ["daskglm.engines.versions.check_cluster", "daskglm.engines.cluster.send"]
)
def test_a_scheduler_that_goes_before_rows_are_loaded_is_the_same_error(
    tmp_path, monkeypatch, amid
):
    """Amid a call to all workers Dask says CommClosedError, of which nobody learns what to do."""
    from distributed import Client
    from distributed.comm import CommClosedError

    with Processes(tmp_path) as running, Client(running.address, timeout=5) as client:
        client.wait_for_workers(1)

        async def goes(*_):
            running.kill(running.scheduler)
            raise CommClosedError("Stream is closed")

        monkeypatch.setattr(amid, goes)
        with pytest.raises(ClusterLost, match="the scheduler that this fit ran on is gone"):
            daskglm.fit(X, y, client=client)


# ---- faults of the network
@pytest.fixture
def far(tmp_path):
    """Hosts on a network, and a cluster with its scheduler here and a supervised worker on each."""
    if reason := refusal():
        pytest.skip(reason)
    try:
        hosts = Hosts(tmp_path).__enter__()
    except RuntimeError as error:
        pytest.skip(f"this kernel refuses hosts as network namespaces: {error}")
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s"}
    daskglm_ = [sys.executable, "-m", "daskglm", "cluster"]
    scheduler = [*daskglm_, "scheduler", "--host", HERE, "--port", "8799"]
    hosts.daemon(scheduler, "scheduler.log", env=environment)
    for name in ("dgw1", "dgw2"):
        address = f"tcp://{HERE}:8799"
        hosts.daemon(
            hosts.within(name, *daskglm_, "workers", address, "--name", name, "--workers", 1),
            f"{name}.log",
            env=environment,
        )
    yield hosts, f"tcp://{HERE}:8799"
    hosts.__exit__()


@pytest.mark.nightly
@pytest.mark.root
@pytest.mark.timeout(900)  # the tests of deploy/ may have the hosts first, for minutes
@pytest.mark.parametrize("seconds", [3, 25])
def test_a_link_that_is_cut_and_mended(far, seconds):
    """A short cut is waited for; after a long one the other worker takes over, and the launcher brings the lost one back."""
    from distributed import Client

    hosts, address = far
    with Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)

        def cut():
            hosts.cut("dgw2")
            threading.Timer(seconds, hosts.mend, ("dgw2",)).start()

        model = daskglm.fit(*rows(), solver="lbfgs", tol=1e-10, callback=at(3, cut, 0.1))
        assert_best(model)
        assert (model.report_.repairs > 0) == (seconds > 12)
        client.wait_for_workers(2, timeout=90)
        deadline = time.monotonic() + 90
        while len(client.nthreads()) < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert len(client.nthreads()) == 2, "the launcher has brought it back"
        assert daskglm.fit(*rows(), tol=1e-10).report_.workers == 2


# ---- chaos
FAULTS = (
    "kill",
    "kill all",
    "stop",
    "retire",
    "add",
    "kill while loading",
    "kill two in turn",
    "none",
)


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_fifty_fits_with_a_random_fault_each():
    """Every fit ends with the optimum, whatever was done to its workers; seed 5."""
    began = time.monotonic()
    chance, counts, repairs = random.Random(5), {}, 0
    with cluster_of(3) as (cluster, client):
        for number in range(50):
            fault, solver = (
                chance.choice(FAULTS),
                chance.choice(["newton", "tron", "lbfgs", "sdca"]),
            )
            iteration, stream = chance.randint(0, 3), chance.random() < 0.2
            counts[fault] = counts.get(fault, 0) + 1
            alive = {}
            while len(alive) < 3:
                while (
                    len(client.nthreads()) < 3
                ):  # a cluster does not bring back whom it has retired
                    cluster.scale(len(cluster.worker_spec) + 1)
                    client.wait_for_workers(len(client.nthreads()) + 1, timeout=60)
                alive = client.run(
                    os.getpid, on_error="ignore"
                )  # nor does it know yet who was killed last
            pids = chance.sample(sorted(alive.values()), 3)
            timers = []

            def later(seconds, *call, timers=timers):
                timers.append(threading.Timer(seconds, *call))
                timers[-1].start()

            def strike(fault=fault, pids=pids, later=later):
                if fault in ("kill", "kill two in turn"):
                    kill(pids[0])
                    if fault != "kill":
                        later(0.3, kill, (pids[1],))
                elif fault == "kill all":
                    for pid in pids:
                        kill(pid)
                elif fault == "stop":
                    os.kill(pids[0], signal.SIGSTOP)
                    later(2.0, os.kill, (pids[0], signal.SIGCONT))
                elif fault == "retire":
                    client.retire_workers(sorted(client.nthreads())[:1], close_workers=True)
                elif fault == "add":
                    cluster.scale(len(cluster.worker_spec) + 1)

            if fault == "kill while loading":
                later(chance.random() * 0.2, kill, (pids[0],))
            tol = (
                1e-5 if solver == "sdca" else 1e-8
            )  # in few dimensions it takes hundreds of rounds for more
            options = {"solver_options": {"polish": False}} if solver == "sdca" else {}
            fit = {
                "solver": solver,
                "tol": tol,
                "random_state": number,
                "out_of_core": stream,
                **options,
            }
            model = daskglm.fit(*rows(), callback=at(iteration, strike, 0.02), **fit)
            for timer in timers:
                timer.join()
            assert model.report_.converged, (number, fault, solver)
            assert model.report_.objective == pytest.approx(BEST.report_.objective, rel=2 * tol), (
                number,
                fault,
                solver,
            )
            repairs += model.report_.repairs
            print(
                f"{number}: {fault} at {iteration}, {solver}{' out of core' if stream else ''}, {model.report_.repairs} repairs"
            )
    print(f"\n50 fits in {time.monotonic() - began:.0f} s, {repairs} repairs, faults: {counts}")


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
