"""All partitions go to the scheduler in one graph, and each worker loads its own."""

import dask
import pytest

import daskglm
from daskglm.data.partitions import partitions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.cluster import Cluster
from daskglm.engines.one_graph import one_graph
from tests.engines.fits import X, assert_same_fit, rows, y


@pytest.fixture
def sent(client, monkeypatch):
    """Operations that reach the scheduler from this client, in order."""
    seen, send = [], client._send_to_scheduler
    monkeypatch.setattr(
        client, "_send_to_scheduler", lambda message: (seen.append(message["op"]), send(message))
    )
    return seen


def test_a_source_is_sent_once_however_many_workers_load_it(client, sent):
    assert_same_fit(daskglm.fit(*rows(), client=client, tol=1e-12))
    assert sent.count("update-graph") == 1


def test_each_worker_loads_neighbours(client):
    lazy = partitions(*rows(250), classify=True).lazy
    engine = Cluster(client, BlockPlacement(client, lazy, pin=True))
    try:
        keys = [each.key for each in lazy]
        assert sorted(keys.index(held[0]) for held in engine._keys.values()) == [0, 4]
        assert all(held == sorted(held, key=keys.index) for held in engine._keys.values())
    finally:
        engine.close()


def test_tasks_name_the_worker_of_their_partition_and_shared_ones_the_first():
    lazy = partitions(*rows(500), classify=True).lazy
    graph = one_graph({"here": lazy[:2], "there": lazy[2:4]})
    (layer,) = graph.layers.values()
    assert {each.key for each in lazy[:4]} <= {*layer}
    found = {key: layer.annotations["workers"](key) for key in layer}
    assert [found[each.key] for each in lazy] == [["here"]] * 2 + [["there"]] * 2
    alone = one_graph({"here": lazy[:1]})
    assert len(alone) < len(graph), "what is not needed is left out"


def _part(values, first):
    return values[first : first + 500]


def test_what_users_have_annotated_is_submitted_as_it_is(client, sent):
    part = dask.delayed(_part)
    with dask.annotate(retries=3):
        lazy = [part(X, first) for first in range(0, 2000, 500)]
    labels = [part(y, first) for first in range(0, 2000, 500)]
    assert one_graph({"here": partitions(lazy, labels, classify=True).lazy}) is None
    assert_same_fit(daskglm.fit(lazy, labels, client=client, tol=1e-12))
    assert sent.count("update-graph") == 2
