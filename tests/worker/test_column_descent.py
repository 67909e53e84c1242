"""Descents by columns are answered from dense rows, which are copied by columns once."""

import numpy as np
import pytest

from daskglm.core.column_requests import ColumnDescent
from daskglm.core.requests import Evaluate
from daskglm.penalties.descent import minimise
from daskglm.penalties.kinks import Kinks
from daskglm.worker import device_placement
from daskglm.worker import shard as shards
from daskglm.worker.shard import Shard
from tests.worker.restricted import PROBLEM, blocks_of, draw

W, C = np.linspace(-0.5, 0.5, 13), 3.0
STRENGTHS = np.append(np.full(12, 2.0), 0.0)


def request(slope, token=3, wanted=1e-9, most=1000.0):
    ends = np.full(13, -np.inf), np.full(13, np.inf)
    model = np.array([slope, np.zeros(13), STRENGTHS, *ends])
    return ColumnDescent((token, W), C, model, wanted, most)


@pytest.mark.parametrize("storage", ["dense", "float32"])
@pytest.mark.parametrize("beside", [False, True])
def test_the_end_is_the_minimum_by_the_curvatures_of_the_point(storage, beside):
    X, y, weight, offset = draw(storage)
    if not beside:
        weight = offset = None
    shard = Shard(blocks_of(X, y, weight, offset, cuts=(0, 900)), 2)
    assert shard.descends_columns
    at = shard.answer(PROBLEM, Evaluate(W, 3, gram=True, exact=True))
    slope, upper = C * at["gradient"], C * np.triu(at["gram"])
    hessian = upper + np.triu(upper, 1).T
    kinks = Kinks(STRENGTHS, np.full(13, -np.inf), np.full(13, np.inf))
    first = shard.answer(PROBLEM, request(slope))
    assert first["ended"]
    best = minimise(hessian, slope, W, kinks, 1e-12)
    np.testing.assert_allclose(first["v"], best.w, rtol=0, atol=1e-6)
    again = shard.answer(PROBLEM, request(slope))
    assert again["rows"] == first["rows"] - 900, "the copy is kept"
    np.testing.assert_array_equal(first["v"], again["v"])
    assert not shard.answer(PROBLEM, request(slope, most=1.0))["ended"]
    shard.close()


def test_curvatures_that_are_gone_are_made_again():
    X, y, weight, offset = draw("dense")
    found = []
    for token in (3, 4):
        shard = Shard(blocks_of(X, y, weight, offset, cuts=(0, 900)), 1)
        at = shard.answer(PROBLEM, Evaluate(W, 3, curved=True))
        found.append(shard.answer(PROBLEM, request(C * at["gradient"], token=token))["v"])
        shard.close()
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("storage", ["dense", "float32"])
def test_blocks_are_one_for_descents(storage, monkeypatch):
    monkeypatch.setattr(device_placement, "TINY_VALUES", 0)  # else they were joined before
    X, y, weight, offset = draw(storage)
    found = []
    for cuts in ((0, 900), (0, 300, 301, 301, 900)):
        shard = Shard(blocks_of(X, y, weight, offset, cuts=cuts), 2)
        assert shard.descends_columns
        at = shard.answer(PROBLEM, Evaluate(W, 3, curved=True))
        found.append(shard.answer(PROBLEM, request(C * at["gradient"]))["v"])
        shard.close()
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-9)


def test_sparse_rows_and_large_ones_have_no_descents(monkeypatch):
    for storage in ("csr", "pattern"):
        X, y, *_ = draw(storage)
        shard = Shard(blocks_of(X, y), 1)
        assert not shard.descends_columns
        shard.close()
    X, y, *_ = draw("float32")
    shard = Shard(blocks_of(X, y), 1)
    monkeypatch.setattr(shards, "MOST_BYTES", 8 * X.size - 1)
    assert not shard.descends_columns, "a copy has float64"
    shard.close()
