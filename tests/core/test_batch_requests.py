"""Gathered rows come in the order of the data, whichever worker answered first."""

import numpy as np

from daskglm.core.batch_requests import GatheredRows


def run(first, n):
    codes = np.arange(first, first + n)
    return codes, np.ones(n), codes[:, None, None] * 1.0


def test_runs_are_joined_in_the_order_of_partitions_and_rows():
    late = GatheredRows({(1, 0, 0, 0): run(20, 3), (1, 0, 3, 1): run(23, 2)})
    early = GatheredRows({(0, 0, 4, 0): run(4, 2), (0, 0, 0, 0): run(0, 2)})
    codes, weights, values = (late + early).of(0)
    np.testing.assert_array_equal(codes, [0, 1, 4, 5, 20, 21, 22])
    np.testing.assert_array_equal(values[:, 0, 0], codes)
    assert len(weights) == 7
    assert (late + early).nbytes == late.nbytes + early.nbytes > 0
