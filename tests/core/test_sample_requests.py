"""Rows of samples come in the order of the data, and their arrays as they were."""

import math
import pickle

import numpy as np
import pytest

from daskglm.core.facts import DataSummary
from daskglm.core.sample_requests import ALIGNED, ROUND_BYTES, DrawnRows, Packed, bytes_of, fitting
from daskglm.core.view import Drawn


def test_parts_are_in_the_order_of_the_data_whichever_worker_answered_first():
    late = DrawnRows.pack({(0, 1, 0): "c", (1, 1, 0): "f"})
    early = DrawnRows.pack({(1, 0, 0): "d", (0, 0, 0): "a", (0, 0, 50): "b", (1, 0, 50): "e"})
    assert (late + early).parts() == {0: ["a", "b", "c"], 1: ["d", "e", "f"]}
    assert (late + early).nbytes == late.nbytes + early.nbytes > 0
    assert (DrawnRows.pack({}) + late).parts() == {0: ["c"], 1: ["f"]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_arrays_are_packed_into_one(dtype):
    rng = np.random.default_rng(0)
    arrays = [(10 * rng.standard_normal((n, 3))).astype(dtype) for n in (5, 0, 7, 100)]
    packed = pickle.loads(pickle.dumps(Packed.of({"rows": arrays, "name": "x"})))
    found = packed.unpack()
    assert found["name"] == "x"
    for one, other in zip(found["rows"], arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert packed.nbytes >= sum(each.nbytes for each in arrays)
    assert all(place.start % ALIGNED == 0 for place in packed.places)


def test_the_smallest_parts_travel_while_they_fit():
    facts = DataSummary(n_rows=1000, nbytes=68_000)
    parts = Drawn(0.5, 3), Drawn(0.1, 1), Drawn(0.2, 2)
    assert bytes_of(0.1, facts) == pytest.approx(10_000)
    often = dict.fromkeys(parts, math.inf)
    assert fitting(often, facts, 30_000) == (parts[1], parts[2])
    assert fitting(often, facts, 80_000) == (parts[1], parts[2], parts[0])
    assert fitting(often, facts, 9_000) == ()


def test_parts_travel_if_that_is_sooner_than_rounds():
    facts = DataSummary(n_rows=1000, nbytes=10 * ROUND_BYTES)
    parts = Drawn(0.3, 1), Drawn(0.2, 2), Drawn(0.1, 3)
    often, most = {parts[0]: math.inf, parts[1]: 3, parts[2]: 1}, 100 * ROUND_BYTES
    assert fitting(often, facts, most) == (parts[1], parts[0]), "32 bytes a row are beside the rows"
    assert fitting(often | {parts[1]: 2, parts[2]: 2}, facts, most) == (parts[2], parts[0])
