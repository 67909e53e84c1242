"""Clusters whose workers compute on a device: LocalCluster and dask-cuda's LocalCUDACluster, on the stand-in for CuPy.

On a machine with GPUs stage `cluster` of `benchmarks/gpu/first.py` fits on both. What crosses between workers crosses TCP here.
"""

import os
import shutil

import dask.array as da
import numpy as np
import pytest

import daskglm
from tests.conftest import TWIN, make_problem, objective

pytestmark = pytest.mark.skipif(
    not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")),
    reason="no C++ compiler to compile the CUDA kernels for the CPU with",
)


# run by workers when they start: they find the stand-in where they look for CuPy, which dask has imported
PRELOAD = (
    f"import sys; sys.path.insert(0, {str(TWIN)!r}); "
    "[sys.modules.pop(name) for name in list(sys.modules) if name.startswith('cupy')]"
)


@pytest.fixture(scope="module")
def device_cluster():
    from distributed import LocalCluster

    options = {"dashboard_address": None, "memory_limit": 0, "preload": [PRELOAD]}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster


@pytest.fixture
def device_client(device_cluster):
    from distributed import Client

    with Client(device_cluster) as client:
        client.wait_for_workers(2)
        yield client


def chunked(X, y, chunks=4):
    rows = -(-len(y) // chunks)
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def assert_optimal(model, X, y, tol):
    best = daskglm.fit(X, y, solver="newton", tol=1e-10)
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, "logistic") for m in (best, model)]
    assert values[1] <= values[0] * (1 + tol + 1e-9)


def to_device(chunk):
    import cupy

    return cupy.asarray(chunk)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd", "sdca"])
@pytest.mark.slow
def test_host_chunks_move_to_the_workers_devices(device_client, solver):
    X, y = make_problem(1000, 8)
    dX, dy = chunked(X, y)
    model = daskglm.fit(dX, dy, solver=solver, device="cuda", tol=1e-6, random_state=0)
    assert model.report_.converged
    assert model.report_.workers == 2
    assert model.report_.device == "cuda"
    assert_optimal(model, X, y, 1e-6)


@pytest.mark.slow
def test_chunks_of_cupy_are_computed_where_they_are(device_client):
    X, y = make_problem(1000, 8, dtype=np.float32)
    dX, dy = chunked(X, y)
    on_device = dX.map_blocks(to_device, meta=np.empty((0, 0), np.float32), dtype=np.float32)
    labels = dy.map_blocks(to_device, meta=np.empty(0), dtype=float)
    host, device = daskglm.fit(X, y, tol=1e-8), daskglm.fit(on_device, labels, tol=1e-8)
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-4, atol=1e-6)
    predicted = device.predict(on_device).compute()
    assert isinstance(predicted, np.ndarray)
    assert (predicted == host.predict(X)).mean() > 0.99


@pytest.mark.slow
def test_a_worker_killed_amid_a_fit_on_devices_changes_nothing(device_client):
    import signal

    X, y = make_problem(1500, 8)
    dX, dy = chunked(X, y, 6)
    pids = list(device_client.run(os.getpid).values())
    killed = []

    def kill(record):
        if record["iteration"] == 2 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    model = daskglm.fit(dX, dy, solver="tron", device="cuda", tol=1e-8, callback=kill)
    assert killed
    assert model.report_.converged
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
def test_workers_add_up_for_each_other_what_is_on_devices(device_client, monkeypatch):
    """The way of sums over UCX, whose comms carry device memory; here they are pickled over TCP all the same."""
    from daskglm.engines import cluster

    X, y = make_problem(1000, 8)
    dX, dy = chunked(X, y)
    tree = cluster._tree
    monkeypatch.setattr(cluster, "carries_device_memory", lambda address: True)
    assert tree(["ucx://a", "ucx://b", "ucx://c"]) == {"ucx://a": ["ucx://b", "ucx://c"]}
    asked = []
    monkeypatch.setattr(
        cluster, "_tree", lambda addresses: asked.append(tree(addresses)) or asked[-1]
    )
    model = daskglm.fit(dX, dy, solver="tron", device="cuda", tol=1e-8)
    assert any(len(under) == 1 for tree in asked for under in tree.values())
    assert_optimal(model, X, y, 1e-8)


@pytest.mark.slow
def test_a_cluster_without_gpus_says_so(client):
    X, y = make_problem(200, 3)
    with pytest.raises(RuntimeError, match="no worker has a GPU: device='cuda' needs"):
        daskglm.fit(*chunked(X, y), device="cuda")


@pytest.mark.slow
def test_a_mixed_cluster_says_so_unless_the_cpu_is_asked_for():
    from distributed import Client, Nanny, SpecCluster
    from distributed.scheduler import Scheduler

    X, y = make_problem(400, 3)
    plain = {"cls": Nanny, "options": {"nthreads": 1, "memory_limit": 0}}
    device = {"cls": Nanny, "options": {**plain["options"], "preload": [PRELOAD]}}
    scheduler = {"cls": Scheduler, "options": {"port": 0, "dashboard": False, "host": "127.0.0.1"}}
    with (
        SpecCluster(workers={"cpu": plain, "gpu": device}, scheduler=scheduler) as cluster,
        Client(cluster),
    ):
        with pytest.raises(RuntimeError, match="the cluster is mixed: 1 workers have no GPU"):
            daskglm.fit(*chunked(X, y), device="cuda")
        assert daskglm.fit(*chunked(X, y), device="cpu").report_.converged


@pytest.mark.slow
def test_local_cuda_cluster_of_dask_cuda(monkeypatch):
    """dask-cuda's own switch for tests lets its cluster start without a driver; each worker sees another device."""
    dask_cuda = pytest.importorskip(
        "dask_cuda", reason="dask-cuda is not installed (requirements-cuda.lock)"
    )
    from distributed import Client

    monkeypatch.setenv("DASK_CUDA_TEST_DISABLE_DEVICE_SPECIFIC", "1")
    X, y = make_problem(800, 5)
    with (
        dask_cuda.LocalCUDACluster(
            CUDA_VISIBLE_DEVICES="0,1",
            device_memory_limit=None,
            dashboard_address=None,
            preload=[PRELOAD],
        ) as cluster,
        Client(cluster) as client,
    ):
        seen = client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
        assert sorted(seen.values()) == ["0,1", "1,0"]
        model = daskglm.fit(*chunked(X, y), client=client, device="cuda", tol=1e-8)
        assert model.report_.workers == 2
    assert_optimal(model, X, y, 1e-8)
