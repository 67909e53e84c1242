"""Memory of the device: what is free, what rows there already take, pools of RMM, and who may write to what when."""

import logging
import sys
import types

import numpy as np
import pytest

import daskglm
from daskglm.core.device import gpu
from daskglm.data.blocks import Place, to_block
from daskglm.engines import worker_session as sessions
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.conftest import make_problem


@pytest.fixture
def stand_in(cupy):
    if not hasattr(cupy.cuda, "allocators"):
        pytest.skip("only with the stand-in, whose free memory a test can set")
    before = list(cupy.cuda.allocators)
    yield cupy
    cupy.cuda.allocators[:] = before


def blocks_of(*parts):
    return [
        to_block(X, y, place=Place(partition=i), classify=True) for i, (X, y) in enumerate(parts)
    ]


# ---- rows on the device are counted once
def test_rows_on_the_device_are_not_taken_off_what_is_free(stand_in, monkeypatch):
    """Rows on the device are larger than what is free, and host rows beside them fit."""
    there, away = (
        make_problem(3000, 10, dtype=np.float32),
        make_problem(300, 10, dtype=np.float32, seed=1),
    )
    vectors, free = 24 * 3300, 120_000
    assert there[0].nbytes > 0.9 * free > vectors + away[0].nbytes
    monkeypatch.setattr(stand_in.cuda.runtime, "memGetInfo", lambda: (free, 1 << 30))
    shard = Shard(
        blocks_of((stand_in.asarray(there[0]), there[1]), away), 1, where=DeviceConfig("cuda")
    )
    assert [type(block.X) for block in shard.blocks] == [gpu().dense.Rows] * 2
    with pytest.raises(
        MemoryError, match="raise device_memory_limit"
    ):  # of a limit they do take their part
        Shard(
            blocks_of((stand_in.asarray(there[0]), there[1]), away),
            1,
            where=DeviceConfig("cuda", free),
        )


def test_sparse_rows_on_the_device_get_their_columns_where_these_fit(stand_in, monkeypatch):
    from cupyx.scipy.sparse import csr_matrix

    X, y = make_problem(2000, 10, sparse=True, dtype=np.float32)
    rows = csr_matrix(X)
    nbytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    for spare, made in (
        (3.5, True),
        (2.5, False),
    ):  # a copy by columns takes three times the rows while it is made
        free = int((24 * 2000 + spare * nbytes) / 0.9)
        monkeypatch.setattr(stand_in.cuda.runtime, "memGetInfo", lambda free=free: (free, 1 << 30))
        placed = Shard(blocks_of((rows, y)), 1).blocks[0].X
        assert (placed.csc_copy is not None) is made


# ---- RMM
class Resource:
    """What RMM's resources have in common; those with an upstream are adaptors."""

    def __init__(self, upstream=None, *, size=0, given=0, most=0):
        self.upstream, self.size, self.given, self.most = upstream, size, given, most


class Upstream(Resource):
    def get_upstream(self):
        return self.upstream


class Pool(Upstream):
    def pool_size(self):
        return self.size


class Counting(Upstream):
    @property
    def allocation_counts(self):
        return types.SimpleNamespace(current_bytes=self.given)


class Tracking(Upstream):
    def get_allocated_bytes(self):
        return self.given


class Limiting(Tracking):
    def get_allocation_limit(self):
        return self.most


class Device(Resource):
    pass


class Asynchronous(Resource):
    pass


@pytest.fixture
def use_rmm(stand_in, monkeypatch):
    """Let a resource be RMM's current one, with names and methods as RMM 26.08 has them, and let the backend see it."""

    def use(resource):
        rmm = types.ModuleType("rmm")
        rmm.mr = types.SimpleNamespace(
            CudaMemoryResource=Device,
            ManagedMemoryResource=type("Managed", (Resource,), {}),
            PoolMemoryResource=Pool,
            UpstreamResourceAdaptor=Upstream,
            StatisticsResourceAdaptor=Counting,
            TrackingResourceAdaptor=Tracking,
            LimitingResourceAdaptor=Limiting,
            get_current_device_resource=lambda: resource,
        )
        bridge = types.ModuleType("rmm.allocators.cupy")
        bridge.rmm_cupy_allocator = object()
        for name, module in (
            ("rmm", rmm),
            ("rmm.allocators", types.ModuleType("rmm.allocators")),
            ("rmm.allocators.cupy", bridge),
        ):
            monkeypatch.setitem(sys.modules, name, module)
        backend = gpu()  # adopts it, too, where nothing has used a device before
        stand_in.cuda.allocators.clear()
        backend.adopt_rmm.__globals__["adopt_rmm"]()
        return bridge.rmm_cupy_allocator

    monkeypatch.setattr(stand_in.cuda.runtime, "memGetInfo", lambda: (1000, 1 << 30))
    return use


@pytest.mark.parametrize(("resource", "adopted"), [(Device(), False), (Pool(Device()), True)])
def test_memory_is_taken_from_rmm_where_it_has_a_pool(stand_in, use_rmm, resource, adopted):
    allocator = use_rmm(resource)
    assert stand_in.cuda.allocators == ([allocator] if adopted else [])


@pytest.mark.parametrize(
    ("resource", "free"),
    [
        (Device(), 1000),
        (Tracking(Device(), given=77), 1000),
        (Counting(Pool(Device(), size=5000), given=2000), 3000),
        (Tracking(Pool(Device(), size=5000), given=4999), 1),
        (Limiting(Counting(Pool(Device(), size=5000), given=2000), given=2000, most=4000), 2000),
        (Limiting(Asynchronous(), given=100, most=900), 800),
        (Limiting(Device(), given=900, most=100), 0),
        (Pool(Device(), size=5000), None),
        (Asynchronous(), None),
    ],
)
def test_what_is_free_under_rmm(use_rmm, resource, free):
    use_rmm(resource)
    assert gpu().available(None) == (None if free is None else int(0.9 * free))
    assert gpu().available(123) == 123


def test_rmm_that_does_not_tell_what_is_free_wants_a_limit(stand_in, use_rmm):
    X, y = make_problem(300, 4, dtype=np.float32)
    use_rmm(Pool(Device(), size=5000))
    with pytest.raises(
        ValueError, match=r"device_memory_limit=None.*4,800 bytes of rows: give device_memory_limit"
    ):
        daskglm.fit(X, y, device="cuda")
    best = daskglm.fit(X, y).report_.objective
    for rows, limit in (
        (X, "1MB"),
        (stand_in.asarray(X), None),
    ):  # rows that are there already need no room
        found = daskglm.fit(rows, y, device="cuda", device_memory_limit=limit).report_
        np.testing.assert_allclose(found.objective, best, rtol=1e-5)


# ---- order of streams
@pytest.mark.parametrize("eager", ["0", "1"])
def test_the_first_copy_of_streamed_rows_waits_for_the_current_stream(stand_in, monkeypatch, eager):
    """Its buffers may be memory that work enqueued before still writes to."""
    monkeypatch.setenv("TWIN_EAGER", eager)
    X = np.ones((100, 3), np.float32)
    done = []
    with stand_in.cuda.Stream(non_blocking=True) as stream:
        stream.enqueue(lambda: done.append("before"))
        rows = gpu().streamed.Rows(X, X.shape, None, X.nbytes // 4)
        next(rows.chunks())
        rows.copies.synchronize()
        assert done == ["before"]


def test_sums_that_stay_on_the_device_are_there_for_other_threads(stand_in):
    """As with a default stream for each thread: what one thread enqueued must be done before others read it."""
    with stand_in.cuda.Stream(non_blocking=True) as stream:
        done = []

        class OfOneSum:
            def answer(self, problem, request, view):
                stream.enqueue(lambda: done.append("sum"))
                return {"sums": stand_in.empty(3), "rows": 5}

        sessions._answer_on_device(OfOneSum(), None, None, None)
        assert done == ["sum"]


# ---- spilling of dask-cuda
@pytest.mark.parametrize("spills", [True, False])
@pytest.mark.parametrize("where", ["device", "host"])
def test_a_worker_that_would_spill_rows_in_use_says_so(stand_in, caplog, spills, where):
    X, y = make_problem(50, 3)
    (block,) = blocks_of((stand_in.asarray(X) if where == "device" else X, y))
    data = {"a": block}

    class Data(dict):
        device_buffer = types.SimpleNamespace(fast={}) if spills else {}

    worker = types.SimpleNamespace(data=Data(data), address="tcp://here:1")
    with caplog.at_level(logging.WARNING, "daskglm"):
        sessions._warn_of_spilling([block], worker)
    assert ("tcp://here:1" in caplog.text and "device_memory_limit=0" in caplog.text) is (
        spills and where == "device"
    )


def test_dask_cuda_spills_as_is_looked_for(tmp_path):
    """A host file with a limit on the device has a buffer with a fast part; without one, a dict."""
    device_host_file = pytest.importorskip(
        "dask_cuda.device_host_file", reason="dask-cuda is not installed"
    )
    for limit, spills in ((1000, True), (None, False)):
        data = device_host_file.DeviceHostFile(
            worker_local_directory=str(tmp_path / str(limit)),
            device_memory_limit=limit,
            memory_limit=1000,
        )
        assert hasattr(data.device_buffer, "fast") is spills
