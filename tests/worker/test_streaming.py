"""Rows read at every pass give the same answer as rows in memory; what cannot fit is refused before it is loaded."""

from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import daskglm
from daskglm.core.column_requests import ColumnMoments
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    LossRef,
    Problem,
    Together,
    parted,
)
from daskglm.core.view import Columns, Drawn, View
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.worker.streaming import StreamedShard, _runs
from tests.conftest import make_problem

X, y = make_problem(1000, 6)


def write_parts(frame, folder):
    folder.mkdir()
    for k in range(6):
        frame.iloc[k::6].to_parquet(folder / f"{k}.parquet", index=False)


@pytest.fixture
def source(tmp_path):
    """Delayed blocks whose reads are counted in a file."""
    log = tmp_path / "reads"
    log.touch()

    def read(k):
        with open(log, "a") as file:
            file.write("x")
        return X[100 * k : 100 * k + 100]

    rows = [dask.delayed(read, pure=False)(k) for k in range(10)]
    labels = [dask.delayed(y[100 * k : 100 * k + 100]) for k in range(10)]
    return rows, labels, lambda: log.stat().st_size


def shard_of(source, room):
    data = partitions(source[0], source[1], classify=True)
    return StreamedShard(data.lazy, range(10), 2, room)


def test_runs_of_partitions_fit_the_room():
    assert _runs([4, 4, 4, 9, 1, 1], 10) == [[0, 1], [2], [3, 4], [5]]
    assert _runs([], 10) == []


@pytest.mark.parametrize("room", [3 * 4800, 3 * 15000, 10**9])
def test_replies_are_those_of_rows_in_memory(source, room):
    streamed = shard_of(source, room)
    kept = Local(partitions(*source[:2], classify=True).load(), threads=2).shard
    assert (
        replace(streamed.facts, order=0) == kept.facts
    )  # rows that are read again are told by their order too
    problem, w, v = Problem(LossRef("logistic"), 1.0), np.linspace(-1, 1, 7), np.linspace(2, 1, 7)
    for request in (
        Evaluate(w, 1, gram=True),
        HessianVector(v, (1, w)),
        Evaluate(v, 2, diagonal=True),
        EvaluateAlong(((1, w), (2, v)), np.array([[0.5, 0.5]]), np.array([[0.1]])),
        EvaluateAlong(
            ((3, w + v), (2, v)), np.array([[0.5, 0.5]]), np.array([[0.1]])
        ),  # the margins of one are not known
    ):
        got, wanted = streamed.answer(problem, request), kept.answer(problem, request)
        waited = got.pop("waited")
        assert waited >= 0.0
        assert set(got) == set(wanted)
        for key in wanted:
            np.testing.assert_allclose(got[key], wanted[key], rtol=1e-12, atol=1e-12, err_msg=key)
    streamed.close()


def test_rows_are_read_for_passes_only_and_the_next_while_one_is_at_work(source):
    streamed = shard_of(source, 3 * 4800)
    reads = source[2]
    assert reads() == 10, "the pass that learns the facts"
    problem, w = Problem(LossRef("logistic"), 1.0), np.zeros(7)
    streamed.answer(problem, Evaluate(w, 1))
    assert reads() == 20
    streamed.answer(problem, EvaluateAlong(((1, w),), np.array([[1.0]]), np.array([[0.3]])))
    assert reads() == 20, "margins are remembered"
    along = EvaluateAlong(((2, w),), np.array([[1.0]]), np.array([[0.3]]))
    totals = streamed.answer(problem, Together((Evaluate(w, 2), along)))
    assert reads() == 30, "by the second of two requests in a message, too"
    assert totals["waited"] > 0.0
    assert [each["rows"] for each in parted(totals)] == [1000, 0]
    assert all(block.X is None for shard in streamed.shards for block in shard.blocks)
    assert all(cache.rows is None for shard in streamed.shards for cache in shard.caches.values())
    streamed.close()


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd", "sdca"])
def test_every_solver_out_of_core(source, solver, monkeypatch):
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 3 * 2 * 4800)
    model = daskglm.fit(*source[:2], solver=solver, tol=1e-8, out_of_core=True, random_state=0)
    wanted = daskglm.fit(X, y, tol=1e-12)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-3)
    report = model.report_
    assert report.converged
    assert 0.0 < report.waiting <= 1.0
    assert "for data to be read" in repr(report)
    assert source[2]() <= 10 * (report.passes + 3), "one read of each partition a pass"


def test_dual_rounds_over_runs_take_a_few_times_those_over_all_rows(source, monkeypatch):
    options = {
        "solver": "sdca",
        "tol": 1e-4,
        "random_state": 0,
        "solver_options": {"polish": False},
    }
    whole = daskglm.fit(*source[:2], **options).report_
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 3 * 4800 * 2)
    streamed = daskglm.fit(*source[:2], out_of_core=True, **options).report_
    assert streamed.converged
    assert streamed.n_iter <= 4 * whole.n_iter


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "squared"])
def test_other_losses_and_classes(source, loss):
    rows, t = make_problem(600, 5, loss=loss)
    if loss == "squared_hinge":
        t = np.digitize(rows @ np.arange(5.0), [-1.0, 1.0])
    lazy = (da.from_array(rows, chunks=(70, 5)), da.from_array(t, chunks=70))
    wanted = daskglm.fit(rows, t, loss=loss, tol=1e-6, random_state=0)
    model = daskglm.fit(*lazy, loss=loss, tol=1e-6, out_of_core=True, random_state=0)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=5e-3)


def test_files_parquet_and_svmlight(tmp_path, client):
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=y)
    write_parts(frame, tmp_path / "p")
    sparse = sp.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
    dump_svmlight_file(sparse, y, str(tmp_path / "s.svm"))
    table = dd.read_parquet(tmp_path / "p")
    model = daskglm.fit(table, "label", out_of_core=True, tol=1e-10)
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, tol=1e-12).coef_, atol=1e-4)
    assert model.report_.workers == 2
    rows = daskglm.read_svmlight(str(tmp_path / "s.svm"), n_features=6)
    model = daskglm.fit(*rows, out_of_core=True, tol=1e-10, solver="lbfgs")
    np.testing.assert_allclose(model.coef_, daskglm.fit(sparse, y, tol=1e-12).coef_, atol=1e-4)
    assert not client.run(lambda dask_worker: len(dask_worker.data)) or set(
        client.run(lambda dask_worker: len(dask_worker.data)).values()
    ) == {0}


def test_zarr(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed")
    da.from_array(X, chunks=(150, 6)).to_zarr(str(tmp_path / "x.zarr"))
    model = daskglm.fit(
        da.from_zarr(str(tmp_path / "x.zarr")),
        da.from_array(y, chunks=150),
        out_of_core=True,
        tol=1e-10,
    )
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, tol=1e-12).coef_, atol=1e-4)


def test_what_cannot_be_streamed_is_told(client):
    with pytest.raises(ValueError, match="X is in memory"):
        daskglm.fit(X, y, out_of_core=True)
    lazy = da.from_array(X, chunks=(100, 6))
    with pytest.raises(ValueError, match="X is persisted: in memory already"):
        daskglm.fit(lazy.persist(), y, out_of_core=True)
    bad = np.where(np.arange(6000).reshape(1000, 6) == 5999, np.nan, X)
    for where in (client, None):
        with pytest.raises(ValueError, match=r"NaN: partition 9, row 99, column 5"):
            daskglm.fit(da.from_array(bad, chunks=(100, 6)), y, out_of_core=True, client=where)
    parts = [dask.delayed(X[:500]), dask.delayed(X[500:, :3])]
    with pytest.raises(ValueError, match="partition 0 has 6 columns but partition 1 has 3"):
        daskglm.fit(parts, [dask.delayed(y[:500]), dask.delayed(y[500:])], out_of_core=True)


def test_a_partition_too_large_and_data_that_change(source, monkeypatch, tmp_path):
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 3 * 4000)
    with pytest.raises(
        MemoryError, match=r"partition 0 alone takes 4,800 bytes.*at least 3 times as many"
    ):
        daskglm.fit(*source[:2], out_of_core=True)
    monkeypatch.undo()
    count = iter(range(1000))

    def read():
        return X[:500] + next(count)

    with pytest.raises(ValueError, match="the data changed at their source"):
        daskglm.fit([dask.delayed(read)()], [dask.delayed(y[:500])], out_of_core=True, client=None)


# ---- on a cluster


# ---- room


def test_columns_are_copied_from_one_read_and_then_asked_in_memory(source):
    streamed, reads = shard_of(source, 3 * 4800), source[2]
    assert len(streamed.runs) > 2
    kept = Local(partitions(*source[:2], classify=True).load(), threads=2).shard
    problem, columns = Problem(LossRef("logistic"), 1.0), np.array([1, 2, 5])
    w, v = np.linspace(-1, 1, 4), np.linspace(2, 1, 4)
    expected = reads() + 10
    for request in (
        Evaluate(w, 1, gram=True),
        HessianVector(v, (1, w)),
        Evaluate(v, 2, diagonal=True),
        EvaluateAlong(((1, w), (2, v)), np.array([[0.5, 0.5]]), np.array([[0.1]])),
    ):
        asked = (request, View(columns=Columns(1, columns)))
        got, wanted = streamed.answer(problem, *asked), kept.answer(problem, *asked)
        assert reads() == expected
        assert got.pop("waited") >= 0.0
        assert set(got) == set(wanted)
        for key in wanted:
            np.testing.assert_allclose(got[key], wanted[key], rtol=1e-12, atol=1e-12, err_msg=key)

    part = streamed.answer(problem, Evaluate(w, 3), View(Drawn(0.1, 3), Columns(1, columns)))
    assert part["rows"] == 50
    assert reads() == expected

    # all columns are read again meanwhile, and the copy stays; a larger set is read once more
    whole = Evaluate(np.zeros(7), 5)
    assert streamed.answer(problem, whole)["rows"] == 1000
    assert all(block.X is None for shard in streamed.shards for block in shard.blocks)
    again = streamed.answer(problem, Evaluate(w, 6), View(columns=Columns(1, columns)))
    assert again["rows"] == 500
    assert reads() == expected + 10
    more = (Evaluate(np.zeros(5), 1), View(columns=Columns(2, np.array([0, 1, 2, 5]))))
    # each run rounds its share
    rows = streamed.answer(problem, *more)["rows"]
    assert rows == pytest.approx(1000 + 1000 * 4 / 6, abs=len(streamed.runs))
    assert reads() == expected + 20
    copies = [shard.restricted for shard in streamed.shards]
    streamed.close()
    kept.close()
    assert all(copy.shard is None for copy in copies)


def test_moments_of_columns_are_summed_run_by_run(source):
    streamed = shard_of(source, 3 * 4800)
    reply = streamed.answer(Problem(LossRef("logistic"), 1.0), ColumnMoments())
    assert reply["rows"] == reply["weight"] == 1000
    np.testing.assert_allclose(reply["sums"], X.sum(axis=0), rtol=1e-11)
    np.testing.assert_allclose(reply["squares"], (X**2).sum(axis=0), rtol=1e-12)
    assert source[2]() == 20
    streamed.close()


@pytest.mark.parametrize("changed", [0, 1])
def test_any_partition_of_a_run_that_changed_is_told(changed):
    count = iter(range(1000))

    def read(k):
        return X[100 * k : 100 * k + 100] + (next(count) if k == changed else 0.0)

    rows = [dask.delayed(read, pure=False)(k) for k in range(2)]
    labels = [dask.delayed(y[100 * k : 100 * k + 100]) for k in range(2)]
    with pytest.raises(ValueError, match="the data changed at their source"):
        daskglm.fit(rows, labels, out_of_core=True, client=None)
