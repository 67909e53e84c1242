"""Persisted rows: workers make blocks of what they hold, without a task, wherever the parts are."""

import contextlib
import os
import signal

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, wait

import daskglm
from daskglm.core.requests import Evaluate, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.factory import make_engine
from daskglm.engines.held_placement import HeldPlacement, held_parts
from daskglm.worker.device_placement import AS_THEY_ARE
from tests.engines.fits import (
    X,
    assert_same_fit,
    at_round,
    local,
    rows,
    settle,
    small_cluster,
    tasks,
    y,
)


def persisted(client, *values, workers=None):
    kept = client.persist(list(values), workers=workers)
    wait(kept)
    return kept


def placement_of(client, data):
    with contextlib.closing(make_engine(data, client, AS_THEY_ARE)) as engine:
        return engine.placement


def test_no_task_is_scheduled_and_nothing_moves(client):
    lazy = persisted(client, *rows())
    before, there = tasks(client), client.who_has(lazy[0])
    seen = []
    model = daskglm.fit(
        *lazy, client=client, tol=1e-12, callback=lambda record: seen.append(tasks(client))
    )
    assert_same_fit(model)
    assert seen
    assert {*seen} == {before}
    assert client.who_has(lazy[0]) == there
    # what is persisted stays the user's
    assert settle(client, before) == before
    np.testing.assert_array_equal(lazy[0].compute(), X)


def test_no_delayed_block_is_made_of_rows_that_workers_hold(client):
    lazy = persisted(client, *rows())
    data = partitions(*lazy, classify=True)
    with contextlib.closing(make_engine(data, client, AS_THEY_ARE)) as engine:
        assert engine.facts.n_rows == len(X)
    assert "lazy" not in vars(data)
    assert len(data.lazy) == lazy[0].npartitions


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_parts_that_lie_apart_come_together(client, storage, loss):
    """Labels and weights are on the other worker, and the rows stay where they are."""
    first, second = sorted(client.nthreads())
    made = sp.csr_matrix(X) if storage == "csr" else X
    chunks = [
        da.from_array(made[k : k + 500], chunks=-1, asarray=False) for k in range(0, 2000, 500)
    ]
    targets = y if loss == "logistic" else np.arange(2000) % 4
    weight, offset = np.linspace(0.5, 2.0, 2000), np.linspace(-0.2, 0.3, 2000)
    (there,) = persisted(client, da.concatenate(chunks), workers=[first])
    beside = [da.from_array(each, chunks=500) for each in (targets, weight, offset)]
    beside = persisted(client, *beside, workers=[second])
    how = {"loss": loss, "tol": 1e-12}
    model = daskglm.fit(
        there, beside[0], sample_weight=beside[1], offset=beside[2], client=client, **how
    )
    assert model.report_.workers == 1
    here = daskglm.fit(made, targets, sample_weight=weight, offset=offset, **how)
    np.testing.assert_allclose(model.coef_, here.coef_, rtol=1e-9)
    assert {at for held in client.who_has(there).values() for at in held} == {first}


def test_frames_with_a_column_of_labels(client):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)]).assign(label=y)
    (kept,) = persisted(client, dd.from_pandas(frame, npartitions=5))
    data = partitions(kept, "label", classify=True)
    assert isinstance(placement_of(client, data), HeldPlacement)
    assert_same_fit(daskglm.fit(kept, "label", client=client, tol=1e-12))


def test_bad_values_are_named(client):
    bad = X.copy()
    bad[700, 3] = np.nan
    kept = persisted(client, da.from_array(bad, chunks=(300, 8)), da.from_array(y, chunks=300))
    with pytest.raises(ValueError, match="X contains NaN: partition 2, row 100, column 3"):
        daskglm.fit(*kept, client=client)
    assert_same_fit(daskglm.fit(*persisted(client, *rows()), client=client, tol=1e-12))


@pytest.mark.parametrize(
    "made",
    [
        lambda client, X, y: (X, 1.0 - y),
        lambda client, X, y: (X[:, ::-1], y),
        lambda client, X, y: (X, y.rechunk(400)),
        lambda client, X, y: rows(),
    ],
    ids=["labels", "rows", "cut otherwise", "not persisted"],
)
def test_what_is_made_of_persisted_rows_is_made_by_tasks(client, made):
    lazy = made(client, *persisted(client, *rows()))
    assert held_parts(client, partitions(*lazy, classify=True)) is None
    assert daskglm.fit(*lazy, client=client, tol=1e-9).report_.objective == pytest.approx(
        local().report_.objective, rel=1e-6
    )


def test_rows_that_another_client_persisted_are_made_by_tasks(client):
    lazy = persisted(client, *rows())
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert held_parts(other, partitions(*lazy, classify=True)) is None
        assert held_parts(client, partitions(*lazy, classify=True)) is not None


def test_a_worker_killed_amid_a_fit_changes_nothing():
    with small_cluster() as cluster, Client(cluster) as client:
        lazy = persisted(client, *rows())
        victim = sorted(client.run(os.getpid).values())[0]
        kill = at_round(2, lambda: os.kill(victim, signal.SIGKILL))
        model = daskglm.fit(*lazy, solver="newton", tol=1e-12, callback=kill)
        assert_same_fit(model, 1e-5)
        assert model.report_.repairs >= 1


def test_rows_that_move_take_their_labels_along(client):
    data = partitions(*persisted(client, *rows()), classify=True)
    asked = Problem(LossRef("logistic"), 1.0), Evaluate(np.ones(9), 1)
    with contextlib.closing(make_engine(data, client, AS_THEY_ARE)) as engine:
        before = engine.total(*asked)
        (_, held), (taker, _) = sorted(engine._keys.items())
        engine._sync(engine.placement.move(dict.fromkeys(held, taker)))
        engine._sync(engine._place())
        assert [*engine._keys] == [taker]
        after = engine.total(*asked)
        assert after["rows"] == before["rows"] == 2000
        np.testing.assert_allclose(after["gradient"], before["gradient"], rtol=1e-9)
    held_parts(client, data)["X"][0].result()  # still there
