"""Grams of coded rows whose columns are merged, against those of the same rows as numbers."""

import numpy as np
import pytest

from daskglm.core.requests import LossRef
from daskglm.kernels import coded, coded_gram, gram_side, sweep
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.table import law_of
from tests.kernels import coded_cases

N = 40_000
# in another order than their coefficients, with bases, and columns that are alone
CASES = {
    "some merged": {"counts": ((40, 5, 12, 4, 3), (30,), (150,)), "ranks": (2, 0, 6, 3, 1, 4, 5)},
    "numbers beside": {"k": 3},
    "one group": {"counts": ((5, 4), (), ()), "ranks": (1, 0)},
    "many of two levels": {"counts": ((2,) * 20, (), ()), "ranks": tuple(range(20))},
}


def groups_of(X, rows):
    """The sizes of the groups that so many rows are worth."""
    (_, groups), *_ = coded_gram.room(coded.arrays_of(X), 64, rows, True)
    return list(groups[2])


@pytest.mark.parametrize("case", CASES)
def test_merged_columns_have_the_same_gram(case):
    X = coded_cases.coded(N, **CASES[case])
    d, rng = X.shape[1], np.random.default_rng(1)
    assert len(groups_of(X, N)) < len(X.tables.first)
    y = read_only(np.where(rng.random(N) < 0.5, 1.0, -1.0))
    weight = read_only(np.where(rng.random(N) < 0.1, 0.0, rng.random(N)))
    w = read_only(rng.normal(size=d) / np.sqrt(d))
    curvature, gram = np.empty(N), np.zeros((gram_side(d), gram_side(d)))
    out = NOTHING, curvature, np.zeros(d + 2), NOTHING, gram
    sweep.evaluate_exactly(
        law_of(LossRef("logistic")), (coded.arrays_of(X), y, weight, NOTHING), w, 0.3, 0, N, out
    )
    full = np.column_stack([coded_cases.sparse(X).toarray(), np.ones(N)])
    wanted = np.triu(full.T @ (curvature[:, None] * full))
    np.testing.assert_allclose(np.triu(gram[: d + 1, : d + 1]), wanted, rtol=1e-11, atol=1e-10)


def test_columns_are_merged_as_rows_are_worth_it():
    X = coded_cases.coded(10, counts=((100, 60, 50, 40, 25, 15, 12, 8, 5), (), ()), ranks=None)
    alone = [100, 60, 50, 40, 25, 15, 12, 8, 5]
    assert groups_of(X, 10) == groups_of(X, 2000) == alone
    assert groups_of(X, 600_000) == [100, 60, 50, 40, 125, 120, 12]
    # sums by pairs of groups would not stay in a cache
    X = coded_cases.coded(10, counts=((5, 4, 9, 9), (1500,), ()), ranks=None)
    assert max(groups_of(X, 10**9)[:-1]) <= 64
