"""Grams of coded rows by sums of pairs of levels on a device, against NumPy."""

import math

import numpy as np
import pytest

from daskglm.certificates.hessian_factor import FEW, UNIT
from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.kernels.coded_rows import Coded, Tables
from tests.kernels import coded_cases
from tests.kernels.cuda.cases import both_coded

# numbers of levels of narrow, middle and wide code columns. Columns of 12 and 30 levels are bases of
# 4 coefficients, a level of others has none. A block has shared memory for 12,288 sums.
COUNTS = {
    "one factor": ((5,), (), ()),
    "one basis": ((), (30,), ()),
    "all kinds": ((5, 4, 12), (30,), (7,)),
    "nine factors": ((10, 6, 12, 4, 9, 15), (30, 8), (5,)),
    "more pairs than fit": ((200,), (90, 12), ()),
}


@pytest.fixture
def always(monkeypatch, cupy):
    """Sums of pairs of levels, whatever dense rows would take."""
    monkeypatch.setattr(gpu().coded.coded_gram, "ADDITION", 0)


def case(counts, k=0, dtype="float64", n=300, seed=0):
    flat = [count for part in COUNTS[counts] for count in part]
    ranks = np.random.default_rng(seed).permutation(len(flat)).tolist()
    return coded_cases.coded(n, k, dtype, seed, COUNTS[counts], ranks=ranks)


def gram_of(cupy, rows, c, exact=True):
    """What is added to an upper triangle of ones, which is given back without them."""
    side = gram_side(rows.d)
    ones = np.triu(np.ones((side, side)))
    gram = cupy.asarray(ones)
    rows.add_gram(cupy.asarray(c), gram, exact=exact)
    return gram.get() - ones


def wanted(X, c):
    A = np.hstack([coded_cases.sparse(X).toarray(), np.ones((len(X.dense), 1))])
    gram, side = np.triu(A.T @ (c[:, None] * A)), gram_side(X.shape[1])
    return np.pad(gram, (0, side - len(gram)))


def close(found, right):
    np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12 * np.abs(right).max())


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize(
    ("k", "dtype", "of_curvature"),
    [(0, "float64", "float64"), (0, "float64", "float32"), (3, "float32", "float32"),
     (2, "float32", "float64"), (1, "float64", "float64")],
)  # fmt: skip
def test_sums_of_pairs_are_the_gram(cupy, always, counts, k, dtype, of_curvature):
    X = case(counts, k, dtype)
    rng = np.random.default_rng(1)
    c = (rng.random(300) * (rng.random(300) < 0.8)).astype(of_curvature)
    close(gram_of(cupy, both_coded(X)[3], c), wanted(X, c.astype(float)))


@pytest.mark.parametrize(("block_bytes", "groups"), [(96 << 10, 8), (4 << 10, 19), (200, 9)])
def test_many_rows_in_several_groups_and_blocks(cupy, always, monkeypatch, block_bytes, groups):
    """Several runs of rows for each block, of which the last is not full, and rows that are alike."""
    kernels = gpu().coded.coded_gram
    monkeypatch.setattr(kernels, "BLOCK_BYTES", block_bytes)
    X = case("nine factors", 1, n=20_011)
    X.narrow[5_000:, 0] = X.narrow[5_000:, 1] = 2
    X.narrow[9_000:14_000] = X.narrow[9_000]
    rows = both_coded(X)[3]
    plan = rows.tables.plan(1)
    assert plan.shared <= block_bytes
    assert len(plan.ends) == groups
    far = plan.tasks[plan.tasks[:, 6] == 0]
    assert not far[:, 5].any()
    # with 25 sums a block has no room for a column of 30 levels, nor for most pairs
    assert (len(far) > 0, bool((far[:, 3] < 0).any())) == ((block_bytes == 200,) * 2)
    c = np.random.default_rng(2).random(20_011)
    for _ in range(2):  # the second finds the workspace used
        close(gram_of(cupy, rows, c), wanted(X, c))


def test_parts_of_rows_and_none(cupy, always):
    X = case("all kinds", 3)
    rows, c = both_coded(X)[3], np.random.default_rng(3).random(300)
    close(gram_of(cupy, rows.part(37, 121), c[37:121]), wanted(X[37:121], c[37:121]))
    assert not gram_of(cupy, rows.part(20, 20), c[:0]).any()


def test_some_of_the_columns_and_coefficients_of_no_level(cupy, always):
    X = case("nine factors", 2)
    rows, c = both_coded(X)[3], np.random.default_rng(4).random(300)
    A = np.hstack([coded_cases.sparse(X).toarray(), np.ones((300, 1))])
    columns = np.sort(np.random.default_rng(5).permutation(rows.d)[:17])
    B = A[:, np.append(columns, rows.d)]
    found = gram_of(cupy, rows.take_columns(columns), c)
    close(found[: B.shape[1], : B.shape[1]], np.triu(B.T @ (c[:, None] * B)))
    # the first and the last coefficient, and one between, that no level has
    t = X.tables
    columns = np.array([1, 2, *range(4, t.width + 2)])[t.columns]
    wider = Coded(*X.parts, Tables(t.first, t.indptr, columns, t.values, t.ranks, t.width + 3))
    close(gram_of(cupy, both_coded(wider)[3], c), wanted(wider, c))


def test_interactions_are_pairs_of_levels_with_coefficients_of_their_own(cupy, always):
    """A column with a level for each pair of two others, of which some levels have no coefficient."""
    X = case("all kinds", 1)
    rng, t = np.random.default_rng(6), X.tables
    both = (X.narrow[:, 0] * 4 + X.narrow[:, 1])[:, None].astype(np.uint32)
    given = rng.random(20) < 0.8
    tables = Tables(
        np.append(t.first, len(t.indptr) - 1),
        np.append(t.indptr, t.indptr[-1] + np.cumsum(given)),
        np.append(t.columns, t.width + np.arange(given.sum())),
        np.append(t.values, np.ones(given.sum())),
        np.append(t.ranks, len(t.ranks)),
        t.width + int(given.sum()),
    )
    crossed = Coded(X.narrow, X.middle, np.hstack([X.wide, both]), X.dense, tables)
    c = rng.random(300)
    close(gram_of(cupy, both_coded(crossed)[3], c), wanted(crossed, c))


def test_streamed_rows_and_classes_add_up_pairs_too(cupy, always):
    X = case("all kinds", 2)
    backend, raw, upload = gpu(), both_coded(X)[1], gpu().Upload()
    rows = backend.move(raw, X.shape, 0.3, X.nbytes // 5, upload)
    upload.finish()
    c, side = np.random.default_rng(7).random(300), gram_side(X.shape[1])
    gram = cupy.zeros((side, side))
    for lo, hi, part in backend.several.tiles(rows, 0, 300, side):
        backend.several.add_curved_gram(part, cupy.asarray(c[lo:hi]), gram, exact=False)
    close(gram.get(), wanted(X, c))


@pytest.mark.parametrize("counts", ["one factor", "nine factors"])
def test_sums_are_within_the_bound_that_certificates_count(cupy, always, counts):
    """As many additions as there are rows, in any order, of terms of any size."""
    n, rng = 2000, np.random.default_rng(8)
    X = case(counts, 2, n=n)
    c = rng.random(n) * 10.0 ** rng.uniform(-8.0, 8.0, n)
    A = np.hstack([coded_cases.sparse(X).toarray(), np.ones((n, 1))]).astype(np.longdouble)
    size, found = A.shape[1], gram_of(cupy, both_coded(X)[3], c)
    ones = 2.0 * UNIT * (1.0 + np.abs(found[:size, :size]))  # that `gram_of` adds and takes off
    error = np.abs(found[:size, :size] - np.triu(A.T @ (c[:, None] * A)))
    assert error.any()
    assert (error <= (n + FEW) * UNIT * (np.abs(A).T @ (c[:, None] * np.abs(A))) + ones).all()


def test_the_way_with_less_work_is_taken(cupy, monkeypatch):
    kernels = gpu().coded.coded_gram
    monkeypatch.setattr(kernels, "processors", lambda: 132)

    def pays(counts, k, rows=1_000_000):
        levels, p = sum(counts), len(counts)
        first = np.append(0, np.cumsum(counts)[:-1])
        each = np.arange(levels + 1)
        tables = Tables(first, each, each[:-1], np.ones(levels), np.arange(p), levels)
        return kernels.Plan(tables, k).pays(rows, gram_side(levels + k))

    nine = (100, 60, 50, 40, 25, 15, 12, 8, 5)
    assert pays(nine, 0)
    assert pays(nine, 10)
    assert pays((3000, 2000), 0)
    assert pays((2,) * 30, 0)  # whose products are one block's, for which others wait
    assert not pays((2,) * 100, 0)
    assert not pays(nine, 100)  # numbers
    assert not pays((3, 2), 100)
    assert not pays(nine, 0, rows=50)  # fewer rows than the sums they would make
    assert not pays(nine, 0, rows=0)


def test_sums_take_no_more_memory_than_they_may(cupy, monkeypatch):
    """A factor of many levels and few coefficients, as of a spline, beside another one."""
    kernels = gpu().coded.coded_gram
    monkeypatch.setattr(kernels, "processors", lambda: 132)
    plan = kernels.Plan(case("more pairs than fit").tables, 0)
    held = 8 * (plan.sums + plan.levels * plan.width)
    for least, fits in ((held, True), (held - 1, False)):
        monkeypatch.setattr(kernels, "LEAST_BYTES", least)
        assert plan.pays(1_000_000, 8) is fits
        assert plan.pays(1_000_000, math.ceil(held**0.5))
