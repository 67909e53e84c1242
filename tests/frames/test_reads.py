"""Partitions of tables are read once, kept no longer than wanted, and lost without harm."""

import os
import signal
import threading
import time

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskglm
from tests.frames.tables import counts

PARTS = 8
TABLE = counts(n=1600)
HOW = {"family": "poisson", "exposure": "years", "tol": 1e-10}
WANTED = daskglm.fit(TABLE, "claims", alpha=0.1, **HOW)


def lazy(folder, table=TABLE, during=lambda k: None):
    """A frame of as many partitions, each of which writes into a file who has read it."""

    def read(k):
        during(k)
        with open(folder / str(k), "a") as file:
            file.write(f"{os.getpid()}\n")
        return table.iloc[k::PARTS]

    parts = [dask.delayed(read)(k) for k in range(PARTS)]
    return dd.from_delayed(parts, meta=table.iloc[:0], verify_meta=False)


def readers(folder):
    return [path.read_text().split() for path in sorted(folder.iterdir())]


def reads(folder):
    return list(map(len, readers(folder)))


def in_memory(client, name):
    """Names of parts in the workers' memory."""

    def look(dask_scheduler):
        tasks = dask_scheduler.tasks.items()
        return [str(key) for key, task in tasks if task.who_has and name in str(key)]

    return client.run_on_scheduler(look)


FITS = {
    "penalised": {"alpha": 0.1},
    "checked for dependent columns": {"alpha": 0.0},
    "a path": {"alpha": [1.0, 0.1]},
}


@pytest.mark.parametrize("where", ["here", "on workers"])
@pytest.mark.parametrize("how", FITS.values(), ids=FITS)
def test_each_partition_is_read_once(request, tmp_path, where, how):
    client = request.getfixturevalue("client") if where == "on workers" else None
    found = daskglm.fit(lazy(tmp_path), "claims", client=client, **how, **HOW)
    assert reads(tmp_path) == [1] * PARTS
    model = found[-1] if isinstance(found, list) else found
    wanted = daskglm.fit(TABLE, "claims", alpha=model.get_params()["alpha"], **HOW)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-6)


def test_parts_leave_the_workers_memory_when_blocks_are_there(client, tmp_path):
    during = []

    def count(record):
        deadline = time.monotonic() + 20
        while (left := in_memory(client, "_read_part")) and time.monotonic() < deadline:
            time.sleep(0.05)
        during.append((len(left), len(in_memory(client, "_ordered_block"))))

    daskglm.fit(lazy(tmp_path), "claims", alpha=0.1, callback=count, client=client, **HOW)
    assert set(during) == {(0, PARTS)}
    assert reads(tmp_path) == [1] * PARTS


@pytest.mark.parametrize("where", ["here", "on workers"])
def test_nothing_is_kept_after_an_error(request, tmp_path, where):
    client = request.getfixturevalue("client") if where == "on workers" else None
    bad = TABLE.assign(power=TABLE.power.where(TABLE.index != 803))
    with pytest.raises(ValueError, match="partition 3, row 100, column 'power'"):
        daskglm.fit(lazy(tmp_path, bad), "claims", alpha=0.1, client=client, **HOW)
    if client is not None:
        deadline = time.monotonic() + 20
        while (left := in_memory(client, "part")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


def test_a_table_larger_than_this_machine_is_refused_while_it_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr("daskglm.data.loading.memory_of_machine", lambda: 60_000)
    with pytest.raises(MemoryError, match=r"estimated from 3 of 8 partitions.*out_of_core=True"):
        daskglm.fit(lazy(tmp_path), "claims", alpha=0.1, **HOW)
    assert len(list(tmp_path.iterdir())) == 3
    found = daskglm.fit(lazy(tmp_path), "claims", alpha=0.1, out_of_core=True, **HOW)
    np.testing.assert_allclose(found.coef_, WANTED.coef_, atol=1e-6)


@pytest.mark.slow
def test_a_table_larger_than_the_workers_is_refused_while_it_is_read(tmp_path):
    from distributed import Client, LocalCluster

    def read(k):
        (tmp_path / str(k)).touch()
        rng = np.random.default_rng(k)
        numbers = {f"x{j}": rng.normal(size=20_000) for j in range(50)}
        return pd.DataFrame(numbers).assign(area=rng.choice(list("abc"), 20_000), y=1.0)

    parts = [dask.delayed(read)(k) for k in range(200)]
    table = dd.from_delayed(parts, meta=read(0).iloc[:0], verify_meta=False)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="900MB", dashboard_address=None
        ) as cluster,
        Client(cluster),
        pytest.raises(MemoryError, match=r"estimated from \d+ of 200 partitions.*out_of_core=True"),
    ):
        daskglm.fit(table, "y", loss="squared")
    assert len(list(tmp_path.iterdir())) < 120


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["learning", "fitting"])
def test_a_worker_killed_is_replaced_by_the_other(tmp_path, phase):
    from distributed import Client, LocalCluster

    seen = []

    def during(k):
        time.sleep(0.3)  # so that there is a worker to be killed amid the pass

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        with Client(cluster) as client:
            victim = min(client.run(os.getpid).values())

            def kill():
                seen.append(victim)
                os.kill(victim, signal.SIGKILL)

            def at(record):
                if phase == "fitting" and record["iteration"] == 2:
                    kill()

            def kill_when_it_has_read():
                while not any(str(victim) in of_one for of_one in readers(tmp_path)):
                    time.sleep(0.01)
                kill()

            if phase == "learning":
                threading.Thread(target=kill_when_it_has_read, daemon=True).start()
            model = daskglm.fit(
                lazy(tmp_path, during=during),
                "claims",
                alpha=0.1,
                solver="lbfgs",
                callback=at,
                client=client,
                **HOW,
            )
    assert seen
    assert sum(reads(tmp_path)) > PARTS, "some were read again"
    np.testing.assert_allclose(model.coef_, WANTED.coef_, atol=1e-5)
