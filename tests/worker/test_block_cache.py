"""What blocks cache between requests, and for how long."""

import numpy as np

from daskglm.core.requests import Evaluate, LossRef, Problem
from tests.worker.shards import PROBLEM, W, shard


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
