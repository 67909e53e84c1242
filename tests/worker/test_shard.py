"""Shards without Dask: forgetting, asking twice, splitting and threading change nothing but the cost."""

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, HessianVector, Together, parted
from tests.worker.shards import PROBLEM, ROUND, W, assert_same, shard, transcript


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


def test_requests_together_are_answered_in_turn():
    apart = transcript(shard([700]))
    totals = shard([700]).answer(PROBLEM, Together(tuple(ROUND)))
    assert totals["rows"] == sum(reply["rows"] for reply in apart), "margins are kept in between"
    for one, other in zip(parted(totals), apart, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_products_are_with_the_hessian_of_the_point_that_is_asked_for():
    both, v = shard([700]), np.ones(13)
    both.answer(PROBLEM, Evaluate(W, 1))
    found = [both.answer(PROBLEM, HessianVector(v, at)) for at in ((1, W), (2, 0.1 * W), (1, W))]
    alone = shard([700]).answer(PROBLEM, HessianVector(v, (2, 0.1 * W)))
    np.testing.assert_array_equal(found[1]["product"], alone["product"])
    np.testing.assert_array_equal(found[0]["product"], found[2]["product"])
    assert np.abs(found[0]["product"] - found[1]["product"]).max() > 1.0
