"""The stand-in for CuPy catches what it is there to catch."""

import numpy as np
import pytest

REVERSE = """
extern "C" __global__ void reverse(const double* x, double* out, int n) {
  __shared__ double held[256];
  held[threadIdx.x] = x[threadIdx.x];
  BARRIER
  out[threadIdx.x] = held[n - 1 - threadIdx.x];
}
"""
LATE = """
extern "C" __global__ void late(const double* x, double* out) {
  __shared__ double held[64];
  twin::copy_async(held + threadIdx.x, x + threadIdx.x, 8);
  twin::commit();
  WAIT
  __syncthreads();
  out[threadIdx.x] = held[63 - threadIdx.x];
}
"""


@pytest.fixture
def stand_in(cupy):
    if not hasattr(cupy.ndarray, "allocate"):
        pytest.skip("only of the stand-in")
    return cupy


def launched(cupy, source, name, threads, *args):
    cupy.RawModule(code=source).get_function(name)((1,), (threads,), args)


@pytest.mark.parametrize(("barrier", "right"), [("__syncthreads();", True), ("", False)])
def test_a_missing_barrier_gives_a_wrong_result(stand_in, barrier, right):
    x, out = stand_in.arange(256.0), stand_in.empty(256)
    launched(stand_in, REVERSE.replace("BARRIER", barrier), "reverse", 256, x, out, np.int32(256))
    assert (out.get() == np.arange(256.0)[::-1]).all() == right


@pytest.mark.parametrize(
    ("wait", "right"), [("twin::wait_but(0);", True), ("twin::wait_but(1);", False), ("", False)]
)
def test_an_asynchronous_copy_is_not_there_before_it_is_waited_for(stand_in, wait, right):
    x, out = stand_in.arange(1.0, 65.0), stand_in.empty(64)
    launched(stand_in, LATE.replace("WAIT", wait), "late", 64, x, out)
    assert (out.get() == np.arange(1.0, 65.0)[::-1]).all() == right


def test_a_write_outside_an_array_is_found(stand_in):
    source = 'extern "C" __global__ void out_of(double* x, int n) { x[n] = 1.0; }'
    launched(stand_in, source, "out_of", 1, stand_in.empty(4), np.int32(3))
    with pytest.raises(AssertionError, match="outside"):
        launched(stand_in, source, "out_of", 1, stand_in.empty(4), np.int32(4))


def test_wrong_arguments_and_host_arrays_are_refused(stand_in):
    source = 'extern "C" __global__ void f(const float* x, int n) {}'
    good = stand_in.zeros(3, np.float32), np.int32(3)
    launched(stand_in, source, "f", 1, *good)
    for args in (
        (good[0],),
        (good[0], 3),
        (good[0], np.int64(3)),
        (stand_in.zeros(3), good[1]),
        (np.zeros(3, np.float32), good[1]),
        (stand_in.zeros((3, 3), np.float32).T, good[1]),
    ):
        with pytest.raises(TypeError):
            launched(stand_in, source, "f", 1, *args)
    with pytest.raises(TypeError):
        stand_in.zeros(3) + np.ones(3)
    with pytest.raises(TypeError):
        np.asarray(stand_in.zeros(3))
    assert np.isnan(stand_in.empty(3).get()).all()


def test_work_on_streams_comes_late(stand_in):
    stream, x, host = stand_in.cuda.Stream(non_blocking=True), stand_in.zeros(3), np.ones(3)
    x.set(host, stream=stream)
    event = stream.record()
    assert not x.get().any()
    host[:] = 2.0  # reused too early: the copy takes what is there when it is made
    event.synchronize()
    assert (x.get() == 2.0).all()


def test_a_capture_takes_launches_only_and_runs_none(stand_in):
    source = 'extern "C" __global__ void add(double* x) { x[0] += 1.0; }'
    x, stream = stand_in.zeros(1), stand_in.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        launched(stand_in, source, "add", 1, x)
        with pytest.raises(RuntimeError, match="captured"):
            stand_in.sqrt(x)
        graph = stream.end_capture()
        stream.synchronize()
        assert x._a[0] == 0.0
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
    assert x._a[0] == 3.0
