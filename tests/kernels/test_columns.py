"""Copies of columns and sums of single columns by the kernels, over runs of rows."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels import columns_csr, cpu, dense, storages
from daskglm.kernels.records import NO_NUMBERS, read_only

cases = st.fixed_dictionaries(
    {
        "n": st.integers(0, 300),
        "d": st.integers(1, 40),
        "density": st.floats(0.0, 1.0),
        "storage": st.sampled_from(["dense", "csr", "pattern"]),
        "dtype": st.sampled_from([np.float32, np.float64]),
        "index": st.sampled_from([np.int32, np.int64]),
        "weighted": st.booleans(),
        "seed": st.integers(0, 99),
    }
)


def rows_of(case):
    """The rows as a dense array, and as kernels take them."""
    rng = np.random.default_rng(case["seed"])
    X = rng.standard_normal((case["n"], case["d"])).astype(case["dtype"])
    if case["storage"] == "dense":
        return X, cpu.for_rows(X)[1]
    X *= rng.random(X.shape) < case["density"]
    if case["storage"] == "pattern":
        X[X != 0.0] = 0.5
    stored = sp.csr_matrix(X)
    value = np.full(1, 0.5, X.dtype)
    data = value if case["storage"] == "pattern" else stored.data
    indices, indptr = (part.astype(case["index"]) for part in (stored.indices, stored.indptr))
    return X, tuple(map(read_only, (data, indices, indptr)))


def runs_of(n, rng):
    cuts = np.sort(np.concatenate([[0, n], rng.integers(0, n + 1, 2)]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(cases)
def test_a_copy_has_these_columns_whatever_runs_it_is_made_in(case):
    X, raw = rows_of(case)
    rng = np.random.default_rng(case["seed"])
    chosen = np.flatnonzero(rng.random(case["d"]) < 0.5)
    copy = storages.columns_copy(raw, case["d"], chosen, pattern=case["storage"] == "pattern")
    runs = runs_of(case["n"], rng)
    for lo, hi in runs:
        copy.count(lo, hi)
    copy.allocate()
    for lo, hi in reversed(runs):
        copy.fill(lo, hi)
    wanted = X[:, chosen]
    if case["storage"] == "dense":
        assert copy.out.dtype == X.dtype
        assert copy.out.flags.c_contiguous
        np.testing.assert_array_equal(copy.out, wanted)
        return
    data, indices, indptr = copy.out
    assert data.dtype == X.dtype
    assert indices.dtype == indptr.dtype == np.int32
    right = sp.csr_matrix(wanted)
    np.testing.assert_array_equal(indptr, right.indptr)
    np.testing.assert_array_equal(indices, right.indices)
    if case["storage"] == "pattern":
        assert data is raw[0]
    else:
        np.testing.assert_array_equal(data, right.data)


def test_indices_are_wide_where_there_are_too_many_for_int32(monkeypatch):
    monkeypatch.setattr(columns_csr, "LARGEST_INT32", 3)
    stored = sp.csr_matrix(np.eye(4))
    copy = storages.columns_copy(cpu.for_rows(stored)[1], 4, np.arange(4), pattern=False)
    copy.count(0, 4)
    copy.allocate()
    copy.fill(0, 4)
    assert copy.out[1].dtype == copy.out[2].dtype == np.int64
    np.testing.assert_array_equal(copy.out[1], np.arange(4))


@settings(max_examples=60, deadline=None)
@given(cases)
def test_moments_are_added_to_what_is_there(case):
    X, raw = rows_of(case)
    rng = np.random.default_rng(case["seed"])
    weight = rng.random(case["n"]) if case["weighted"] else NO_NUMBERS
    sums, squares = np.ones(case["d"] + 1), np.ones(case["d"] + 1)
    for lo, hi in runs_of(case["n"], rng):
        storages.add_moments(raw, read_only(weight), lo, hi, sums, squares)
    s = weight if case["weighted"] else np.ones(case["n"])
    exact = X.astype(np.float64)
    wanted = np.append(s @ exact, s.sum())
    np.testing.assert_allclose(sums, 1.0 + wanted, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(squares[:-1], 1.0 + s @ exact**2, rtol=1e-12)


def test_long_sums_do_not_lose_what_short_ones_keep():
    n = 400 * SUMMED_ROWS
    X = np.full((n, 1), np.float32(0.1))
    sums, squares = np.zeros(2), np.zeros(2)
    dense.add_moments(read_only(X), NO_NUMBERS, 0, n, sums, squares)
    assert sums[1] == n
    np.testing.assert_allclose(sums[0], n * np.float64(np.float32(0.1)), rtol=3e-14)
    np.testing.assert_allclose(squares[0], n * np.float64(np.float32(0.1)) ** 2, rtol=3e-14)
