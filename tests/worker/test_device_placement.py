"""Blocks are joined where they are tiny; a fit leaves nothing on a device."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.device import gpu
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


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "sdca", "gradient_descent"])
@pytest.mark.parametrize("limit", [None, 9000])
def test_codes_stay_codes_on_the_device(cupy, monkeypatch, solver, limit):
    """Also where they are streamed."""
    X = coded_cases.coded(1200, k=2, dtype=np.float32)
    y = np.random.default_rng(0).integers(0, 2, 1200)
    moved, backend = [], gpu()
    move = backend.move
    monkeypatch.setattr(backend, "move", lambda *args: moved.append(move(*args)) or moved[-1])
    given = {} if limit is None else {"device_memory_limit": limit + 24 * 1200}
    found = daskglm.fit(X, y, device="cuda", solver=solver, **given)
    expected = daskglm.fit(coded_cases.sparse(X), y, solver="newton")
    assert found.report_.device == "cuda"
    best, value = expected.report_.objective, found.report_.objective
    assert value - best <= (found.report_.relative_gap + 1e-9) * best
    assert value == pytest.approx(best, rel=1e-3)
    if limit is None:
        (rows,) = moved
        assert isinstance(rows, backend.coded.Rows)
        assert rows.nbytes == X.nbytes
    else:
        assert any(isinstance(rows, backend.streamed.Rows) and rows.tables for rows in moved)
