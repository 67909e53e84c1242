"""Where a fit runs: in this process, or on the cluster of a client."""

import asyncio

import numpy as np
import pytest
from distributed import Client, get_client

import daskglm
from tests.engines.fits import (
    X,
    assert_same_fit,
    rows,
    y,
)


def test_data_in_memory_go_to_a_client_that_is_named(client):
    assert daskglm.fit(X, y).report_.bytes_reduced == 0
    model = daskglm.fit(X, y, client=client, tol=1e-12)
    assert_same_fit(model)
    assert model.report_.workers == 2
    with pytest.raises(ValueError, match=r"NaN: row 1,999, column 7"):
        daskglm.fit(
            np.where(np.arange(16000).reshape(2000, 8) == 15999, np.nan, X), y, client=client
        )


def test_a_fit_inside_a_task(client):
    def task():
        assert get_client() is not None
        return daskglm.fit(*rows(), tol=1e-12)

    for model in client.gather([client.submit(task, pure=False) for _ in range(3)]):
        assert_same_fit(model)
        assert model.report_.workers == 2


def test_an_asynchronous_client(_cluster):
    async def main():
        async with Client(_cluster.scheduler_address, asynchronous=True) as client:
            one = await daskglm.fit(*rows(), tol=1e-12, client=client)
            two = await daskglm.LogisticRegression(tol=1e-12).fit(*rows())
            both = await asyncio.gather(
                *(daskglm.fit(*rows(), tol=1e-12, client=client) for _ in range(2))
            )
            return [one, two, *both]

    for model in asyncio.run(main()):
        assert_same_fit(model)
        assert model.report_.workers == 2


def test_dask_data_without_a_client_run_in_process():
    model = daskglm.fit(*rows(), tol=1e-12)
    assert_same_fit(model)
    assert model.report_.bytes_reduced == 0
