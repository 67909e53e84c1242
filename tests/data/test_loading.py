"""Rows are refused that the memory of the machine cannot hold, before they are loaded."""

import dask
import dask.array as da
import pytest

import daskglm
from daskglm.data.loading import check_room
from tests.conftest import make_problem

X, y = make_problem(1000, 6)


def test_room_in_this_process(monkeypatch):
    check_room(100, 0, "")
    check_room(100, 111, "")
    with pytest.raises(MemoryError):
        check_room(101, 110, "")
    monkeypatch.setattr("daskglm.data.loading.memory_of_machine", lambda: 40_000)
    with pytest.raises(MemoryError, match="this machine has"):
        daskglm.fit(da.from_array(X, chunks=(100, 6)), y)
    parts = (
        [dask.delayed(X[k::10]) for k in range(10)],
        [dask.delayed(y[k::10]) for k in range(10)],
    )
    with pytest.raises(MemoryError, match="estimated from 3 of 10 partitions"):
        daskglm.fit(*parts)
    monkeypatch.setattr("daskglm.data.loading.memory_of_machine", lambda: 60_000)
    assert daskglm.fit(*parts).report_.converged
