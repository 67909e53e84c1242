"""Rows are divided among threads by work: each row once, in order, in runs of about equal work."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.data.blocks import to_block
from daskglm.data.values import Place
from daskglm.worker.pieces import INLINE_WORK, divide


def block(n, d, sparse):
    X = np.random.default_rng(n).normal(size=(n, d))
    if sparse:
        # the last rows are the longest
        X[: n // 2, 1:] = 0.0
        X = sp.csr_matrix(X)
    return to_block(X, np.zeros(n), place=Place(), classify=False)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_each_row_is_in_one_piece(sparse, threads):
    blocks = [block(n, 40, sparse) for n in (9000, 1, 30, 4000)]
    parts = divide(blocks, threads)
    assert len(parts) == threads
    rows = [(i, k) for part in parts for i, lo, hi in part for k in range(lo, hi)]
    assert rows == [(i, k) for i, each in enumerate(blocks) for k in range(len(each.y))]

    def work(i, lo, hi):
        X = blocks[i].X[lo:hi]
        return (X.nnz if sparse else X.size) + hi - lo

    of_parts = [sum(work(*piece) for piece in part) for part in parts]
    assert max(of_parts) - min(of_parts) <= 2 * 41


def test_little_work_stays_with_one_thread():
    few = block(INLINE_WORK // 100, 40, False)
    assert divide([few], 4) == [[(0, 0, len(few.y))]]


def test_threads_get_about_equal_work_of_skewed_sparse_rows():
    X = sp.vstack(
        [
            sp.csr_matrix(np.ones((20, 1000))),
            sp.random(4000, 1000, 0.005, format="csr", random_state=0),
        ]
    )
    block = to_block(X, np.arange(4020) % 2, place=Place(), classify=True)
    parts = divide([block], 4)
    work = [
        sum(block.X.indptr[hi] - block.X.indptr[lo] + hi - lo for _, lo, hi in part)
        for part in parts
    ]
    assert max(work) < 1.2 * min(work) + 2000
    assert [lo for part in parts for _, lo, _ in part][1:] == [
        hi for part in parts for _, _, hi in part
    ][:-1]
