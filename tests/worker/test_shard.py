"""Shards without Dask: forgetting, asking twice, splitting and threading change nothing but the cost."""

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.worker.shard import Shard
from tests.conftest import make_problem

PROBLEM = Problem(LossRef("logistic"), 1.0)


def shard(cuts, threads=1, sparse=False, n=3000, d=12):
    X, y = make_problem(n, d, sparse=sparse)
    edges = [0, *cuts, n]
    blocks = [
        to_block(X[a:b], y[a:b], place=Place(i), classify=True)
        for i, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    ]
    return Shard(blocks, threads)


W = np.linspace(-1, 1, 13)
ROUND = [
    Evaluate(W, 1, gram=True, diagonal=True),
    HessianVector(np.ones(13), (1, W)),
    Evaluate(2 * W, 2),
    EvaluateAlong(((1, W), (2, 2 * W)), np.array([[0.5, 0.5, 0.1]])),
    HessianVector(np.ones(13), (1, W)),
]


def transcript(shard, *, twice=False, forget=False):
    replies = []
    for request in ROUND:
        if forget:
            shard.caches.clear()
        if twice:
            shard.answer(PROBLEM, request)
        replies.append(shard.answer(PROBLEM, request))
    return replies


def assert_same(a, b, rtol):
    for one, other in zip(a, b, strict=True):
        for key in one.keys() - {"rows"}:
            np.testing.assert_allclose(one[key], other[key], rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("cuts", [[], [10, 500, 501, 1700, 2000, 2990], [0, 0, 1500, 1500, 3000]])
def test_cuts_and_threads_do_not_matter(sparse, threads, cuts):
    assert_same(
        transcript(shard(cuts, threads, sparse)), transcript(shard([], 1, sparse)), rtol=1e-10
    )


def test_asked_twice_gives_the_same_bits():
    for one, other in zip(
        transcript(shard([700], 2)), transcript(shard([700], 2), twice=True), strict=True
    ):
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_forgetting_costs_passes_and_nothing_else():
    remembering, forgetting = transcript(shard([700])), transcript(shard([700]), forget=True)
    assert_same(remembering, forgetting, rtol=1e-12)
    assert [reply["rows"] for reply in remembering] == [3000, 3000, 3000, 0, 3000]
    assert [reply["rows"] for reply in forgetting] == [3000, 6000, 3000, 6000, 6000]


def test_memory_of_margins_is_bounded():
    s = shard([100])
    for token in range(10):
        s.answer(PROBLEM, Evaluate(W, token))
    assert all(len(cache.margins) == 2 for cache in s.caches.values())


def test_margins_of_the_point_beside_stay():
    s = shard([100])
    s.answer(PROBLEM, Evaluate(W, 0))
    for token in range(1, 5):
        s.answer(PROBLEM, Evaluate(W, token, beside=0))
        assert all(set(cache.margins) == {0, token} for cache in s.caches.values())


def test_curvatures_are_kept_where_products_will_want_them():
    s = shard([100])
    s.answer(PROBLEM, Evaluate(W, 0))
    assert all(cache.curvature_of is None for cache in s.caches.values())
    s.answer(PROBLEM, Evaluate(W, 1, curved=True))
    assert all(cache.curvature_of == 1 for cache in s.caches.values())


def test_another_problem_on_the_same_rows_starts_afresh():
    s = shard([100])
    first = s.answer(PROBLEM, Evaluate(W, 1))
    flipped = s.answer(Problem(LossRef("logistic"), -1.0), Evaluate(-W, 2))
    np.testing.assert_allclose(first["value"], flipped["value"])
    np.testing.assert_allclose(first["gradient"], -flipped["gradient"])
    doubled = s.answer(Problem(LossRef("logistic"), 1.0, ((1.0, 2.0), (-1.0, 2.0))), Evaluate(W, 3))
    np.testing.assert_allclose(doubled["value"], 2 * first["value"])


def test_threads_get_about_equal_work_of_skewed_sparse_rows():
    import scipy.sparse as sp

    from daskglm.worker.shard import _deal

    X = sp.vstack(
        [
            sp.csr_matrix(np.ones((20, 1000))),
            sp.random(4000, 1000, 0.005, format="csr", random_state=0),
        ]
    )
    block = to_block(X, np.arange(4020) % 2, place=Place(), classify=True)
    deals = _deal([block], 4)
    work = [
        sum(block.X.indptr[hi] - block.X.indptr[lo] + hi - lo for _, lo, hi in deal)
        for deal in deals
    ]
    assert max(work) < 1.2 * min(work) + 2000
    assert [lo for deal in deals for _, lo, _ in deal][1:] == [
        hi for deal in deals for _, _, hi in deal
    ][:-1]


def test_tiny_neighbours_are_joined_only_with_their_like():
    tiny = shard(range(20, 3000, 20))
    assert len(tiny.blocks) == 3
    assert_same(transcript(tiny), transcript(shard([])), rtol=1e-10)
    X, y = make_problem(60, 4)
    one_class = [
        to_block(X[a : a + 10], np.ones(10), place=Place(), classify=True) for a in range(0, 20, 10)
    ]
    two = [
        to_block(X[a : a + 10], np.arange(10) % 2, place=Place(), classify=True)
        for a in range(20, 60, 10)
    ]
    mixed = Shard([*one_class, *two], 1)
    assert [len(block.y) for block in mixed.blocks] == [20, 40]
