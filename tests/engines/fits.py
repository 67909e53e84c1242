"""Rows of dask arrays, clusters to break, and what a fit of them must give."""

import functools
import gc
import time

import dask.array as da
import numpy as np
from distributed import LocalCluster

import daskglm
from tests.conftest import make_problem

X, y = make_problem(2000, 8)


@functools.cache
def local():
    return daskglm.fit(X, y, tol=1e-12)


def rows(chunk=300):
    return da.from_array(X, chunks=(chunk, 8)), da.from_array(y, chunks=chunk)


def small_cluster(workers=3):
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
    )


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def settle(client, wanted=0):
    """Wait until the scheduler has forgotten all tasks but `wanted`."""
    for _ in range(100):
        gc.collect()
        if tasks(client) <= wanted:
            break
        time.sleep(0.05)
    return tasks(client)


def assert_same_fit(model, rtol=1e-9):
    np.testing.assert_allclose(model.coef_, local().coef_, rtol=rtol)
    np.testing.assert_allclose(model.intercept_, local().intercept_, rtol=rtol)


def at_round(number, action):
    """A callback that acts once, after so many iterations."""
    count = iter(range(10_000))
    return lambda record: action() if next(count) == number else None
