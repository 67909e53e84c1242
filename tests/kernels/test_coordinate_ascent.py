"""Sweeps of coordinate ascent over sparse rows, of any length, that meet a long shared vector."""

import numpy as np
import pytest

from daskglm.core.requests import LossRef
from daskglm.kernels import coordinate_ascent, csr
from daskglm.kernels.coordinate_ascent import SHARED_CACHED
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.losses.table import law_of
from daskglm.worker.schedule import ALL_ROWS

LAW = law_of(LossRef("logistic"))
N, USED = 203, 40
EVERY = -np.inf, np.inf
# columns in use lie far apart, so that vectors are longer than a cache
FAR = 1 + 7_001 * np.arange(USED)
WIDTH = int(FAR[-1]) + 2


@pytest.fixture(params=["pattern", "values"])
def rows(request):
    """The same rows with all columns, and with those in use alone; some rows are empty."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 11, N)
    places = [np.sort(rng.choice(USED, count, replace=False)) for count in counts]
    columns = np.concatenate(places)
    data = rng.standard_normal(1 if request.param == "pattern" else len(columns))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    assert len(columns) > 1
    assert WIDTH > SHARED_CACHED
    return [
        tuple(read_only(part) for part in (data, of.astype(np.int32), indptr))
        for of in (FAR[columns], columns)
    ]


def dense_of(X, width):
    data, indices, indptr = X
    out = np.zeros((len(indptr) - 1, width))
    for i in range(len(out)):
        run = slice(indptr[i], indptr[i + 1])
        out[i, indices[run]] = data[0] if len(data) == 1 else data[run]
    return out


def swept(X, v, bucket, parts, shrink=False, weight=NO_NUMBERS, listed=ALL_ROWS):
    """Dual variables, shared vector and margins met after the places of the order, part by part."""
    alpha, seen = np.zeros(N), np.zeros(N)
    asleep = np.zeros(N if shrink else 0, np.uint8)
    y = read_only(np.where(np.arange(N) % 3 == 0, 1, -1).astype(np.int8))
    v, scales = v.copy(), (0.7, 1.0, 0.1, 1.0, None)
    rows = len(listed) or N
    buckets = -(-rows // bucket)
    for begin, end in parts(buckets):
        dual = alpha, NO_NUMBERS, seen, asleep
        order = listed, 0, rows, bucket, 11, begin, end
        coordinate_ascent.sweep(LAW, (X, y, weight), v, scales, dual, EVERY, order)
    return alpha, v, seen


@pytest.mark.parametrize("bucket", [1, 3, 8, 500])
def test_an_epoch_is_the_same_wherever_columns_lie(rows, bucket):
    v = np.random.default_rng(4).standard_normal(USED + 1)
    wide = np.zeros(WIDTH + 1)
    wide[np.append(FAR, WIDTH)] = v
    weight = read_only(np.where(np.arange(N) % 5 == 0, 0.0, 1.5))
    for shrink in (False, True):
        far, near = (
            swept(X, start, bucket, lambda buckets: [(0, buckets)], shrink, weight)
            for X, start in zip(rows, (wide, v), strict=True)
        )
        np.testing.assert_array_equal(far[0], near[0])
        np.testing.assert_array_equal(far[1][np.append(FAR, WIDTH)], near[1])
        np.testing.assert_array_equal(far[2], near[2])
        others = np.delete(far[1], np.append(FAR, WIDTH))
        assert not others.any()
        assert np.count_nonzero(near[0]) > N / 2


@pytest.mark.parametrize("bucket", [1, 8])
def test_an_epoch_may_be_cut_anywhere(rows, bucket):
    X, v = rows[1], np.zeros(USED + 1)
    whole = swept(X, v, bucket, lambda buckets: [(0, buckets)])
    cut = swept(X, v, bucket, lambda buckets: [(0, 0), (0, 1), (1, 4), (4, 4), (4, buckets)])
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(
        whole[1], 0.7 * np.append(dense_of(X, USED).T @ whole[0], whole[0].sum()), atol=1e-12
    )


@pytest.mark.parametrize("bucket", [1, 8])
def test_rows_that_are_not_listed_are_left_alone(rows, bucket):
    X, v = rows[1], np.zeros(USED + 1)
    listed = np.flatnonzero(np.arange(N) % 7 < 3)
    alpha, moved, seen = swept(X, v, bucket, lambda buckets: [(0, buckets)], listed=listed)
    assert np.flatnonzero(alpha).tolist() == np.flatnonzero(seen).tolist() == listed.tolist()
    changed = 0.7 * np.append(dense_of(X, USED).T @ alpha, alpha.sum())
    np.testing.assert_allclose(moved, changed, atol=1e-12)
    every = swept(X, v, bucket, lambda buckets: [(0, buckets)], listed=np.arange(N))
    same = swept(X, v, bucket, lambda buckets: [(0, buckets)])
    for one, other in zip(every, same, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_rows_are_swept():
    X = tuple(map(read_only, (np.empty(0), np.empty(0, np.int32), np.zeros(1, np.int32))))
    none, v = np.empty(0), np.ones(5)
    dual, order = (none, none, none, np.empty(0, np.uint8)), (ALL_ROWS, 0, 0, 8, 5, 0, 0)
    found = coordinate_ascent.sweep(
        LAW, (X, none, none), v, (1.0, 0.0, 0.0, 1.0, None), dual, EVERY, order
    )
    assert found == (np.inf, -np.inf)
    np.testing.assert_array_equal(v, 1.0)


def test_sums_and_margins_are_those_of_dense_rows(rows):
    rng = np.random.default_rng(5)
    alpha, weight = rng.standard_normal(N), rng.random(N)
    for X, width in zip(rows, (WIDTH, USED), strict=True):
        dense, v = dense_of(X, width), rng.standard_normal(width + 1)
        z, own, side = np.empty(N), np.zeros(width + 1), np.zeros(width + 1)
        out = z, own, side
        coordinate_ascent.totals(X, read_only(weight), 0.4, alpha, v, 0, 100, out)
        coordinate_ascent.totals(X, read_only(weight), 0.4, alpha, v, 100, N, out)
        changes = 0.4 * weight * alpha
        np.testing.assert_allclose(z, dense @ v[:-1], rtol=1e-12, atol=1e-12)
        for sums, of in ((own, changes), (side, np.maximum(changes, 0.0))):
            np.testing.assert_allclose(sums, np.append(dense.T @ of, of.sum()), atol=1e-12)


def test_margins_and_gradients_are_those_of_dense_rows(rows):
    rng = np.random.default_rng(6)
    slope = np.where(rng.random(N) < 0.2, 0.0, rng.standard_normal(N))
    for X, width in zip(rows, (WIDTH, USED), strict=True):
        dense, w = dense_of(X, width), rng.standard_normal(width)
        z, out = np.empty(N - 20), np.zeros(width + 2)
        csr.forward(X, w, 0.3, 20, N, z, 0)
        csr.backward(X, slope[20:], 20, N - 20, out, 0)
        np.testing.assert_allclose(z, dense[20:] @ w + 0.3, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(out[:-2], dense[20:].T @ slope[20:], atol=1e-12)
