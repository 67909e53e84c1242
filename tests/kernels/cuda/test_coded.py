"""CUDA kernels of coded rows against NumPy, and the CPU's of coded rows."""

import numpy as np
import pytest

from daskglm.certificates.hessian_factor import FEW, UNIT
from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.losses.table import LOSSES
from tests.kernels import coded_cases
from tests.kernels.cuda.cases import (
    BOTH_DTYPES,
    NONE,
    OF_EACH_KIND,
    agree,
    both_coded,
    close,
    targets,
)

# numbers of levels of narrow, middle and wide code columns: of all kinds, of one, of none; more than
# a block adds up in shared memory with a diagonal, and without
COUNTS = {
    "all kinds": ((5, 4, 12), (30,), (7,)),
    "narrow": ((5, 4, 12, 2, 2, 2, 2, 2, 9), (), ()),
    "middle": ((), (300, 3), ()),
    "wide": ((), (), (70, 5)),
    "many": ((6,), (3000,), (5000,)),
    "no codes": ((), (), ()),
}


def case(counts, k, dtype="float64", n=300, seed=0):
    """Rows, of which no column has a level in all of them, and vectors."""
    flat = [count for part in COUNTS[counts] for count in part]
    X = coded_cases.coded(n, k, dtype, seed, COUNTS[counts], ranks=list(range(len(flat)))[::-1])
    rng, d = np.random.default_rng(seed), X.shape[1]
    weight = rng.random(n) * (rng.random(n) < 0.8)
    return X, weight, rng.standard_normal(d + 1) / np.sqrt(d), rng.standard_normal(d + 1)


@pytest.mark.parametrize(
    ("counts", "k", "dtype"),
    [
        ("all kinds", 3, "float64"),
        ("all kinds", 3, "float32"),
        ("all kinds", 0, "float32"),
        ("narrow", 70, "float32"),
        ("middle", 0, "float64"),
        ("wide", 1, "float64"),
        ("many", 2, "float64"),
        ("no codes", 4, "float32"),
    ],
)
def test_kernels_agree_with_those_of_the_host(cupy, counts, k, dtype):
    X, weight, w, v = case(counts, k, dtype)
    y, offset = targets(LOSSES["logistic"], 300), np.random.default_rng(1).standard_normal(300)
    kernels = both_coded(X)
    for given in ((weight, NONE), (NONE, offset), (weight, offset)):
        agree(cupy, kernels, LOSSES["logistic"], (y, *given), w, v)


@pytest.mark.parametrize("loss", OF_EACH_KIND)
def test_all_losses_agree_with_those_of_the_host(cupy, loss):
    offset = np.random.default_rng(1).standard_normal(300)
    for dtype in ("float64", "float32") if loss.name in BOTH_DTYPES else ("float64",):
        X, weight, w, v = case("all kinds", 2, dtype)
        for given in ((weight, NONE), (weight, offset)):
            agree(cupy, both_coded(X), loss, (targets(loss, 300), *given), w, v)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("k", [0, 3])
def test_products_are_those_of_the_matrix(cupy, counts, k):
    if counts == "no codes" and not k:
        return
    X, weight, w, _ = case(counts, k)
    A, n, d = coded_cases.sparse(X).toarray(), *X.shape
    _, _, device, rows = both_coded(X)
    backend = gpu()
    assert (rows.n, rows.d, rows.nbytes) == (n, d, X.nbytes)
    z = backend.vector(None, rows)
    device.margins(rows, cupy.asarray(w[:d]), 0, 0, n, z)
    close(z, A @ w[:d], 1e-12)
    device.margins(rows, cupy.asarray(w), 1, 0, n, z)
    close(z, A @ w[:d] + w[d], 1e-12)
    norms = backend.vector(None, rows)
    largest, total = device.squared_norms(rows, 0, n, norms)
    squares = (A * A).sum(axis=1)
    close(norms, squares, 1e-12)
    np.testing.assert_allclose([largest, total], [squares.max(), squares.sum()], rtol=1e-12)
    sums, moments = backend.zeros(d + 1), backend.zeros(d + 1)
    device.add_moments(rows, cupy.asarray(weight), 0, n, sums, moments)
    close(sums, np.append(A.T @ weight, weight.sum()), 1e-12)
    close(moments[:d], (A * A).T @ weight, 1e-12)
    out = backend.zeros(d + 1)
    device.backward(rows, cupy.asarray(w[:1] * weight), 0, n, out)
    close(out, w[0] * sums.get(), 1e-12)
    stored = np.append((A[:, : d - k] != 0.0).sum(axis=0), np.full(k, n))
    np.testing.assert_array_equal(rows.column_counts(), stored)


@pytest.mark.parametrize("copies", [True, False])
def test_a_level_of_every_row_is_added_up_by_several_blocks(cupy, monkeypatch, copies):
    """Of factors of two levels, and of one that no row has but its last level."""
    if not copies:
        monkeypatch.setattr(gpu().coded, "NEAR_BYTES", 0)
    X = coded_cases.coded(5000, 0, counts=((2, 2, 200), (), ()))
    X.narrow[:, 0], X.narrow[:, 2] = 0, 199
    A, r = coded_cases.sparse(X), np.random.default_rng(2).standard_normal(5000)
    _, _, device, rows = both_coded(X)
    out = gpu().zeros(X.shape[1] + 1)
    device.backward(rows, cupy.asarray(r), 0, 5000, out)
    close(out, np.append(A.T @ r, r.sum()), 1e-11)


def test_parts_rows_and_columns(cupy):
    X, _, w, _ = case("all kinds", 3)
    A, backend = coded_cases.sparse(X).toarray(), gpu()
    _, _, device, rows = both_coded(X)
    z = backend.vector(None, rows)
    z.fill(0.0)
    device.margins(rows, cupy.asarray(w), 1, 37, 121, z)
    wanted = A @ w[:-1] + w[-1]
    wanted[:37] = wanted[121:] = 0.0
    close(z, wanted, 1e-12)
    chosen = np.array([5, 3, 3, 290])
    some = backend.take(rows, chosen)
    z = backend.vector(None, some)
    device.margins(some, cupy.asarray(w[:-1]), 0, 0, 4, z)
    close(z, A[chosen] @ w[:-1], 1e-12)
    d, rng = X.shape[1], np.random.default_rng(4)
    of_numbers = np.arange(d - 3, d)
    for columns in (np.sort(rng.permutation(d)[:9]), of_numbers, np.arange(4), np.array([d - 1])):
        taken = backend.take_columns(rows, columns)
        assert taken.d == len(columns)
        z = backend.vector(None, taken)
        device.margins(taken, cupy.asarray(w[columns]), 0, 0, 300, z)
        close(z, A[:, columns] @ w[columns], 1e-12)
        assert taken.nbytes <= rows.nbytes


@pytest.mark.parametrize("counts", ["all kinds", "many"])
def test_products_of_tiles(cupy, counts):
    """With several vectors at a time: made dense where there are few features, else one by one."""
    X, _, _, _ = case(counts, 2, n=130)
    _, _, _, rows = both_coded(X)
    several, side, d = gpu().several, gram_side(X.shape[1]), X.shape[1]
    A = np.hstack([coded_cases.sparse(X).toarray(), np.ones((130, 1))])
    rng = np.random.default_rng(1)
    W, R = np.zeros((3, side)), rng.standard_normal((3, 130))
    W[:, : d + 1] = rng.standard_normal((3, d + 1))
    assert several.is_wide(rows) == (counts == "many")
    tile = several.tile_of(rows, side)
    close(tile.margins(cupy.asarray(W)), W[:, : d + 1] @ A.T, 1e-11)
    for method, wanted in ((tile.add_products, R @ A), (tile.add_squares, R @ (A * A))):
        out = cupy.zeros((3, side))
        method(cupy.asarray(R), out)
        close(out[:, : d + 1], wanted, 1e-11)


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize(("counts", "k"), [("all kinds", 3), ("narrow", 0), ("no codes", 2)])
def test_streamed_rows_come_by_their_codes(cupy, counts, k, share):
    X, weight, w, _ = case(counts, k)
    backend, raw, upload = gpu(), both_coded(X)[1], gpu().Upload()
    rows = backend.move(raw, X.shape, share, X.nbytes // 5, upload)
    upload.finish()
    assert isinstance(rows, backend.streamed.Rows)
    assert len(rows.cuts) > 3
    assert rows.dtype == both_coded(X)[3].dtype
    A, n, d = coded_cases.sparse(X).toarray(), *X.shape
    device, z, out = backend.for_rows(rows)[0], backend.vector(None, rows), backend.zeros(d + 1)
    device.margins(rows, cupy.asarray(w), 1, 0, n, z)
    close(z, A @ w[:d] + w[d], 1e-12)
    device.backward(rows, cupy.asarray(weight), 0, n, out)
    close(out, np.append(A.T @ weight, weight.sum()), 1e-12)
    assert rows.bytes_copied < 2 * X.nbytes + 1
    np.testing.assert_array_equal(rows.column_counts(), both_coded(X)[3].column_counts())


def test_blocks_of_an_upload_have_one_copy_of_their_tables(cupy):
    X, upload = coded_cases.coded(40, 1), gpu().Upload()
    raws = [both_coded(part)[1] for part in (X[:20], X[20:])]
    a, b = (gpu().move(raw, (20, X.shape[1]), 1.0, 0, upload) for raw in raws)
    assert a.tables is b.tables


@pytest.mark.parametrize("counts", ["narrow", "many"])
def test_sums_are_within_the_bound_that_certificates_count(cupy, counts):
    """As many additions as there are rows, in any order, of terms of any size."""
    X, _, _, _ = case(counts, 3, n=2000)
    rng = np.random.default_rng(5)
    r = rng.standard_normal(2000) * 10.0 ** rng.uniform(-8.0, 8.0, 2000)
    _, _, device, rows = both_coded(X)
    out = gpu().zeros(X.shape[1] + 1)
    device.backward(rows, cupy.asarray(r), 0, 2000, out)
    A = coded_cases.sparse(X).toarray().astype(np.longdouble)
    error = np.abs(out.get()[:-1] - A.T @ r)
    assert error.any()
    assert (error <= (2000 + FEW) * UNIT * (np.abs(A).T @ np.abs(r))).all()
