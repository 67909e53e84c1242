"""CUDA kernels against the CPU's, function by function: here compiled for the CPU, on a machine with a GPU there too."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.kernels.records import read_only
from daskglm.losses.table import LOSSES, law_of
from tests.covering import covering
from tests.kernels.cuda.cases import (
    BOTH_DTYPES,
    LOGISTIC,
    NONE,
    OF_EACH_KIND,
    SHAPES,
    TOLERANCE,
    both,
    close,
    problem,
    targets,
    within,
)


@covering(
    1,
    shape=SHAPES,
    storage=["dense", "sparse", "sparse columns", "pattern", "pattern columns"],
    dtype=["float32", "float64"],
)
def test_kernels_agree_with_those_of_the_host(cupy, shape, storage, dtype):
    (n, d), (storage, _, columns) = shape, storage.partition(" ")
    X, _, weight, w, v = problem(n, d, dtype, storage)
    kernels = both(X, storage, bool(columns))
    y, offset = targets(LOSSES["logistic"], n), np.random.default_rng(1).standard_normal(n)
    beside = [(weight, NONE), (NONE, offset)] if d in (28, 64) else [(weight, offset)]
    for given in beside:
        agree(cupy, kernels, LOSSES["logistic"], (y, *given), w, v)


@pytest.mark.parametrize("loss", OF_EACH_KIND)
@pytest.mark.parametrize("storage", ["dense", pytest.param("sparse", marks=pytest.mark.nightly)])
def test_all_losses_agree_with_those_of_the_host(cupy, loss, storage):
    n, offset = 300, np.random.default_rng(1).standard_normal(300)
    for dtype in [np.float64, np.float32] if loss.name in BOTH_DTYPES else [np.float64]:
        X, _, weight, w, v = problem(n, 28, dtype, storage)
        kernels, y = both(X, storage, True), targets(loss, n)
        for given in ((weight, NONE), (weight, offset)):
            agree(cupy, kernels, loss, (y, *given), w, v)


def agree(cupy, kernels, loss, vectors, w, v):
    """Compare all that kernels make at a point, and a product there; `vectors` are y, weight and offset."""
    host, rows, device, device_rows = kernels
    backend, (n, d) = gpu(), (len(vectors[0]), len(w) - 1)
    law, side, exact = law_of(loss.ref), gram_side(d) if d < 400 else 0, not loss.classifies
    factor, constant = within(loss)
    if constant is not None:
        w = np.append(factor * w[:-1], constant)
        vectors = (*vectors[:2], factor * vectors[2])
    single = backend.vector_dtype(device_rows) == np.float32
    # of sums that are made of float64 numbers only, and of what is made of curvatures in the rows' dtype
    tolerance = 3e-6 if single and not exact else 1e-11
    rough = TOLERANCE[np.dtype(np.float32 if single else np.float64)]
    z, curvature, sums = np.empty(n), np.empty(n), np.zeros(d + 2)
    diagonal, gram, product = np.zeros(d + 1), np.zeros((side, side)), np.zeros(d + 1)
    out = z, curvature, sums, diagonal, gram
    host.evaluate(law, (rows, *map(read_only, vectors)), w[:d], w[d], 0, n, out)
    host.hessian_vector(rows, curvature, v[:d], v[d], 0, n, product)
    margins = backend.vector(None, device_rows)
    curvatures = backend.vector(None, device_rows, exact=exact)
    there = [
        backend.vector(part, device_rows, exact=exact) if part.size else part
        for part in vectors[:2]
    ]
    there += [backend.vector(vectors[2], device_rows) if vectors[2].size else vectors[2]]
    for wanted in {"diagonal", "gram" if side else "diagonal"}:
        found, D = backend.zeros(d + 2), backend.zeros(d + 1 if wanted == "diagonal" else 0)
        G = backend.zeros(*(side, side) if wanted == "gram" else (0, 0))
        out = margins, curvatures, found, D, G
        device.evaluate(law, (device_rows, *there), cupy.asarray(w), 1, 0, n, out)
        close(margins, z, tolerance)  # without the offset
        close(found, sums, tolerance)
        if wanted == "gram":
            upper = np.triu(gram[: d + 1, : d + 1])
            near = 10 * rough * max(np.abs(upper).max(), 1e-30)
            np.testing.assert_allclose(np.triu(G.get()[: d + 1, : d + 1]), upper, atol=near)
        else:
            close(D, diagonal, tolerance)
    close(curvatures, curvature, tolerance)
    found = backend.zeros(d + 1)
    device.hessian_vector(device_rows, curvatures, cupy.asarray(v), 1, 0, n, found)
    close(found, product, 10 * rough)
    frozen, flag = backend.zeros(d + 1), cupy.zeros(1, np.int32)
    device.hessian_vector(device_rows, curvatures, cupy.asarray(v), 1, 0, n, frozen, flag)
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
    offset = np.linspace(-1.0, 1.0, 200)
    for storage in ("dense", "sparse"):
        host, host_rows, device, rows = both(X, storage, False)
        backend = gpu()
        z, c, sums = np.zeros(200), np.zeros(200), np.zeros(22)
        host.evaluate(
            LOGISTIC,
            (host_rows, *map(read_only, (y, weight, offset))),
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
            (rows, *map(cupy.asarray, (y, weight, offset))),
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
