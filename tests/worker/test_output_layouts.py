"""Layouts of W for the softmax: what kernels sum in each is the same, brought back."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import for_rows
from daskglm.kernels.records import read_only
from daskglm.losses.multinomial import Softmax
from daskglm.worker.output_layouts import InColumns, OnDevice, OnHost, Stored
from tests.kernels.softmax_case import draw, sums


def test_coefficients_come_back_as_they_were_laid_out(cupy):
    rng = np.random.default_rng(0)
    for layout in (InColumns(5, 3), Stored(5, 3), OnDevice(5, 3, gpu())):
        for size in (5, 6):
            W = rng.standard_normal((3, size))
            there = layout.laid_out(W)
            assert there.shape == layout.shape
            there = there.get() if isinstance(layout, OnDevice) else there
            np.testing.assert_array_equal(layout.result(there, size), W)
            if size == 5:  # the intercepts are zero
                np.testing.assert_array_equal(layout.result(there, 6)[:, 5], 0.0)


@pytest.mark.parametrize("kind", ["columns", "stored", "device"])
def test_each_layout_adds_up_the_same(cupy, kind):
    X, codes, weight, W, V = draw(200, 20, 4, kind="csr")
    wanted, n = sums(X, codes, weight, W, V), len(codes)
    if kind == "device":
        backend = gpu()
        layout, zeros = OnDevice(20, 4, backend), backend.zeros
        S = [backend.xp.asarray(part) for part in (X.data, X.indices, X.indptr)]
        rows = backend.csr.Rows(*S, X.shape, pattern=False)
        codes, weight = cupy.asarray(codes), cupy.asarray(weight)
    else:
        layout = OnHost((InColumns if kind == "columns" else Stored)(20, 4), Softmax(0.0))
        # of the types that kernels are compiled for
        codes, weight = codes.astype(np.int32), read_only(weight)
        rows, zeros = for_rows(X)[1], lambda *shape: np.zeros(shape)
    there, margins = layout.laid_out(W), zeros(4, n)
    total, value, product = zeros(*layout.shape), zeros(1), zeros(*layout.shape)
    out = margins, total, value, zeros(0, layout.width), zeros(0, 0, 0)
    rows = rows, codes, weight, np.empty((0, 0))
    of = np.empty((4, 0)), np.empty((2, 0), int), False
    layout.evaluate(rows, there, of, 0, n, out)
    layout.hessian_vector(rows, margins, layout.laid_out(V), 0, n, product)
    again = zeros(4, n)
    layout.margins(rows, there, 0, n, again)
    found = total, product, value, margins, again
    if kind == "device":
        found = tuple(part.get() for part in found)
    np.testing.assert_allclose(layout.result(found[0], 21), wanted["gradient"], atol=1e-11)
    np.testing.assert_allclose(layout.result(found[1], 21), wanted["product"], atol=1e-11)
    assert found[2][0] == pytest.approx(wanted["value"], rel=1e-13)
    for part in found[3:]:
        np.testing.assert_allclose(part, wanted["margins"], atol=1e-12)
