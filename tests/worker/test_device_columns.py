"""Some columns of rows on a device, and sums of single columns there."""

import dask
import numpy as np
import pytest

from daskglm.core.column_requests import ColumnMoments
from daskglm.core.device import gpu, on_device
from daskglm.core.requests import Evaluate
from daskglm.core.view import Columns, Drawn, View
from daskglm.data.blocks import Place, to_block
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.worker import columns as module
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.covering import covering, each_choice
from tests.worker.restricted import (
    COLUMNS,
    PROBLEM,
    STORAGES,
    answers,
    blocks_of,
    check,
    columns_of,
    draw,
    requests,
)

# of vectors beside the rows: float32 is rounded to
TOLERANCE = {"dense": 1e-9, "csr": 1e-9, "pattern": 1e-9, "float32": 2e-5}
PLACES = ("whole", "without column copies", "streamed")


@pytest.fixture(params=PLACES)
def where(request, cupy, monkeypatch):
    """Rows wholly on the device, sparse ones with and without a CSC copy, or half of them there."""
    if request.param == "without column copies":
        monkeypatch.setattr(gpu(), "add_csc_copy", lambda rows, room: 0)

    def config(blocks):
        if request.param != "streamed":
            return DeviceConfig("cuda")
        n, nbytes = (sum(getattr(b.facts, name) for b in blocks) for name in ("n_rows", "nbytes"))
        return DeviceConfig("cuda", n * 32 + nbytes // 2)

    config.kind = request.param
    return config


def shard_of(where, storage, *, beside=True):
    X, y, weight, offset = draw(storage)
    given = (y, weight, offset) if beside else (y,)
    blocks = blocks_of(X, *given)
    shard = Shard(blocks, 1, where=where(blocks))
    if where.kind == "streamed":
        assert any(isinstance(block.X, gpu().streamed.Rows) for block in shard.blocks)
    return shard, columns_of(X, range(12)), given


@each_choice
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("beside", [False, True])
def test_replies_are_those_of_numpy(where, storage, beside):
    shard, X, given = shard_of(where, storage, beside=beside)
    asked = [(request, View(columns=Columns(1, COLUMNS))) for request in requests(5)]
    got = [shard.answer_host(PROBLEM, *each) for each in asked]
    check(got, answers(X[:, COLUMNS], *given), TOLERANCE[storage])
    share = np.count_nonzero(X[:, COLUMNS]) / np.count_nonzero(X)
    assert got[0]["rows"] == 900 + round(900 * share)
    kept = shard.restricted.shard
    for part, whole in zip(kept.blocks, shard.blocks, strict=True):
        assert on_device(part.X)
        assert gpu().is_resident(part.X)
        assert part.y is whole.y
        if where.kind == "whole" and storage in ("csr", "pattern"):
            assert part.X.csc_copy is not None
    # kept while all columns are asked
    whole = shard.answer_host(PROBLEM, Evaluate(np.zeros(13), 7))
    assert whole["rows"] == 900
    again = shard.answer_host(PROBLEM, Evaluate(np.zeros(6), 8), View(columns=Columns(1, COLUMNS)))
    assert again["rows"] == round(900 * share)
    np.testing.assert_allclose(again["gradient"][:-1], whole["gradient"][COLUMNS], rtol=1e-5)
    assert shard.restricted.shard is kept
    shard.close()


@covering(1, storage=STORAGES, chosen=[[], [11], range(12)])
def test_few_columns_and_all(where, storage, chosen):
    shard, X, given = shard_of(where, storage)
    columns = np.array(chosen, np.int64)
    asked = [(request, View(columns=Columns(1, columns))) for request in requests(len(columns))]
    got = [shard.answer_host(PROBLEM, *each) for each in asked]
    check(got, answers(X[:, columns], *given), TOLERANCE[storage])
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_facts_count_what_is_there(where, storage):
    shard, X, _ = shard_of(where, storage)
    taken = module.take_columns(shard.blocks, COLUMNS, 12, shard._each)
    stored = sum(block.facts.nonzeros for block in taken)
    assert stored == np.count_nonzero(X[:, COLUMNS])
    for part, whole in zip(taken, shard.blocks, strict=True):
        assert part.facts.nbytes == part.X.nbytes
        assert part.facts.n_features == part.X.d == 5
        assert part.moved is not None, "y and weights on the device are shared"
        assert part.moved is whole.moved
    shard.close()


@each_choice
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("beside", [False, True])
def test_moments_are_those_of_numpy(where, storage, beside):
    shard, X, given = shard_of(where, storage, beside=beside)
    s = given[1] if beside else np.ones(900)
    reply = shard.answer_host(PROBLEM, ColumnMoments())
    # weights beside float32 rows are rounded to float32
    rtol = 1e-6 if storage == "float32" else 1e-11
    assert reply["sums"].dtype == reply["squares"].dtype == np.float64
    assert reply["rows"] == 900
    assert float(reply["weight"]) == pytest.approx(s.sum(), rel=rtol)
    np.testing.assert_allclose(reply["sums"], s @ X, rtol=rtol, atol=rtol * 900)
    np.testing.assert_allclose(reply["squares"], s @ X**2, rtol=rtol)
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_samples_of_some_columns(cupy, storage):
    X, y, weight, _ = draw(storage)
    blocks = blocks_of(X, y, weight)
    there, here = Shard(blocks, 1, where=DeviceConfig("cuda")), Shard(blocks, 1)
    asked = (Evaluate(np.linspace(-1, 1, 6), 1), View(Drawn(0.1, 3), Columns(1, COLUMNS)))
    got, wanted = there.answer_host(PROBLEM, *asked), here.answer(PROBLEM, *asked)
    np.testing.assert_allclose(got["gradient"], wanted["gradient"], rtol=1e-4, atol=1e-5)
    assert got["rows"] == wanted["rows"]
    there.close()
    here.close()


def test_vectors_of_the_device_are_taken_and_given(cupy, monkeypatch):
    monkeypatch.setattr("daskglm.engines.local.HOST_FEATURES", 1)
    X, y, *_ = draw()
    engine = Local(blocks_of(X, y), where=DeviceConfig("cuda"))
    w = np.linspace(-1, 1, 6)
    asked = (Evaluate(cupy.asarray(w), 1, gram=True), View(columns=Columns(1, COLUMNS)))
    reply = engine.total(PROBLEM, *asked)
    assert on_device(reply["gradient"])
    host = Local(blocks_of(X, y)).total(PROBLEM, Evaluate(w, 1), View(columns=Columns(1, COLUMNS)))
    np.testing.assert_allclose(reply["gradient"].get(), host["gradient"], rtol=1e-10, atol=1e-10)
    engine.close()


def test_rows_that_are_read_to_the_device_at_every_pass(cupy):
    X, y, *_ = draw("csr")
    dense, reads = columns_of(X, range(12)), []

    def read(k):
        reads.append(k)
        return X[300 * k : 300 * k + 300]

    rows = [dask.delayed(read, pure=False)(k) for k in range(3)]
    labels = [dask.delayed(y[300 * k : 300 * k + 300]) for k in range(3)]
    recipes = partitions(rows, labels, classify=True).lazy
    room = 3 * to_block(X[:300], y[:300], place=Place(), classify=True).facts.nbytes + 3000
    engine = Local.reading(recipes, room, DeviceConfig("cuda"))
    assert len(engine.shard.runs) == 3
    for _ in range(2):
        got = [
            engine.total(PROBLEM, asked, View(columns=Columns(1, COLUMNS))) for asked in requests(5)
        ]
        check(got, answers(dense[:, COLUMNS], y))
        assert len(reads) in (6, 9), "the facts, the copy, and later a pass over all columns"
        moments = engine.total(PROBLEM, ColumnMoments())
        np.testing.assert_allclose(moments["squares"], (dense**2).sum(axis=0), rtol=1e-11)
    assert len(reads) == 12
    engine.close()
