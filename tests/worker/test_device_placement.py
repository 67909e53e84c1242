"""Blocks are joined where they are tiny; a fit leaves nothing on a device."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.data.blocks import Place, to_block
from daskglm.worker.shard import Shard
from tests.conftest import make_problem
from tests.kernels import coded_cases
from tests.worker.shards import assert_same, shard, transcript


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


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "sdca"])
@pytest.mark.slow
def test_a_fit_leaves_nothing_on_the_device_although_the_collector_sleeps(cupy, solver):
    rng = np.random.default_rng(0)
    X = sp.random(400, 60, 0.1, "csr", random_state=0)
    y = np.where(X @ rng.standard_normal(60) > 0, 1.0, -1.0)
    pool = cupy.get_default_memory_pool()
    daskglm.fit(X, y, device="cuda", solver=solver)  # what compiled kernels keep
    gc.collect()
    gc.disable()
    try:
        before = pool.used_bytes()
        daskglm.fit(X, y, device="cuda", solver=solver)
        assert pool.used_bytes() == before
    finally:
        gc.enable()


def test_codes_go_to_the_device_as_sparse_rows(cupy):
    X = coded_cases.coded(300, k=3)
    y = np.arange(300) % 2
    found = daskglm.fit(X, y, device="cuda", solver="newton")
    expected = daskglm.fit(coded_cases.sparse(X), y, solver="newton")
    assert found.report_.device == "cuda"
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
