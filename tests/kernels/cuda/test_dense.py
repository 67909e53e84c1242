"""CUDA kernels against the CPU's, function by function: here compiled for the CPU, on a machine with a GPU there too."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels.records import read_only
from daskglm.losses.table import LOSSES
from tests.covering import covering
from tests.kernels.cuda.cases import (
    BOTH_DTYPES,
    LOGISTIC,
    NONE,
    OF_EACH_KIND,
    SHAPES,
    agree,
    both,
    close,
    problem,
    targets,
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
