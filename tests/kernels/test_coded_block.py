"""Grams by blocks of coded rows against those of all entries."""

import itertools

import numpy as np
import pytest

from daskglm.core.block_hessian import BlockHessian
from daskglm.core.level_blocks import LevelBlocks, PairKeys
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
    "of each width": {"k": 2, "counts": ((9,), (300, 12), (400,)), "ranks": (3, 1, 0, 2)},
    "the last ones": {"k": 1, "counts": ((2,), (5,), (80,)), "ranks": (0, 1, 2)},
}
# Rows in which pairs are looked for, one after another.
CUTS = (0, 100, N)


def of_rows(X, factors, weight=None):
    """The blocks of some factors, found in two parts of the rows."""
    rows = coded.arrays_of(X)
    cuts = itertools.pairwise(CUTS)
    parts = [coded_block.pair_keys(rows, weight, factors, lo, hi) for lo, hi in cuts]
    return (parts[0] + parts[1]).blocks(factors)


def summed(X, blocks, seed=1):
    """The Gram by blocks, all of it, and the curvatures of the rows."""
    rows, d, rng = coded.arrays_of(X), X.shape[1], np.random.default_rng(seed)
    y = read_only(np.where(rng.random(N) < 0.5, 1.0, -1.0))
    weight = read_only(np.where(rng.random(N) < 0.1, 0.0, rng.random(N)))
    w = read_only(rng.normal(size=d) / np.sqrt(d))
    curvature, sums = np.empty(N), np.zeros(d + 2)
    gram = np.zeros(blocks.shape_of_gram(d))
    own = coded_block.eliminating(rows, blocks)
    for lo, hi in itertools.pairwise(CUTS):
        part = storages.rows_between(own, lo, hi)
        assert storages.count_rows(part) == hi - lo
        data = own, y, weight, NOTHING
        out = NOTHING, curvature, sums, NOTHING, gram
        sweep.evaluate_exactly(LAW, data, w, 0.3, lo, hi, out)
    full = np.column_stack([coded_cases.sparse(X).toarray(), np.ones(N)])
    return gram, full.T @ (curvature[:, None] * full)


@pytest.mark.parametrize("case", CASES)
def test_blocks_are_those_of_the_whole_gram(case):
    X = coded_cases.coded(N, **CASES[case])
    factors, d = coded.size_of(coded.arrays_of(X)).factors, X.shape[1]
    # bases are no factors, and one of the levels may have no coefficient
    assert len(factors) == {"one column": 1}.get(case, 3)
    for block in factors:
        gram, whole = summed(X, of_rows(X, (block,)))
        q = gram.shape[1]
        levels = np.arange(*block)
        others = np.setdiff1d(np.arange(d + 1), levels)
        wanted = whole[np.ix_(others, others)]
        np.testing.assert_allclose(np.triu(gram[:q]), np.triu(wanted), rtol=1e-11, atol=1e-11)
        cross = whole[np.ix_(levels, others)]
        np.testing.assert_allclose(gram[q:], cross, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(gram[q:, -1], whole.diagonal()[levels], rtol=1e-11)


@pytest.mark.parametrize("has_constant", [False, True])
@pytest.mark.parametrize("case", [case for case in CASES if case != "one column"])
def test_several_factors_make_the_whole_hessian(case, has_constant):
    X = coded_cases.coded(N, **CASES[case])
    factors, d = coded.size_of(coded.arrays_of(X)).factors, X.shape[1]
    size = d + has_constant
    ridge = np.arange(float(size))
    for chosen in [*itertools.permutations(factors, 2), *itertools.permutations(factors)]:
        blocks = of_rows(X, chosen)
        gram, whole = summed(X, blocks)
        found = BlockHessian.of_sums(gram, blocks, 0.5, ridge)
        wanted = 0.5 * whole[:size, :size] + np.diag(ridge)
        assert (found.start, found.stop) == chosen[0]
        np.testing.assert_allclose(found.to_dense(), wanted, rtol=1e-11, atol=1e-11)
        rows = (stop - start for start, stop in chosen)
        assert blocks.slots <= N * len(blocks.pairs)
        assert list(rows) == blocks.sizes


def test_pairs_are_those_that_occur():
    X = coded_cases.coded(N, counts=((9,), (60,), (80,)), ranks=(2, 0, 1))
    factors = coded.size_of(coded.arrays_of(X)).factors
    ones = coded_cases.sparse(X)
    blocks = of_rows(X, factors)
    for (a, b), pairs in zip([(0, 1), (0, 2), (1, 2)], blocks.pairs, strict=True):
        counts = (ones[:, slice(*factors[a])].T @ ones[:, slice(*factors[b])]).tocsr()
        counts.sort_indices()
        np.testing.assert_array_equal(counts.indptr, pairs.indptr)
        np.testing.assert_array_equal(counts.indices, pairs.indices)
        one, two = (ones[:, slice(*factors[c])].toarray() for c in (a, b))
        alone = one[~two.any(axis=1)].any(axis=0), two[~one.any(axis=1)].any(axis=0)
        np.testing.assert_array_equal(np.concatenate(alone), pairs.alone)
        assert 0 < pairs.alone.sum() < len(pairs.alone)
    # rows without weight have pairs, and no level alone
    weight = np.ones(N)
    weight[~ones[:, slice(*factors[0])].toarray().any(axis=1)] = 0.0
    for known, pairs in zip(blocks.pairs[:2], of_rows(X, factors, weight).pairs[:2], strict=True):
        np.testing.assert_array_equal(known.indices, pairs.indices)
        m = len(pairs.indptr) - 1
        assert known.alone[m:].any()
        assert not pairs.alone[m:].any()
    # a matrix of levels has the pairs of rows with weight
    weight = (np.random.default_rng(2).random(N) < 0.6) * 1.0
    for (a, b), pairs in zip(
        [(0, 1), (0, 2), (1, 2)], of_rows(X, factors, weight).pairs, strict=True
    ):
        one, two = (ones[:, slice(*factors[c])] for c in (a, b))
        counts = (one.T @ (weight[:, None] * two.toarray())).astype(float)
        found = pairs.matrix(np.ones(len(pairs.indices)), two.shape[1]).toarray()
        np.testing.assert_array_equal(found > 0.0, counts > 0.0)
        assert 0 < pairs.idle.sum() < len(pairs.idle)
    none = coded_block.pair_keys(coded.arrays_of(X), None, factors, 5, 5)
    assert none.nbytes == 0
    assert (none + none).blocks(factors).slots == 0


def test_a_pair_that_was_not_found_leaves_no_hessian():
    X = coded_cases.coded(N, counts=((9,), (60,), (80,)), ranks=(2, 0, 1))
    factors = coded.size_of(coded.arrays_of(X)).factors[:2]
    known = coded_block.pair_keys(coded.arrays_of(X), None, factors, 0, N - 50)
    gram, _ = summed(X, known.blocks(factors))
    q = gram.shape[1]
    assert np.isnan(gram[q - 1, q - 1])


def test_only_factors_are_eliminated():
    X = coded_cases.coded(30, k=2)
    rows = coded.arrays_of(X)
    with pytest.raises(ValueError, match="not those of a column of codes"):
        coded_block.eliminating(rows, LevelBlocks(((1, 3),)))
    with pytest.raises(ValueError, match="only rows of codes"):
        coded_block.eliminating(np.ones((3, 2)), LevelBlocks(((0, 1),)))
    assert coded_block.arrays_of(X) is None
    assert PairKeys(()).blocks(((0, 4),)).sizes == [4]
