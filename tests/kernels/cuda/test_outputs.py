"""The softmax on a device against NumPy: all that requests ask of it, in every storage of rows."""

from dataclasses import replace

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.losses.table import find
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.covering import each_choice
from tests.kernels.softmax_case import draw, sums

PROBLEM = Problem(find("multinomial").ref, classes=(0, 1, 2, 3))
ROWS = {
    "dense": (7, "dense", np.float64),
    "single": (70, "dense", np.float32),
    "sparse": (30, "csr", np.float64),
    "wide": (600, "csr", np.float32),
    "pattern": (600, "pattern", np.float64),
}


def shard_of(X, codes, weight, limit=None):
    block = to_block(X, codes, weight, place=Place(), classify=True)
    return Shard([block], 1, where=DeviceConfig("cuda", limit))


@each_choice
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_sums_are_those_of_numpy(cupy, name, weighted):
    d, kind, dtype = ROWS[name]
    X, codes, weight, W, V = draw(321, d, kind=kind, dtype=dtype)
    weight = weight if weighted else np.ones(len(codes))
    if dtype == np.float32:  # as a device stores them
        weight = weight.astype(np.float32).astype(float)
    device, wanted = (
        shard_of(X, codes, weight if weighted else None),
        sums(X, codes, weight, W, V),
    )
    found = device.answer(PROBLEM, Evaluate(W, 1, gram=True, exact=True))
    assert found["value"] == pytest.approx(wanted["value"], rel=1e-13)
    np.testing.assert_allclose(found["gradient"], wanted["gradient"], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.triu(found["grams"]), np.triu(wanted["grams"]), atol=1e-9)
    product = device.answer(PROBLEM, HessianVector(V, (1, W)))
    np.testing.assert_allclose(product["product"], wanted["product"], rtol=1e-10, atol=1e-9)
    assert product["rows"] == 321


def test_grams_of_single_rows_are_summed_in_their_precision(cupy):
    X, codes, weight, W, V = draw(4000, 20, dtype=np.float32)
    device, wanted = shard_of(X, codes, None), sums(X, codes, np.ones(len(codes)), W, V)
    errors = []
    for exact in (False, True):
        found = device.answer(PROBLEM, Evaluate(W, 1, gram=True, exact=exact))
        diagonal = np.sqrt(np.einsum("qjj->qj", wanted["grams"]))
        scale = diagonal[:, :, None] * diagonal[:, None, :]
        errors.append(np.abs(np.triu(found["grams"] - wanted["grams"]) / scale).max())
    assert errors[1] < 1e-13 < errors[0] < 1e-5


@pytest.mark.parametrize("name", ROWS)
def test_grams_of_classes_and_diagonals_along_directions(cupy, name):
    d, kind, dtype = ROWS[name]
    X, codes, _, W, V = draw(321, d, kind=kind, dtype=dtype)
    host = Shard([to_block(X, codes, place=Place(), classify=True)], 1)
    device, basis = (
        shard_of(X, codes, None),
        np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0],
    )
    for request in (
        Evaluate(W, 1, diagonal=True, basis=basis[:, :3].copy()),
        Evaluate(W, 1, gram=True, by_class=True, exact=True),
    ):
        wanted, found = host.answer(PROBLEM, request), device.answer(PROBLEM, request)
        assert wanted.keys() == found.keys()
        for key, values in wanted.items():
            upper = np.triu if key == "grams" else np.asarray
            np.testing.assert_allclose(upper(found[key]), upper(values), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_along_a_line_with_shifts(cupy, kept):
    X, codes, weight, W, V = draw()
    host = Shard([to_block(X, codes, weight, place=Place(), classify=True)], 1)
    device = shard_of(X, codes, weight)
    rng = np.random.default_rng(1)
    request = EvaluateAlong(((1, W), (2, V)), rng.normal(size=(3, 2)), rng.normal(size=(3, 4)))
    for shard in (host, device):
        for token, at in request.points:
            shard.answer(PROBLEM, Evaluate(at, token, keep=kept, beside=1))
    wanted, found = host.answer(PROBLEM, request), device.answer(PROBLEM, request)
    assert wanted.keys() == found.keys()
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_tiles_and_chunks_from_host_memory_change_nothing(cupy, monkeypatch):
    for name in ("dense", "wide"):
        d, kind, dtype = ROWS[name]
        X, codes, weight, W, V = draw(5000, d, kind=kind, dtype=dtype)
        request = Evaluate(W, 1, gram=name == "dense", exact=True)
        whole = shard_of(X, codes, weight).answer(PROBLEM, request)
        size = X.nbytes if kind == "dense" else X.data.nbytes + X.indices.nbytes
        streamed = shard_of(X, codes, weight, size // 2 + 88 * len(codes))
        assert not gpu().is_resident(streamed.blocks[0].X)
        monkeypatch.setattr(gpu().several, "TILE_BYTES", 1 << 14)
        for shard in (shard_of(X, codes, weight), streamed):
            found = shard.answer(PROBLEM, request)
            for key, values in whole.items():
                np.testing.assert_allclose(found[key], values, rtol=1e-9, atol=1e-9)
        monkeypatch.undo()


def test_large_and_broken_margins(cupy):
    X, codes, _, W, V = draw(100)
    device = shard_of(X, codes, None)
    W = 1e3 * W
    found = device.answer(PROBLEM, Evaluate(W, 1))
    wanted = sums(X, codes, np.ones(100), W, V)
    assert found["value"] == pytest.approx(wanted["value"], rel=1e-12)
    np.testing.assert_allclose(found["gradient"], wanted["gradient"], rtol=1e-9, atol=1e-9)
    for bad in (np.nan, np.inf, 1e308):
        W[1, 2] = bad
        assert not np.isfinite(device.answer(PROBLEM, Evaluate(W, 2))["value"])


def test_a_small_share_of_the_other_classes_is_not_lost(cupy):
    X, codes, W = np.ones((5, 1)), np.array([0, 1, 2, 0, 0]), np.zeros((3, 2))
    W[0] = [40.0, 0.0]
    weight = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    device = shard_of(X, codes, weight)
    found = device.answer(replace(PROBLEM, classes=(0, 1, 2)), Evaluate(W, 1))
    assert found["value"] == pytest.approx(3.0 * 2.0 * np.exp(-40.0), rel=1e-12)
    np.testing.assert_allclose(found["gradient"][0], -6.0 * np.exp(-40.0), rtol=1e-12)
