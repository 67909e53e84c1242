"""Requests about some columns reach all workers, which keep their copies and make lost ones anew."""

import os
import signal

import dask
import numpy as np
import pytest
from distributed import Client

from daskglm.core.column_requests import ColumnMoments
from daskglm.core.requests import Evaluate
from daskglm.core.view import Columns, Drawn, View
from daskglm.data.partitions import partitions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.cluster import Cluster
from daskglm.engines.local import Local
from daskglm.engines.stream_placement import StreamPlacement
from tests.covering import each_choice
from tests.engines.fits import small_cluster
from tests.worker.restricted import (
    COLUMNS,
    PROBLEM,
    answers,
    check,
    columns_of,
    draw,
    requests,
)

PARTS = 9
STEP = 900 // PARTS
MORE = np.array([0, 1, 4, 5, 8, 11])


def lazy(X, y, log=None):
    """Delayed partitions whose reads are counted in a file."""

    def read(k):
        if log is not None:
            with open(log, "a") as file:
                file.write("x")
        return X[STEP * k : STEP * k + STEP]

    rows = [dask.delayed(read, pure=False)(k) for k in range(PARTS)]
    labels = [dask.delayed(y[STEP * k : STEP * k + STEP]) for k in range(PARTS)]
    return partitions(rows, labels, classify=True).lazy


def engine_of(client, X, y, *, streamed, log=None):
    recipes = lazy(X, y, log)
    if streamed:
        return Cluster(client, StreamPlacement(client, recipes))
    return Cluster(client, BlockPlacement(client, recipes, pin=True))


def ask(engine, columns=COLUMNS, key=1):
    asked = requests(len(columns))
    return [
        engine.total(PROBLEM, request, View(columns=Columns(key, columns))) for request in asked
    ]


@each_choice
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_two_workers_answer_as_one_and_keep_their_copies(client, streamed, storage, tmp_path):
    X, y, *_ = draw(storage)
    log = tmp_path / "reads"
    log.touch()
    engine = engine_of(client, X, y, streamed=streamed, log=log)
    try:
        before = log.stat().st_size
        share = np.count_nonzero(columns_of(X, COLUMNS)) / np.count_nonzero(
            columns_of(X, range(12))
        )
        dense = columns_of(X, range(12))
        sent = engine.bytes_reduced
        got = ask(engine)
        check(got, answers(dense[:, COLUMNS], y))
        assert got[0]["rows"] == pytest.approx(900 * (1 + share), abs=2)
        assert got[1]["rows"] == pytest.approx(900 * share, abs=2)
        # gradient, gram and diagonal; product; gradient; slopes and Hessians: of each worker
        numbers = 6 + 36 + 6 + 6 + 6 + 2 * (1 + 3 + 9)
        assert engine.bytes_reduced - sent == 2 * 8 * numbers
        reads = log.stat().st_size - before
        assert reads == (PARTS if streamed else 0), "one read of the source"

        # all columns meanwhile
        assert engine.total(PROBLEM, Evaluate(np.zeros(13), 1))["rows"] == 900
        moments = engine.total(PROBLEM, ColumnMoments())
        np.testing.assert_allclose(moments["squares"], (dense**2).sum(axis=0), rtol=1e-12)
        assert moments["weight"] == 900
        part = engine.total(
            PROBLEM, Evaluate(np.zeros(6), 9), View(Drawn(0.2, 1), Columns(1, COLUMNS))
        )
        assert part["rows"] == pytest.approx(180 * share, abs=2)
        assert ask(engine)[0]["rows"] == pytest.approx(900 * share, abs=2)
        reads = log.stat().st_size - before
        assert reads == (3 * PARTS if streamed else 0)

        check(ask(engine, MORE, key=2), answers(dense[:, MORE], y))
    finally:
        engine.close()


def test_columns_that_are_not_there_are_refused_by_workers(client):
    X, y, *_ = draw()
    engine = engine_of(client, X, y, streamed=False)
    try:
        asked = (Evaluate(np.zeros(2), 1), View(columns=Columns(1, np.array([3, 12]))))
        with pytest.raises(ValueError, match="is 12, but X has 12 columns"):
            engine.total(PROBLEM, *asked)
    finally:
        engine.close()


@pytest.mark.parametrize("streamed", [False, True])
def test_blocks_that_move_are_copied_again(client, streamed):
    X, y, *_ = draw()
    engine = engine_of(client, X, y, streamed=streamed)
    try:
        ask(engine)
        (giver, held), (taker, there) = sorted(engine._keys.items())
        engine._sync(engine.placement.move({held[0]: taker, held[1]: taker}))
        engine._sync(engine._place())
        assert len(engine._keys[taker]) == len(there) + 2
        got = ask(engine)
        check(got, answers(X[:, COLUMNS], y))
        assert giver in engine._keys
        assert got[1]["rows"] == pytest.approx(900 * 5 / 12, abs=4)
    finally:
        engine.close()


@pytest.mark.parametrize("streamed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_killed_worker_takes_its_copies_with_it_and_the_others_make_them_anew(streamed):
    X, y, *_ = draw()
    wanted = answers(X[:, COLUMNS], y)
    with small_cluster() as cluster, Client(cluster) as client:
        engine = engine_of(client, X, y, streamed=streamed)
        try:
            check(ask(engine), wanted)
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)
            check(ask(engine), wanted)
            assert engine.repairs >= 1
            check(ask(engine, MORE, key=2), answers(X[:, MORE], y))
        finally:
            engine.close()


def test_this_process_answers_as_well():
    X, y, *_ = draw("csr")
    dense = columns_of(X, range(12))
    streamed = Local.reading(lazy(X, y), 10**9)
    for engine in (Local(partitions(X, y, classify=True).load()), streamed):
        check(ask(engine), answers(dense[:, COLUMNS], y))
        moments = engine.total(PROBLEM, ColumnMoments())
        np.testing.assert_allclose(moments["sums"], dense.sum(axis=0), rtol=1e-10, atol=1e-10)
        check(ask(engine, MORE, key=2), answers(dense[:, MORE], y))
        engine.close()
