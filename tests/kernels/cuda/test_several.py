"""Products with several vectors at a time, by tiles, against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.device import gpu
from daskglm.kernels import gram_side


def rows_of(kind, n=130, d=30):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    backend = gpu()
    if kind == "dense":
        return X, backend.for_rows(backend.xp.asarray(X))[1]
    S = sp.csr_matrix(X)
    arrays = [backend.xp.asarray(part) for part in (S.data, S.indices, S.indptr)]
    return X, backend.csr.Rows(*arrays, X.shape, pattern=False)


@pytest.mark.parametrize(("kind", "d"), [("dense", 30), ("sparse", 30), ("sparse", 700)])
def test_products_of_tiles(cupy, kind, d):
    X, rows = rows_of(kind, d=d)
    several, side, ones = gpu().several, gram_side(d), np.ones((len(X), 1))
    A, rng = np.hstack([X, ones]), np.random.default_rng(1)
    assert several.is_wide(rows) == (d > several.DENSE_WIDTH)
    W, R = rng.standard_normal((3, d + 1)), rng.standard_normal((3, len(X)))
    padded = np.zeros((3, side))
    padded[:, : d + 1] = W
    tile = several.tile_of(rows, side)
    assert type(tile).__name__ == ("SparseTile" if d > several.DENSE_WIDTH else "DenseTile")
    np.testing.assert_allclose(tile.margins(cupy.asarray(padded)).get(), W @ A.T, atol=1e-11)
    there = cupy.asarray(R)
    for method, wanted in ((tile.add_products, R @ A), (tile.add_squares, R @ (A * A))):
        out = cupy.ones((3, side))
        method(there, out)
        np.testing.assert_allclose(out.get()[:, : d + 1] - 1.0, wanted, atol=1e-11)
        np.testing.assert_array_equal(out.get()[:, d + 1 :], 1.0)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_grams_with_a_curvature(cupy, kind):
    X, rows = rows_of(kind)
    c, side = np.random.default_rng(1).random(len(X)), gram_side(X.shape[1])
    gram = cupy.zeros((side, side))
    gpu().several.add_curved_gram(rows, cupy.asarray(c), gram, exact=True)
    A = np.hstack([X, np.ones((len(X), 1))])
    size = A.shape[1]
    np.testing.assert_allclose(
        np.triu(gram.get())[:size, :size], np.triu(A.T @ (c[:, None] * A)), atol=1e-11
    )


def test_rows_are_cut_into_tiles(cupy, monkeypatch):
    several = gpu().several
    monkeypatch.setattr(several, "TILE_BYTES", 8 * 100)
    assert list(several.spans(3, 30, 10)) == [(3, 13), (13, 23), (23, 30)]
    assert list(several.spans(0, 2, 1000)) == [(0, 1), (1, 2)]
    X, rows = rows_of("dense")
    cut = list(several.tiles(rows, 5, 130, 2))
    assert [(lo, hi) for lo, hi, _ in cut] == [(5, 55), (55, 105), (105, 130)]
    for lo, hi, part in cut:
        np.testing.assert_array_equal(part.X.get(), X[lo:hi])
