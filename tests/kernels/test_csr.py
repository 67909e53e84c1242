"""Sparse rows: types of indices, and arrays that cannot be written."""

import numpy as np
import scipy.sparse as sp

from daskglm.core.requests import Evaluate, LossRef, Problem
from daskglm.core.summation import MOMENT
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.kernels import csr
from tests.conftest import make_problem
from tests.losses.formulas import reference


def test_wide_index_types_and_read_only_arrays():
    X, y = make_problem(50, 6, sparse=True)
    wide = sp.csr_matrix(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )
    frozen, _ = make_problem(50, 6)
    frozen.setflags(write=False)
    for rows in (wide, frozen):
        engine = Local([to_block(rows, y, place=Place(), classify=True)])
        got = engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.ones(6), 1))
        value, slope, _ = reference("logistic", y, rows @ np.ones(6))
        np.testing.assert_allclose(got["value"], value.sum())
        np.testing.assert_allclose(got["gradient"], rows.T @ slope, atol=1e-12)


def test_rows_are_added_by_code():
    X, values = make_problem(50, 6, sparse=True)
    codes = np.arange(50) % 3
    pattern = sp.csr_matrix((np.full(X.nnz, 0.5), X.indices, X.indptr), shape=X.shape)
    for rows, data in ((X, X.data), (pattern, pattern.data[:1])):
        out = np.ones((4, 7))
        csr.add_by_code((data, X.indices, X.indptr), values, codes, 2, 50, out)
        of = np.eye(4)[codes[2:]].T @ (
            values[2:, None] * np.hstack([rows.toarray(), np.ones((50, 1))])[2:]
        )
        np.testing.assert_allclose(out, 1.0 + of, rtol=1e-13)


def told_distance(row, places, centre, scale):
    """The square that the kernel tells of one row, over that of the scale."""
    X = np.array(row), np.array(places, np.int32), np.array([0, len(places)])
    sums = np.zeros(2 * len(centre) + 1)
    csr.spread(X, centre, scale, 0, 1, sums)
    return sums[-1] ** (2.0 / MOMENT)


def test_distances_that_cancel_are_no_less_than_the_truth():
    rng = np.random.default_rng(0)
    for _ in range(20):
        centre = rng.standard_normal(20)
        row, scale = centre * (1.0 + 1e-9 * rng.standard_normal(20)), 2.0 * np.linalg.norm(centre)
        truth = (((row - centre) / scale) ** 2).sum()  # such differences are exact
        assert truth <= told_distance(row, range(20), centre, scale) <= truth + 1e-12


def test_many_small_entries_of_the_centre_count_where_a_row_has_none():
    centre = np.full(100_000, 7e-9)
    centre[0] = 1.0
    truth = 99_999 * 3.5e-9**2
    assert truth <= told_distance([1.0, 1.0], [0], centre, 2.0) <= truth + 1e-14
