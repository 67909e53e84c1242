"""Workers that read their rows at every pass."""

import os
import signal
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskglm
from tests.conftest import make_problem

X, y = make_problem(1000, 6)


def write_parts(frame, folder):
    folder.mkdir()
    for k in range(6):
        frame.iloc[k::6].to_parquet(folder / f"{k}.parquet", index=False)


@pytest.mark.slow
def test_a_worker_killed_while_streaming_is_replaced_by_the_others(tmp_path):
    from distributed import Client, LocalCluster

    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=y)
    write_parts(frame, tmp_path / "p")
    with LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        with Client(cluster) as client:
            victim = min(client.run(os.getpid).values())

            def kill(record):
                if record["iteration"] == 2:
                    os.kill(victim, signal.SIGKILL)

            table = dd.read_parquet(tmp_path / "p")
            model = daskglm.fit(
                table, "label", out_of_core=True, tol=1e-10, solver="lbfgs", callback=kill
            )
            assert model.report_.repairs >= 1
    here = daskglm.fit(X, y, tol=1e-10, solver="lbfgs").report_
    assert model.report_.passes <= here.passes + 4, "the others remember their own rows"
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, tol=1e-12).coef_, atol=1e-4)


@pytest.fixture
def small_workers():
    from distributed import Client, LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="900MB", dashboard_address=None
    ) as cluster:
        with Client(cluster) as client:
            yield client


@pytest.mark.slow
def test_data_beyond_the_memory_of_workers_are_refused_before_loading(small_workers, tmp_path):
    read = tmp_path / "reads"
    read.mkdir()

    def block(k, rows):
        (read / str(k)).touch()
        return np.random.default_rng(k).standard_normal((rows, 50))

    parts = [
        da.from_delayed(dask.delayed(block)(k, 40_000), (40_000, 50), float) for k in range(200)
    ]
    big = da.concatenate(parts)
    t = da.ones(big.shape[0], chunks=40_000)
    with pytest.raises(
        MemoryError,
        match=r"need 3.28 GiB of memory: 2.98 GiB of rows.*the 2 workers may use together 1.34",
    ):
        daskglm.fit(big, t)
    assert not list(read.iterdir()), "nothing was loaded"
    # of unknown size: some partitions tell
    unknown = [dask.delayed(block)(k, 40_000) for k in range(200)]
    labels = [dask.delayed(np.arange)(40_000) for _ in unknown]
    with pytest.raises(
        MemoryError, match=r"estimated from \d+ of 200 partitions.*out_of_core=True"
    ):
        daskglm.fit(unknown, labels, loss="squared")
    deadline = time.monotonic() + 10
    while (
        small_workers.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert len(list(read.iterdir())) < 120


@pytest.mark.nightly
def test_data_beyond_the_memory_of_workers_are_streamed(small_workers):
    def block(k):
        return np.random.default_rng(k).standard_normal((40_000, 50)).astype(np.float32)

    def labels(k):
        z = block(k) @ np.linspace(-1, 1, 50)
        return (z + np.random.default_rng(k).logistic(size=len(z)) > 0).astype(float)

    rows = [dask.delayed(block)(k) for k in range(240)]  # 1.9 GB, of 1.8
    model = daskglm.fit(
        rows,
        [dask.delayed(labels)(k) for k in range(240)],
        solver="newton",
        tol=1e-4,
        out_of_core=True,
    )
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_[0], np.linspace(-1, 1, 50), atol=0.02)
