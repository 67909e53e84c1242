"""`daskglm doctor`: what it finds here, and what it says of machines that something is wrong with."""

import types

import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

from daskglm.cli import main
from daskglm.commands.doctor import TO_CHANGE
from daskglm.estimators import doctor
from daskglm.system.topology import Node, Topology


def by_name(findings):
    return {finding.name: finding for finding in findings}


def test_the_command_looks_at_everything_here():
    done = CliRunner().invoke(main, ["doctor"], catch_exceptions=False)
    assert done.exit_code in (0, TO_CHANGE)
    for name in ("processors", "memory", "GPU", "Python", "kernels compiled here", "passes over"):
        assert f"  {name}" in done.output
    assert ("change: " in done.output) == (done.exit_code == TO_CHANGE)
    assert ("nothing to change" in done.output) == (done.exit_code == 0)


def test_fewer_threads_than_cores(monkeypatch):
    monkeypatch.setattr(doctor, "available_threads", lambda: 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    topology = Topology((Node(0, ((0,), (1,), (2,))),))
    found = by_name(doctor.machine(topology))
    assert "3 on 3 cores" in found["processors"].text
    assert "unset OMP_NUM_THREADS=1 or set it to 3" in found["threads of a fit"].change


def test_several_numa_nodes(monkeypatch):
    monkeypatch.setattr(doctor, "available_threads", lambda: 4)
    topology = Topology((Node(0, ((0,), (1,))), Node(1, ((2,), (3,)))))
    assert "daskglm cluster start" in by_name(doctor.machine(topology))["threads of a fit"].change


def test_little_memory(monkeypatch):
    monkeypatch.setattr(doctor, "memory_left", lambda: 2**30)
    monkeypatch.setattr(doctor, "memory_of_machine", lambda: 2**36)
    assert "out_of_core=True" in by_name(doctor.machine())["memory"].change


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(
        doctor, "gpu", lambda: types.SimpleNamespace(describe=lambda: "a GPU, 80 GiB")
    )
    assert by_name(doctor.machine())["GPU"].text == "a GPU, 80 GiB"


def test_versions_below_the_bounds_and_missing_ones(monkeypatch):
    monkeypatch.setattr(
        doctor.importlib.metadata,
        "requires",
        lambda name: ["numpy>=99", "nowhere-at-all>=1", 'cupy>=1; extra == "cuda13"'],
    )
    change = by_name(doctor.versions())["packages"].change
    assert "is not >=99" in change
    assert "nowhere-at-all is missing" in change
    assert "cupy" not in change


def test_kernels_that_are_not_compiled(monkeypatch, tmp_path):
    cache = types.SimpleNamespace(folder=tmp_path / "kernels" / "dense")
    monkeypatch.setattr(doctor.sweep.evaluate, "_cache", types.SimpleNamespace(_cache_file=cache))
    monkeypatch.setattr(doctor.compiled, "SHIPPED", tmp_path / "shipped")
    assert "daskglm warm-up" in by_name(doctor.kernels())["kernels compiled here"].change
    cache.folder = None
    assert "NUMBA_CACHE_DIR" in by_name(doctor.kernels())["kernels compiled here"].change


def test_threads_that_do_not_help(monkeypatch):
    monkeypatch.setattr(doctor, "available_threads", lambda: 8)
    monkeypatch.setattr(doctor, "_passes_per_second", lambda X, y, threads: 10.0 + threads)
    (found,) = doctor.benchmark()
    assert "8 threads are 1.6 times as fast as one" in found.change


def test_a_cluster_and_its_workers(client):
    found = by_name(doctor.cluster(client))
    assert found["versions of the workers"].text == "those of this process"
    named = [name for name in found if name.startswith("worker ")]
    assert len(named) == len(client.nthreads())
    assert "ms, median" in found["round trip to all workers"].text


def test_a_worker_of_another_version(client, monkeypatch):
    monkeypatch.setattr("daskglm.engines.versions._KNOWN", {})
    monkeypatch.setattr("daskglm.__version__", "99.0")
    found = by_name(doctor.cluster(client))
    assert "install daskglm" in found["versions of the workers"].change


def test_slow_round_trips(client, monkeypatch):
    monkeypatch.setattr(doctor, "SLOW_ROUND_TRIP", 0.0)
    change = by_name(doctor.cluster(client))["round trip to all workers"].change
    assert "beside the scheduler" in change


@pytest.mark.slow
def test_a_cluster_without_workers_by_the_command():
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster):
        done = CliRunner().invoke(
            main, ["doctor", "--scheduler", cluster.scheduler_address], catch_exceptions=False
        )
    assert done.exit_code == TO_CHANGE
    assert "no worker is connected" in done.output
