"""Answers about ordered classes do not depend on threads, on the cut of the rows, or on caches."""

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, LossRef, Problem
from daskglm.core.view import Drawn, View
from daskglm.data.blocks import Place, to_block
from daskglm.worker.answers import FROM_CACHE
from daskglm.worker.shard import Shard

CLASSES = ("a", "b", "c")
PROBLEM = Problem(LossRef("ordinal"), classes=CLASSES)
T = np.array([-0.7, 0.4])
W = np.append(np.linspace(-1, 1, 40), T)
ALONG = np.append(np.ones(40), [0.5, -1.0])
ROUND = [
    Evaluate(W, 1, gram=True, diagonal=True),
    HessianVector(ALONG, (1, W)),
    Evaluate(2 * W, 2, beside=1),
    EvaluateAlong(((1, W), (2, 2 * W)), np.array([[0.5, 0.5]]), T[None]),
    HessianVector(ALONG, (1, W)),
]


def shard(cuts, threads=1, sparse=False, n=8000):
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 40)), np.array(CLASSES)[rng.integers(0, 3, n)]
    weight, offset = rng.random(n), rng.standard_normal(n)
    edges = [0, *cuts, n]
    blocks = [
        to_block(
            sp.csr_matrix(X[a:b]) if sparse else X[a:b],
            y[a:b],
            weight[a:b],
            offset[a:b],
            place=Place(i),
            classify=True,
        )
        for i, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    ]
    return Shard(blocks, threads)


def transcript(shard, *, forget=False):
    replies = []
    for request in ROUND:
        if forget:
            shard.caches.clear()
        replies.append(shard.answer(PROBLEM, request))
    return replies


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.keys() == other.keys()
        for key in one.keys() - {"rows"}:
            np.testing.assert_allclose(one[key], other[key], rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_cuts_and_lost_caches_change_nothing(sparse):
    whole = transcript(shard([], sparse=sparse))
    for other in (shard([17, 5000], sparse=sparse), shard([3000], threads=3, sparse=sparse)):
        assert_same(whole, transcript(other))
        other.close()
    assert_same(whole, transcript(shard([], sparse=sparse), forget=True))


def test_rows_that_were_read_are_counted():
    kept = shard([3000])
    rows = [reply["rows"] for reply in transcript(kept)]
    assert rows == [8000, 8000, 8000, 0, 8000]
    assert [reply["rows"] for reply in transcript(shard([3000]), forget=True)][3:] == [16000, 16000]
    caches = list(kept.caches.values())
    along = ROUND[3]
    from_cache = FROM_CACHE[EvaluateAlong]
    assert from_cache(kept, caches, along)
    other = EvaluateAlong(((7, W),), np.ones((1, 1)), T[None])
    assert not from_cache(kept, caches, other)


def test_labels_that_are_not_among_the_classes_count_as_any():
    n = 300
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((n, 2)), rng.integers(0, 4, n)
    weight = (y != 2).astype(float)
    request = Evaluate(np.array([1.0, -1.0, -1.0, 1.0]), 1, gram=True)
    all_rows = Shard([to_block(X, y, weight, place=Place(), classify=True)], 1)
    kept = y != 2
    fewer = Shard([to_block(X[kept], y[kept], place=Place(), classify=True)], 1)
    problem = Problem(LossRef("ordinal"), classes=(0, 1, 3))
    got, want = all_rows.answer(problem, request), fewer.answer(problem, request)
    for name in ("value", "gradient", "curvatures", "weights"):
        np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-12)


def test_a_sample_has_the_weights_of_its_own_rows():
    got = shard([]).answer(PROBLEM, ROUND[0], View(Drawn(0.25, 3)))
    assert got["rows"] == 2000
    assert 0.8 < got["weights"].sum() / 1000 < 1.2
