"""CUDA kernels against the CPU's, function by function: here compiled for the CPU, on a machine with a GPU there too."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.losses.table import LOSSES, law_of
from tests.kernels.cuda.cases import LAWS, SHAPES, TOLERANCE, both, close, problem

LOGISTIC, SQUARED = law_of(LOSSES["logistic"].ref), law_of(LOSSES["squared"].ref)


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
