"""Shards of blocks of one problem."""

import numpy as np

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
    EvaluateAlong(((1, W), (2, 2 * W)), np.array([[0.5, 0.5]]), np.array([[0.1]])),
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
