"""The ordinal loss on a device against the CPU's kernels: all that requests ask of it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.device import gpu
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.covering import first_by_default

PROBLEM, T = Problem(LossRef("ordinal"), classes=(0, 1, 2, 3)), np.array([-1.0, 0.2, 1.5])
ROWS = {
    "dense": (12, np.float64, False),
    "single": (70, np.float32, False),
    "sparse": (40, np.float64, True),
    "wide": (600, np.float32, True),
}


def both(name, n=401, weighted=True, limit=None):
    """The same rows in host memory and on a device."""
    d, dtype, sparse = ROWS[name]
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < (0.1 if sparse else 1.0))).astype(
        dtype
    )
    X, y = sp.csr_matrix(X) if sparse else X, rng.integers(0, 4, n)
    weight = rng.random(n).astype(np.float32).astype(float) if weighted else None
    offset = rng.standard_normal(n) if weighted else None
    shards = [
        Shard([to_block(X, y, weight, offset, place=Place(), classify=True)], 1, where=where)
        for where in (DeviceConfig(), DeviceConfig("cuda", limit))
    ]
    return *shards, X


def requests(d):
    w, v = np.random.default_rng(1).standard_normal((2, d)) / np.sqrt(d)
    shifts = np.array([0.5, -1.0, 2.0])
    lines = np.array([[0.5, 0.5], [1.0, 0.0], [2.0, -3.0]])
    return [
        Evaluate(np.append(w, T), 1, gram=True, exact=True),
        Evaluate(np.append(w, T), 1, diagonal=True),
        Evaluate(np.append(v, 2 * T), 2, beside=1),
        HessianVector(np.append(v, shifts), (1, np.append(w, T))),
        EvaluateAlong(
            ((1, np.append(w, T)), (2, np.append(v, T))), lines, np.stack([T, 2 * T, T + 1.0])
        ),
        EvaluateAlong(((3, np.append(w, T)),), np.array([[1.0]]), T[None]),
        Evaluate(np.append(w, T), 4, keep=False),
    ]


def agree(host, device, d, **tolerance):
    for request in requests(d):
        wanted, found = host.answer(PROBLEM, request), device.answer(PROBLEM, request)
        assert wanted.keys() == found.keys()
        for key, values in wanted.items():
            upper = np.triu if key == "gram" else np.asarray
            np.testing.assert_allclose(upper(found[key]), upper(values), **tolerance)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_answers_are_those_of_the_host(cupy, name, weighted):
    host, device, _ = both(name, weighted=weighted)
    agree(host, device, ROWS[name][0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", first_by_default(["dense", "wide"]))
def test_tiles_and_chunks_from_host_memory_change_nothing(cupy, monkeypatch, name):
    host, device, X = both(name, 5000)
    monkeypatch.setattr(gpu().several, "TILE_BYTES", 1 << 14)
    agree(host, device, X.shape[1], rtol=1e-9, atol=1e-9)
    nbytes = X.nbytes if name == "dense" else X.data.nbytes + X.indices.nbytes
    _, streamed, _ = both(name, 5000, limit=nbytes // 2 + 300_000)
    assert not gpu().is_resident(streamed.blocks[0].X)
    agree(host, streamed, X.shape[1], rtol=1e-9, atol=1e-9)


def test_grams_of_single_rows_are_summed_in_their_precision(cupy):
    host, device, X = both("single", 4000)
    w = np.ones(X.shape[1]) / 8.0
    exact = host.answer(PROBLEM, Evaluate(np.append(w, T), 1, gram=True, exact=True))["gram"]
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    errors = [
        np.abs(np.triu(found["gram"] - exact) / scale).max()
        for found in (
            device.answer(PROBLEM, Evaluate(np.append(w, T), 1, gram=True, exact=each))
            for each in (True, False)
        )
    ]
    assert errors[0] < 1e-13 < errors[1] < 1e-5


def test_broken_margins_are_seen(cupy):
    _, device, X = both("dense")
    for bad in (np.nan, np.inf):
        w = np.zeros(X.shape[1])
        w[3] = bad
        assert not np.isfinite(device.answer(PROBLEM, Evaluate(np.append(w, T), 1))["value"])


def test_far_margins_have_exact_terms(cupy):
    X, y = np.ones((4, 1)), np.array([0, 0, 0, 1])
    block = to_block(X, y, np.array([1.0, 1.0, 1.0, 0.0]), place=Place(), classify=True)
    device = Shard([block], 1, where=DeviceConfig("cuda"))
    found = device.answer(replace(PROBLEM, classes=(0, 1)), Evaluate(np.array([-40.0, 0.0]), 1))
    assert found["value"] == pytest.approx(3.0 * np.exp(-40.0), rel=1e-13)
    assert found["gradient"][1:] == pytest.approx(-3.0 * np.exp(-40.0), rel=1e-13)
