"""CUDA kernels of dual ascent against the CPU's."""

import numpy as np
import pytest

ORDER = """
extern "C" __global__ void order(long long count, long long key, long long* out) {
  for (long long i = threadIdx.x; i < count; i += blockDim.x) out[i] = place_of(i, count, key);
}
"""


@pytest.mark.parametrize("count", [1, 2, 3, 100, 1000])
def test_random_orders_are_those_of_the_host(cupy, count):
    from daskglm.kernels.coordinate_ascent import place_of
    from daskglm.kernels.cuda.launch import source

    bits = max(1, (count - 1).bit_length())
    options = ("--std=c++17", "-DREAL=double", "-DVECTOR=double", "-DINDEX=int")
    kernel = cupy.RawModule(code=source("dual") + ORDER, options=options).get_function("order")
    for key in (0, 12345, (1 << 62) - 1):
        out = cupy.zeros(count, np.int64)
        kernel((1,), (64,), (np.int64(count), np.int64(key), out))
        host = [place_of(i, count, (1 << bits) - 1, (bits + 1) // 2, key) for i in range(count)]
        assert out.get().tolist() == host
        assert sorted(host) == list(range(count))
