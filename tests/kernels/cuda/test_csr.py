"""CUDA kernels of sparse rows against the CPU's."""

import numpy as np

from daskglm.core.device import gpu
from tests.kernels.cuda.cases import both, close


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
