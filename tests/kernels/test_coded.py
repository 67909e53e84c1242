"""Coded rows against the same rows as CSR: every operation, and sweeps over both."""

import pickle

import numpy as np
import pytest

from daskglm.core.requests import LossRef
from daskglm.kernels import (
    coded,
    coded_csr,
    coded_gram,
    coordinate_ascent,
    csr,
    dense,
    gram_side,
    ordinal,
    storages,
    sweep,
    sweep_thresholds,
)
from daskglm.kernels.records import NO_NUMBERS, NOTHING, read_only
from daskglm.losses.table import law_of
from daskglm.worker.schedule import ALL_ROWS
from tests.kernels import coded_cases

N = 700
CASES = {
    "codes": {},
    "floats": {"k": 3, "dtype": np.float32},
    "doubles": {"k": 40},
    "one column": {"counts": ((6,), (), ()), "ranks": (0,)},
    "numbers alone": {"counts": ((), (), ()), "ranks": (), "k": 3},
}
LAW = law_of(LossRef("logistic"))


@pytest.fixture(params=CASES)
def both(request):
    """Coded rows and CSR ones, as kernels take them, and the number of features."""
    X = coded_cases.coded(N, **CASES[request.param])
    return coded.arrays_of(X), csr.arrays_of(coded_cases.sparse(X)), X.shape[1]


def close(one, other, rtol=1e-11):
    np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-10)


def given(d, rng):
    y = read_only(np.where(rng.random(N) < 0.5, 1.0, -1.0))
    weight = np.where(rng.random(N) < 0.1, 0.0, rng.random(N))
    return y, read_only(weight), read_only(rng.normal(size=N)), rng.normal(size=d) / np.sqrt(d)


def test_rows_are_told_by_their_type_and_pickled():
    X = coded_cases.coded(20, k=2)
    assert storages._known(X)[0] is coded
    assert storages._own(coded.arrays_of(X)) is coded
    assert coded.arrays_of(np.ones((2, 2))) is None
    assert X.shape == (20, 21 + 2)
    assert X.nnz == 20 * (5 + 2)
    assert X.nbytes == 20 * (3 + 2 + 4 + 16)
    again = pickle.loads(pickle.dumps(X))
    assert coded.kind(again) == coded.kind(X)
    close(coded_csr.to_csr(again).toarray(), coded_cases.sparse(X).toarray())
    assert coded_cases.coded(20).dtype == np.float64
    assert coded_cases.coded(20, k=1, dtype=np.float32).dtype == np.float32
    assert coded_cases.coded(20, k=1, dtype=np.float32).astype(float).dtype == np.float64


def test_whole_blocks_are_copied_joined_and_converted(both):
    rows, sparse, d = both
    wanted = csr.matrix_of(sparse, d).toarray()
    found = coded.matrix_of(rows, d)
    assert found.has_sorted_indices
    close(found.toarray(), wanted)
    close(coded.matrix_of(coded.rows_between(rows, 30, 90), d).toarray(), wanted[30:90])
    assert coded.matrix_of(coded.rows_between(rows, 30, 30), d).shape == (0, d)
    assert coded.count_rows(rows) == N
    size = coded.size_of(rows)
    assert size.sparse
    assert size.longest_row >= np.diff(found.indptr).max()


def test_blocks_of_equal_tables_are_joined():
    X, other = coded_cases.coded(20, k=2), coded_cases.coded(20, k=2, seed=1)
    some = storages.take(X, np.array([3, 1, 1]))
    assert storages.kind(some) == storages.kind(X) != storages.kind(other)
    found = coded_csr.to_csr(storages.joined([X, some])).toarray()
    wanted = coded_cases.sparse(X).toarray()
    close(found, np.concatenate([wanted, wanted[[3, 1, 1]]]))


@pytest.mark.parametrize("as_pairs", [True, False])
def test_points_are_evaluated(both, as_pairs):
    rows, sparse, d = both
    y, weight, offset, w = given(d, np.random.default_rng(1))
    found = []
    for X in (rows, sparse):
        z, curvature, sums = np.empty(N), np.empty(N), np.zeros(d + 2)
        diagonal, gram = np.zeros(d + 1), np.zeros((gram_side(d), gram_side(d)))
        out = z, curvature, sums, diagonal, gram
        # few rows at a time are not worth sums by pairs of levels
        step = N if as_pairs else 40
        for lo in range(0, N, step):
            hi = min(lo + step, N)
            sweep.evaluate_exactly(LAW, (X, y, weight, offset), read_only(w), 0.3, lo, hi, out)
        found.append((z, curvature, sums, diagonal, np.triu(gram[: d + 1, : d + 1])))
    for one, other in zip(*found, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", ["floats", "doubles"])
def test_grams_of_float32_numbers_are_as_exact_as_the_facts_say(name):
    X = coded_cases.coded(N, **(CASES[name] | {"dtype": np.float32}))
    d = X.shape[1]
    y, weight, offset, w = given(d, np.random.default_rng(1))
    gram = np.zeros((gram_side(d), gram_side(d)))
    out = np.empty(N), np.empty(N), np.zeros(d + 2), NOTHING, gram
    data = coded.arrays_of(X), y, weight, offset
    sweep.evaluate(LAW, data, read_only(w), 0.3, 0, N, out)
    full = np.column_stack([coded_cases.sparse(X).toarray(), np.ones(N)])
    wanted = np.triu(full.T @ (out[1][:, None] * full))
    roots = np.sqrt(np.diag(wanted))
    error = np.abs(np.triu(gram[: d + 1, : d + 1]) - wanted) / np.maximum(
        np.outer(roots, roots), 1e-300
    )
    assert error.max() < 140 * coded.size_of(data[0]).gram_roundoff


def test_many_pairs_of_levels_are_added_as_sparse_rows():
    X = coded_cases.coded(N, k=2)
    rows = coded.arrays_of(X)
    codes = coded_gram.room(rows, 64, N, True)[1]
    assert codes.shape[1] == 64 + 16
    codes = coded_gram.room(rows, 64, 10, True)[1]
    assert codes.shape[1] == 0


def test_ordered_classes_are_evaluated(both):
    rows, sparse, d = both
    rng = np.random.default_rng(2)
    codes = read_only(rng.integers(0, 3, N).astype(np.int32))
    edges = read_only(ordinal.edges_of(np.array([-0.5, 0.8]), 0))
    _, weight, offset, w = given(d, rng)
    found = []
    for X in (rows, sparse):
        z, sums, slopes, curvatures = np.empty(N), np.zeros(d + 1), np.zeros(4), np.zeros(4)
        gram = np.zeros((gram_side(d), gram_side(d)))
        diagonal, cross = np.zeros(d), np.zeros((4, d))
        out = z, sums, slopes, curvatures, diagonal, gram, cross
        data = X, codes, weight, offset
        sweep_thresholds.evaluate_exactly(data, read_only(w), edges, 0, N, out)
        product, by = np.zeros(d), np.zeros(4)
        v, shifts = read_only(w[::-1].copy()), np.array([0.0, 0.3, -0.2, 0.0])
        sweep_thresholds.hessian_vector(data, z, v, shifts, edges, 0, N, (product, by))
        found.append((*out[:5], np.triu(gram[: d + 1, : d + 1]), cross, product, by))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_products_with_the_hessian(both):
    rows, sparse, d = both
    _, curvature, z, v = given(d, np.random.default_rng(3))
    found = []
    for X in (rows, sparse):
        out, margins = np.zeros(d + 1), np.empty(N)
        total = sweep.hessian_vector(X, curvature, read_only(v), 0.2, 0, N, out)
        sweep.margins(X, read_only(v), 0.2, 0, N, margins)
        found.append((out, total, margins))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_sums_that_are_asked_for_once(both):
    rows, sparse, d = both
    rng = np.random.default_rng(4)
    kinds, codes = rng.integers(-1, 2, N).astype(np.int32), rng.integers(0, 6, N)
    values, centre = rng.normal(size=N), rng.normal(size=d)
    found = []
    for X in (rows, sparse):
        own = storages._own(X)
        sums, squares, more = np.zeros(d + 1), np.zeros(d + 1), np.zeros(2 * d + 1)
        own.add_moments(X, read_only(values**2), 5, N, sums, squares)
        own.add_moments(X, NO_NUMBERS, 0, 5, sums, squares)
        own.spread(X, centre, 7.0, 0, N, more)
        above, below = np.zeros((2, 2, d), np.int64)
        own.count_signs(X, kinds, 1, N, above, below)
        by_code = np.zeros((6, d + 1))
        own.add_by_code(X, values, codes, 2, N, by_code)
        norms = own.squared_norms(X, 0, N)
        found.append((sums, squares, more[:-1], above, below, by_code, norms))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_some_columns(both):
    rows, sparse, d = both
    wanted = csr.matrix_of(sparse, d).toarray()
    for columns in (np.arange(0, d, 3), np.arange(d), np.arange(min(5, d)), np.empty(0, np.int64)):
        copy = storages.columns_copy(rows, d, columns, pattern=False)
        for stage in (copy.count, copy.fill):
            if stage == copy.fill:
                copy.allocate()
            stage(0, 300)
            stage(300, N)
        assert copy.X.shape == (N, len(columns))
        close(coded_csr.to_csr(copy.X).toarray(), wanted[:, columns])


def test_some_columns_share_the_codes():
    X = coded_cases.coded(30, k=2)
    rows = coded.arrays_of(X)
    every = storages.columns_copy(rows, 23, np.arange(1, 23), pattern=False)
    every.allocate()
    assert np.shares_memory(every.X.narrow, X.narrow)
    # the coefficients of the middle column
    some = storages.columns_copy(rows, 23, np.arange(3, 7), pattern=False)
    some.allocate()
    assert some.X.narrow.shape == (30, 0)
    assert np.shares_memory(some.X.middle, X.middle)
    assert len(some.X.tables.indptr) == 30 + 1


def test_coordinate_ascent(both):
    rows, sparse, d = both
    y, _, _, v0 = given(d, np.random.default_rng(5))
    y = read_only(y.astype(np.int8))
    found = []
    for X in (rows, sparse):
        alpha, v, own = np.zeros(N), np.append(v0, 0.1), np.zeros(d + 1)
        dual = alpha, NOTHING, NOTHING, np.empty(0, np.uint8)
        limits, order = (-np.inf, np.inf), (ALL_ROWS, 0, N, 8, 5, 0, -(-N // 8))
        scales = 0.5, 1.0, 0.0, 1.0, 0.01
        coordinate_ascent.sweep(LAW, (X, y, NO_NUMBERS), v, scales, dual, limits, order)
        out = np.empty(N), own, NOTHING
        coordinate_ascent.totals(X, NO_NUMBERS, 0.5, alpha, v, 0, N, out)
        norms = np.empty(N)
        coordinate_ascent.squared_norms(X, 0, N, norms)
        found.append((alpha, v, own, out[0], norms))
    for one, other in zip(*found, strict=True):
        close(one, other, rtol=1e-9)


def test_work_is_cut_and_rows_are_converted_as_those_of_numbers():
    rows = coded.arrays_of(coded_cases.coded(N, k=3, dtype=np.float32))
    assert storages.row_at(rows, 0.5) == dense.row_at(np.ones((N, 1)), 0.5) == 350
    assert storages.row_values(rows) == (np.float32, True)
    ((run, part),) = storages.exact_runs(rows, 100, 300)
    assert run == slice(100, 300)
    assert part[3].dtype == np.float64
    close(coded.matrix_of(part, 24).toarray(), coded.matrix_of(rows, 24).toarray()[100:300])
    assert storages.exact_runs(coded.arrays_of(coded_cases.coded(5)), 0, 5) is None


def test_conversion_of_no_rows():
    X = coded_cases.coded(0, k=3)
    assert coded_csr.to_csr(X).shape == (0, 24)
    assert coded.size_of(coded.arrays_of(X)).nonzeros == 0
    assert storages.with_values(X) is X
