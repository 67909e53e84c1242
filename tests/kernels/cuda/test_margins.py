"""CUDA kernels of margins against the CPU's."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import margins as host_margins
from daskglm.losses.table import LOSSES, law_of
from tests.kernels.cuda.cases import NONE, OF_EACH_KIND, targets, within


@pytest.mark.parametrize("loss", OF_EACH_KIND)
@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=pytest.mark.nightly) for k in (1, 3))])
def test_combinations_of_margins(cupy, loss, k):
    rng = np.random.default_rng(1)
    n, many, law = 1000, 4, law_of(loss.ref)
    y, weight, offset = targets(loss, n), rng.random(n), rng.standard_normal(n)
    Z, coefficients = [rng.standard_normal(n) for _ in range(k)], rng.standard_normal((many, k + 1))
    factor, constant = within(loss)
    coefficients *= factor
    if constant is not None:
        # margins of several combinations are larger
        coefficients[:, k] = constant * (1.0 if factor < 1.0 else 3.0)
        offset *= factor
    backend = gpu()
    for beside in ((weight, NONE), (NONE, NONE), (NONE, offset)):
        shapes = ((many,), (many, k + 1), (many, k + 1, k + 1))
        wanted, found = [np.zeros(shape) for shape in shapes], [np.zeros(shape) for shape in shapes]
        host_margins.along(law, y, *beside, tuple(Z), coefficients, 0, n, tuple(wanted))
        on_device = [cupy.asarray(part) for part in Z]
        there = [cupy.asarray(part) if len(part) else part for part in beside]
        backend.margins.along(
            law, cupy.asarray(y), *there, on_device, coefficients, 0, n, tuple(found)
        )
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9 + 1e-12 * np.abs(b).max())


@pytest.mark.parametrize("loss", OF_EACH_KIND)
def test_curvatures_at_kept_margins(cupy, loss):
    rng, n, law = np.random.default_rng(2), 500, law_of(loss.ref)
    y, weight, offset, z = targets(loss, n), rng.random(n), rng.standard_normal(n), rng.random(n)
    factor, constant = within(loss)
    offset, z = factor * offset + (constant or 0.0), factor * z
    for beside in ((weight, offset), (NONE, offset), (weight, NONE)):
        wanted, found = np.zeros(n), cupy.zeros(n)
        host_margins.curvatures(law, y, *beside, z, 37, 450, wanted)
        there = [cupy.asarray(part) if len(part) else part for part in beside]
        gpu().margins.curvatures(law, cupy.asarray(y), *there, cupy.asarray(z), 37, 450, found)
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-12)


@pytest.mark.parametrize("loss", OF_EACH_KIND)
def test_losses_at_extreme_margins(cupy, loss):
    from daskglm.losses.dispatch import tile

    law = law_of(loss.ref)
    z = np.array(
        [-1e3, 1e3, 0.0, 800.0, -800.0, 1e150, -1e150, 1.0, np.nextafter(1.0, 2), 37.0, -37.0]
    )
    z = np.append(z, [4.0, -4.0, 4.5, -4.5, 1e-3, -1e-9, 20.0, -20.0, 6.6, 708.0])
    backend = gpu()
    for target in np.unique(targets(loss, 8)):
        y, slope, curvature = np.full_like(z, target), np.empty_like(z), np.empty_like(z)
        s, c, value = cupy.zeros(len(z)), cupy.zeros(len(z)), cupy.zeros(1)
        there = cupy.asarray(y)
        # one after the other where values are infinite or NaN, so that each is compared
        for one in [slice(k, k + 1) for k in range(len(z))] if loss.family else [slice(None)]:
            total = tile(law, y[one], z[one], NONE, slope[one], curvature[one])
            value.fill(0)
            found = s[one], c[one], value
            backend.margins.losses(law, there[one], NONE, NONE, cupy.asarray(z[one]), *found)
            np.testing.assert_allclose(
                float(value[0]), total, rtol=1e-12, atol=1e-14, err_msg=f"{target} {z[one]}"
            )
        # the CPU's compiler may reorder sums, as in (1 - y) - p
        near = 1e-300 if loss.has_dual else 1e-15
        np.testing.assert_allclose(s.get(), slope, rtol=1e-13, atol=near)
        np.testing.assert_allclose(c.get(), curvature, rtol=1e-13, atol=1e-300)
        z[0] = np.nan
        backend.margins.losses(law, there, NONE, NONE, cupy.asarray(z), s, c, value)
        assert not np.isfinite(float(value[0]))
        z[0] = -1e3


def test_an_offset_is_added_to_the_margin(cupy):
    law, backend = law_of(LOSSES["logistic"].ref), gpu()
    y, z, offset = np.array([1.0, -1.0]), np.array([0.5, 2.0]), np.array([-3.0, 0.25])
    value = cupy.zeros(1)
    args = (cupy.asarray(y), NONE, cupy.asarray(offset), cupy.asarray(z), None, None, value)
    backend.margins.losses(law, *args)
    wanted = np.logaddexp(0.0, -y * (z + offset)).sum()
    np.testing.assert_allclose(float(value[0]), wanted, rtol=1e-14)


def test_a_code_that_no_cuda_kernel_has_fails(cupy):
    one, backend = cupy.ones(4), gpu()
    with pytest.raises(ValueError, match="no CUDA kernel has a loss of the code 1000"):
        backend.margins.losses((1000, 0.0, 0.0, 0), one, None, None, one, one.copy(), None)
