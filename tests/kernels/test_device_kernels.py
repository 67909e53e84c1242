"""CUDA kernels against the CPU's, function by function: here compiled for the CPU, on a machine with a GPU there too."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.device import gpu
from daskglm.kernels import csr as host_csr
from daskglm.kernels import dense as host_dense
from daskglm.kernels import gram_side
from daskglm.kernels import margins as host_margins
from daskglm.losses.smoothed_hinge import smoothed_hinge
from daskglm.losses.table import LOSSES

LAWS = (*(loss.law for loss in LOSSES.values()), smoothed_hinge(0.01).law)
LOGISTIC, SQUARED = LOSSES["logistic"].law, LOSSES["squared"].law
# narrow tiles with one and many rows of the block missing, registers of a warp at each size, two passes
SHAPES = [(300, 1), (600, 28), (257, 63), (1, 63), (100, 64), (60, 300), (20, 1100), (10, 2100)]
TOLERANCE = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-11}


def problem(n, d, dtype, storage, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    if storage != "dense":
        X *= rng.random((n, d)) < 0.2
        X[n // 2] = 0  # an empty row
    if storage == "pattern":
        X[X != 0] = 0.5
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return (
        X,
        y,
        rng.random(n) + 0.1,
        rng.standard_normal(d + 1) / np.sqrt(d),
        rng.standard_normal(d + 1),
    )


def both(X, storage, twin_of_columns):
    """Kernel modules and rows of host and device."""
    backend = gpu()
    if storage == "dense":
        return host_dense, X, backend.dense, backend.for_rows(backend.xp.asarray(X))[1]
    S = sp.csr_matrix(X)
    data = S.data[:1] if storage == "pattern" else S.data
    indices, indptr = S.indices.astype(np.int32), S.indptr.astype(np.int32)
    arrays = [backend.xp.asarray(part) for part in (data, indices, indptr)]
    rows = backend.csr.Rows(*arrays, X.shape, pattern=storage == "pattern")
    if twin_of_columns:
        backend.csr.add_csc_copy(rows)
    return host_csr, (data, indices, indptr), backend.csr, rows


def close(given, wanted, tolerance):
    np.testing.assert_allclose(
        given.get(), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1e-30)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("storage", "columns"),
    [("dense", False), ("sparse", False), ("sparse", True), ("pattern", False), ("pattern", True)],
)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_kernels_agree_with_those_of_the_host(cupy, n, d, storage, columns, dtype):
    X, y, weight, w, v = problem(n, d, dtype, storage)
    host, rows, device, device_rows = both(X, storage, columns)
    backend, side = gpu(), gram_side(d) if d < 400 else 0
    for law in LAWS if d == 28 else (LOGISTIC,):
        exact = law == SQUARED
        tolerance = 1e-11 if exact and dtype == np.float64 else TOLERANCE[np.dtype(dtype)]
        for given_weight in (weight, np.empty(0)) if d in (28, 64) else (weight,):
            z, curvature, sums = np.empty(n), np.empty(n), np.zeros(d + 2)
            diagonal, gram, product = np.zeros(d + 1), np.zeros((side, side)), np.zeros(d + 1)
            host.evaluate(
                law,
                (rows, y, given_weight),
                w[:d],
                w[d],
                0,
                n,
                (z, curvature, sums, diagonal, gram),
            )
            host.hessian_vector(rows, curvature, v[:d], v[d], 0, n, product)
            margins, curvatures = (
                backend.vector(None, device_rows),
                backend.vector(None, device_rows, exact=exact),
            )
            vectors = [
                backend.vector(part, device_rows, exact=exact) if len(part) else part
                for part in (y, given_weight)
            ]
            for wanted in {"diagonal", "gram" if side else "diagonal"}:
                out, D = backend.zeros(d + 2), backend.zeros(d + 1 if wanted == "diagonal" else 0)
                G = backend.zeros(*(side, side) if wanted == "gram" else (0, 0))
                device.evaluate(
                    law,
                    (device_rows, *vectors),
                    cupy.asarray(w),
                    1,
                    0,
                    n,
                    (margins, curvatures, out, D, G),
                )
                close(margins, z, tolerance)
                close(out, sums, tolerance)
                if wanted == "gram":
                    upper = np.triu(gram[: d + 1, : d + 1])
                    np.testing.assert_allclose(
                        np.triu(G.get()[: d + 1, : d + 1]),
                        upper,
                        atol=10 * tolerance * max(np.abs(upper).max(), 1e-30),
                    )
                else:
                    close(D, diagonal, tolerance)
            close(curvatures, curvature, tolerance)
            out = backend.zeros(d + 1)
            device.hessian_vector(device_rows, curvatures, cupy.asarray(v), 1, 0, n, out)
            close(out, product, 10 * tolerance)
            frozen = backend.zeros(d + 1)
            device.hessian_vector(
                device_rows, curvatures, cupy.asarray(v), 1, 0, n, frozen, cupy.zeros(1, np.int32)
            )
            assert not frozen.get().any()


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_products_without_intercept_norms_and_transpose(cupy, storage):
    n, d = 150, 40
    X, y, _, w, _ = problem(n, d, np.float64, storage)
    _, _, device, rows = both(X, storage, False)
    backend = gpu()
    z, r = backend.vector(None, rows), cupy.asarray(y)
    device.margins(rows, cupy.asarray(w[:d]), 0, 0, n, z)
    close(z, X @ w[:d], 1e-12)
    out = backend.zeros(d + 1)
    device.backward(rows, r, 0, n, out)
    close(out, np.append(X.T @ y, y.sum()), 1e-11)
    norms = backend.vector(None, rows)
    largest, total = device.squared_norms(rows, 0, n, norms)
    squares = (X * X).sum(axis=1)
    close(norms, squares, 1e-12)
    np.testing.assert_allclose([largest, total], [squares.max(), squares.sum()], rtol=1e-12)


def test_a_part_of_the_rows(cupy):
    X, y, weight, w, _ = problem(200, 20, np.float64, "dense")
    for storage in ("dense", "sparse"):
        host, host_rows, device, rows = both(X, storage, False)
        backend = gpu()
        z, c, sums = np.zeros(200), np.zeros(200), np.zeros(22)
        host.evaluate(
            LOGISTIC,
            (host_rows, y, weight),
            w[:20],
            w[20],
            37,
            121,
            (z, c, sums, np.empty(0), np.empty((0, 0))),
        )
        out, nothing = backend.zeros(22), np.empty(0)
        margins, curvatures = cupy.zeros(200), cupy.zeros(200)
        device.evaluate(
            LOGISTIC,
            (rows, cupy.asarray(y), cupy.asarray(weight)),
            cupy.asarray(w),
            1,
            37,
            121,
            (margins, curvatures, out, nothing, nothing),
        )
        close(out, sums, 1e-12)
        close(margins, z, 1e-12)
        close(curvatures, c, 1e-12)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_subnormal_floats_count_as_what_they_are(cupy, storage):
    """CuPy's -ftz=true makes 0 of them wherever a kernel computes in float; on the stand-in nothing does."""
    X = np.full((40, 3), 1e-40, np.float32)
    _, _, device, rows = both(X, storage, False)
    z = gpu().vector(None, rows)
    device.margins(rows, cupy.asarray(np.array([1.0, 2.0, 3.0])), 0, 0, 40, z)
    np.testing.assert_allclose(z.get(), X.astype(np.float64) @ [1.0, 2.0, 3.0], rtol=1e-12)


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


def test_a_column_longer_than_a_segment_and_columns_without_entries(cupy):
    backend, n = gpu(), 3000
    X = np.zeros((n, 5))
    X[:, 1] = np.linspace(1, 2, n)
    X[::7, 3] = 1.0
    _, _, device, rows = both(X, "sparse", True)
    assert rows.csc_copy.segments > 5
    r = np.random.default_rng(0).standard_normal(n)
    out = backend.zeros(6)
    device.backward(rows, cupy.asarray(r), 0, n, out)
    close(out, np.append(X.T @ r, r.sum()), 1e-11)


def test_a_code_that_no_cuda_kernel_has_fails(cupy):
    one, backend = cupy.ones(4), gpu()
    with pytest.raises(ValueError, match="no CUDA kernel has a loss of the code 1000"):
        backend.margins.losses((1000, 0.0, 0.0, 0), one, None, one, one.copy(), None)
