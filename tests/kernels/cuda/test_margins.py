"""CUDA kernels of margins against the CPU's."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import margins as host_margins
from tests.kernels.cuda.cases import LAWS


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_combinations_of_margins(cupy, law, k):
    rng = np.random.default_rng(1)
    n, many = 1000, 4
    y, weight = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.random(n)
    Z, coefficients = [rng.standard_normal(n) for _ in range(k)], rng.standard_normal((many, k + 1))
    backend = gpu()
    for s in (weight, np.empty(0)):
        shapes = ((many,), (many, k + 1), (many, k + 1, k + 1))
        wanted, found = [np.zeros(shape) for shape in shapes], [np.zeros(shape) for shape in shapes]
        host_margins.along(law, y, s, tuple(Z), coefficients, 0, n, tuple(wanted))
        on_device = [cupy.asarray(part) for part in Z]
        backend.margins.along(
            law,
            cupy.asarray(y),
            cupy.asarray(s) if len(s) else s,
            on_device,
            coefficients,
            0,
            n,
            tuple(found),
        )
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_losses_at_extreme_margins(cupy, law):
    from daskglm.losses.dispatch import tile

    z = np.array(
        [-1e3, 1e3, 0.0, 800.0, -800.0, 1e150, -1e150, 1.0, np.nextafter(1.0, 2), 37.0, -37.0]
    )
    backend = gpu()
    for label in (-1.0, 1.0):
        y, slope, curvature = np.full_like(z, label), np.empty_like(z), np.empty_like(z)
        total = tile(law, y, z, np.empty(0), slope, curvature)
        s, c, value = cupy.zeros(len(z)), cupy.zeros(len(z)), cupy.zeros(1)
        backend.margins.losses(law, cupy.asarray(y), np.empty(0), cupy.asarray(z), s, c, value)
        np.testing.assert_allclose(s.get(), slope, rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(c.get(), curvature, rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(float(value[0]), total, rtol=1e-12)
        z[0] = np.nan
        backend.margins.losses(law, cupy.asarray(y), np.empty(0), cupy.asarray(z), s, c, value)
        assert np.isnan(float(value[0]))
        z[0] = -1e3


def test_a_code_that_no_cuda_kernel_has_fails(cupy):
    one, backend = cupy.ones(4), gpu()
    with pytest.raises(ValueError, match="no CUDA kernel has a loss of the code 1000"):
        backend.margins.losses((1000, 0.0, 0.0, 0), one, None, one, one.copy(), None)
