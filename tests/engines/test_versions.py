"""A worker that cannot import the package is named before any rows are sent to it."""

import logging
import sys

import dask.array as da
import pytest

import daskglm
from tests.conftest import make_problem

X, y = make_problem(200, 3)


def _forget():
    for name in [name for name in sys.modules if name.split(".")[0] == "daskglm"]:
        del sys.modules[name]
    sys.modules["daskglm"] = None  # what an import of it then raises is ModuleNotFoundError


@pytest.mark.slow
def test_a_worker_without_the_package_is_named():
    from distributed import Client, LocalCluster

    here = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with LocalCluster(
        n_workers=2, threads_per_worker=1, silence_logs=logging.CRITICAL, **here
    ) as cluster:
        with Client(cluster) as client:
            bare, whole = sorted(client.nthreads())
            client.run(_forget, workers=[bare])
            for data in ((X, y), (da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50))):
                with pytest.raises(RuntimeError, match="cannot import daskglm") as caught:
                    daskglm.fit(*data, client=client)
                assert bare in str(caught.value)
                assert whole not in str(caught.value)
                assert "ModuleNotFoundError" in str(caught.value)
            assert not client.run_on_scheduler(lambda dask_scheduler: dict(dask_scheduler.tasks))
            assert len(client.nthreads()) == 2, "neither has lost its link"
