"""CUDA kernels of dual ascent against the CPU's."""

from types import SimpleNamespace

import numpy as np
import pytest

from daskglm.core.requests import DualStateRef, DualValue
from daskglm.losses import conjugates
from daskglm.losses.table import find, law_of

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


@pytest.mark.parametrize("loss", ["quantile(0.3)", "poisson"])
def test_dual_values_have_positive_and_negative_variables_scaled(cupy, loss):
    from daskglm.kernels.cuda.dual import OnDevice

    rng = np.random.default_rng(0)
    law, n = law_of(find(loss).ref), 300
    y, a, weight = rng.uniform(0.5, 2.0, n), rng.uniform(-0.3, 0.3, n), rng.random(n)
    scaled = np.where(a > 0.0, 0.9, 0.4) * a
    state = DualStateRef(0, None, (1.0, 0.0), None, 1.0)
    dual = SimpleNamespace(alpha=cupy.asarray(a))
    cache = SimpleNamespace(y=cupy.asarray(y), weight=cupy.asarray(weight), dual=dual)
    found = OnDevice([], 1).value(law, DualValue(state, 0.9, 0.4), [cache])
    y.flags.writeable = weight.flags.writeable = False  # as kernels are compiled for
    wanted = conjugates.conjugates(law, y, scaled, weight)
    assert found["value"] == pytest.approx(wanted, rel=1e-12)
