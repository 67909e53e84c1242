"""Blocks in the memory of workers: they stay where they are, and lost ones are loaded again."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from distributed import Client, wait

import daskglm
from daskglm.data.partitions import partitions
from daskglm.engines.block_placement import BlockPlacement
from daskglm.engines.cluster import Cluster, DataLost
from tests.engines.fits import (
    X,
    assert_same_fit,
    at_round,
    rows,
    small_cluster,
    y,
)


def test_persisted_data_stay_where_they_are(client):
    lazy = [value.persist() for value in rows()]
    wait(lazy)
    before, labels = (
        client.who_has(lazy[0]),
        {key[1]: at for key, at in client.who_has(lazy[1]).items()},
    )
    engine = Cluster(
        client, BlockPlacement(client, partitions(*lazy, classify=True).lazy, pin=False)
    )
    holders = {a for a, keys in engine._keys.items() if keys}
    assert holders == {a for at in before.values() for a in at}
    after = client.who_has(lazy[0])
    # where rows and their labels lie apart Dask moves one of them, either
    together = [key for key, at in before.items() if len(at) == 1 and labels[key[1]] == at]
    assert all(set(before[key]) <= set(after[key]) for key in together)
    engine.close()


@pytest.mark.slow
def test_rows_that_cannot_be_loaded_again_are_an_error():
    with small_cluster(2) as cluster, Client(cluster) as client:
        victim = sorted(client.run(os.getpid).values())[0]
        with pytest.raises(DataLost, match="lost"):
            daskglm.fit(
                X,
                y,
                client=client,
                solver="lbfgs",
                tol=1e-12,
                callback=at_round(2, lambda: os.kill(victim, 9)),
            )


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("killed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_workers_killed_while_loading(killed):
    """Those that come for them have other addresses, of which Dask's tasks know nothing."""
    with small_cluster(2) as cluster, Client(cluster) as client:
        victims = sorted(client.run(os.getpid).values())[:killed]

        def slow(block):
            time.sleep(0.3)
            return block

        lazy = rows()[0].map_blocks(slow, dtype=float, meta=np.empty((0, 0)))

        def kill():
            while not any(client.processing().values()):
                time.sleep(0.05)
            time.sleep(0.5)
            for victim in victims:
                os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        assert_same_fit(daskglm.fit(lazy, rows()[1], tol=1e-12))
        killer.join()
