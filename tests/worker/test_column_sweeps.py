"""Sweeps over columns are answered from sparse rows, which are sorted once."""

import numpy as np
import pytest

from daskglm.core.column_requests import ColumnSweeps
from daskglm.core.requests import Evaluate, HessianVector
from daskglm.worker import device_placement
from daskglm.worker.shard import Shard
from tests.worker.restricted import PROBLEM, blocks_of, draw

W, C = np.linspace(-0.5, 0.5, 13), 3.0


def request(slope, diagonal, v, most=1, token=3):
    fixed = (
        np.zeros(13),
        np.append(np.full(12, 2.0), 0.0),
        np.full(13, -np.inf),
        np.full(13, np.inf),
    )
    return ColumnSweeps((token, W), C, v, np.array([slope, diagonal, *fixed]), 0.0, most)


@pytest.mark.parametrize("storage", ["csr", "pattern"])
@pytest.mark.parametrize("beside", [False, True])
def test_the_model_falls_by_the_curvatures_of_the_point(storage, beside):
    X, y, weight, offset = draw(storage)
    if not beside:
        weight = offset = None
    shard = Shard(blocks_of(X, y, weight, offset, cuts=(0, 900)), 2)
    assert shard.sweeps_columns
    at = shard.answer(PROBLEM, Evaluate(W, 3, diagonal=True, curved=True))
    slope, diagonal = C * at["gradient"], C * at["diagonal"]
    strengths = np.append(np.full(12, 2.0), 0.0)

    def model(v):
        change = C * shard.answer(PROBLEM, HessianVector(v - W, (3, W)))["product"]
        return slope @ (v - W) + 0.5 * change @ (v - W) + strengths @ np.abs(v)

    first = shard.answer(PROBLEM, request(slope, diagonal, W))
    assert first["sweeps"] == 1
    assert 900 < first["rows"] <= 1800 + 900, "a pass for the copy, and one for the sweep"
    again = shard.answer(PROBLEM, request(slope, diagonal, W))
    assert again["rows"] == first["rows"] - 900, "the copy is kept"
    np.testing.assert_array_equal(first["v"], again["v"])
    best = shard.answer(PROBLEM, request(slope, diagonal, W, most=40))
    assert model(best["v"]) <= model(first["v"]) < model(W)
    shard.close()


def test_curvatures_that_are_gone_are_made_again():
    X, y, weight, offset = draw("csr")
    found = []
    for token in (3, 4):
        shard = Shard(blocks_of(X, y, weight, offset, cuts=(0, 900)), 1)
        at = shard.answer(PROBLEM, Evaluate(W, 3, diagonal=True, curved=True))
        reply = shard.answer(
            PROBLEM, request(C * at["gradient"], C * at["diagonal"], W, token=token)
        )
        found.append(reply["v"])
        shard.close()
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("storage", ["csr", "pattern"])
def test_blocks_are_one_for_sweeps(storage, monkeypatch):
    monkeypatch.setattr(device_placement, "TINY_VALUES", 0)  # else they were joined before
    X, y, weight, offset = draw(storage)
    found = []
    for cuts in ((0, 900), (0, 300, 301, 301, 900)):
        shard = Shard(blocks_of(X, y, weight, offset, cuts=cuts), 2)
        assert shard.sweeps_columns
        at = shard.answer(PROBLEM, Evaluate(W, 3, diagonal=True, curved=True))
        found.append(shard.answer(PROBLEM, request(C * at["gradient"], C * at["diagonal"], W))["v"])
        shard.close()
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-12)


def test_dense_rows_have_no_sweeps():
    X, y, *_ = draw("dense")
    shard = Shard(blocks_of(X, y), 1)
    assert not shard.sweeps_columns
    shard.close()
