"""Grams by blocks of coded rows against those of all entries."""

import numpy as np
import pytest

from daskglm.core.requests import LossRef
from daskglm.kernels import coded, coded_block, storages, sweep
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.table import law_of
from tests.kernels import coded_cases

N = 500
LAW = law_of(LossRef("logistic"))
CASES = {
    "codes": {},
    "floats": {"k": 3, "dtype": np.float32},
    "doubles": {"k": 40},
    "one column": {"counts": ((6,), (), ()), "ranks": (0,)},
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_are_those_of_the_whole_gram(case):
    X = coded_cases.coded(N, **CASES[case])
    rows, d, rng = coded.arrays_of(X), X.shape[1], np.random.default_rng(1)
    y = read_only(np.where(rng.random(N) < 0.5, 1.0, -1.0))
    weight = read_only(np.where(rng.random(N) < 0.1, 0.0, rng.random(N)))
    w = read_only(rng.normal(size=d) / np.sqrt(d))
    full = np.column_stack([coded_cases.sparse(X).toarray(), np.ones(N)])
    factors = coded.size_of(rows).factors
    # bases are no factors, and one of the levels may have no coefficient
    assert len(factors) == (1 if case == "one column" else 3)
    for block in factors:
        m = block[1] - block[0]
        q, curvature, sums = d - m + 1, np.empty(N), np.zeros(d + 2)
        gram = np.zeros((q + m, q))
        for lo, hi in ((0, 100), (100, N)):
            own = coded_block.eliminating(rows, block)
            part = storages.rows_between(own, lo, hi)
            assert storages.count_rows(part) == hi - lo
            data = own, y, weight, NOTHING
            out = NOTHING, curvature, sums, NOTHING, gram
            sweep.evaluate_exactly(LAW, data, w, 0.3, lo, hi, out)
        whole = full.T @ (curvature[:, None] * full)
        levels = np.arange(*block)
        others = np.setdiff1d(np.arange(d + 1), levels)
        wanted = whole[np.ix_(others, others)]
        np.testing.assert_allclose(np.triu(gram[:q]), np.triu(wanted), rtol=1e-11, atol=1e-11)
        cross = whole[np.ix_(levels, others)]
        np.testing.assert_allclose(gram[q:], cross, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(gram[q:, -1], whole.diagonal()[levels], rtol=1e-11)


def test_only_factors_are_eliminated():
    X = coded_cases.coded(30, k=2)
    rows = coded.arrays_of(X)
    with pytest.raises(ValueError, match="not those of a column of codes"):
        coded_block.eliminating(rows, (1, 3))
    with pytest.raises(ValueError, match="only rows of codes"):
        coded_block.eliminating(np.ones((3, 2)), (0, 1))
    assert coded_block.arrays_of(X) is None
