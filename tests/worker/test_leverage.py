"""Scores over powers of 1 - h, h the leverage, against NumPy, for every storage of rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.inference_requests import LeverageMeat
from daskglm.core.requests import EvaluateAlong, LossRef, Problem
from daskglm.worker import inference, leverage
from daskglm.worker.leverage import quadratic_forms
from tests.worker.test_inference import (
    OFFSET,
    PROBLEM,
    STORAGES,
    WEIGHT,
    D,
    N,
    W,
    X,
    Y,
    shard,
)


def expected(request, rows=X, weight=WEIGHT, offset=OFFSET):
    size = len(request.w)
    x = np.column_stack([rows, np.ones(N)])[:, :size]
    mu = np.exp(x @ request.w + offset)
    g, f = (mu - Y) / (1 + 0.5 * mu), mu / (1 + 0.5 * mu)
    if request.curvature == "observed":
        f = (1 + 0.5 * Y) * mu / (1 + 0.5 * mu) ** 2
    h = np.einsum("ij,jk,ik->i", x, request.inverse, x) * f
    h = h if request.frequency else weight * h
    squares = (weight if request.frequency else weight**2) * g**2
    squares = np.where(weight > 0, squares / (1 - h) ** (2 * request.power), 0.0)
    return np.triu(x.T @ (x * squares[:, None]))


def inverse_of(rows=X, size=D + 1, w=W):
    x = np.column_stack([rows, np.ones(N)])[:, :size]
    mu = np.exp(x @ w[:size] + OFFSET)
    return np.linalg.inv(x.T @ (x * (WEIGHT * mu / (1 + 0.5 * mu))[:, None]))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("storage", list(STORAGES))
def test_sums_of_every_storage(storage, threads, monkeypatch):
    monkeypatch.setattr(inference, "RUN_BYTES", 1)  # runs of 64 rows
    monkeypatch.setattr(leverage, "RUN_BYTES", 1)
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    rows = STORAGES[storage](X)
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, float)
    request = LeverageMeat(W, inverse_of(dense), 1.0)
    reply = shard(rows, threads).answer(PROBLEM, request)
    np.testing.assert_allclose(np.triu(reply["meat"]), expected(request, dense), rtol=1e-10)
    assert reply["full"] == 0
    assert reply["rows"] == N


@pytest.mark.parametrize("frequency", [False, True])
@pytest.mark.parametrize("curvature", ["fisher", "observed"])
@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("size", [D, D + 1])
def test_powers_curvatures_frequencies_and_intercepts(power, curvature, frequency, size):
    request = LeverageMeat(W[:size], inverse_of(size=size), power, curvature, frequency)
    for rows in (X, sp.csr_matrix(X)):
        reply = shard(rows).answer(PROBLEM, request)
        np.testing.assert_allclose(np.triu(reply["meat"]), expected(request), rtol=1e-10)


def test_rows_that_the_fit_follows_are_counted_and_left_out():
    rows = np.column_stack([X[:, : D - 1], np.arange(N) == np.flatnonzero(WEIGHT)[3]]) * 1.0
    request = LeverageMeat(W, inverse_of(rows), 1.0)
    reply = shard(rows).answer(PROBLEM, request)
    assert reply["full"] == 1
    assert np.isfinite(reply["meat"]).all()
    assert abs(reply["meat"][D - 1, D - 1]) < 1e-20


@pytest.mark.parametrize("size", [D, D + 1])
def test_quadratic_forms(size):
    P = inverse_of(size=size)
    x = np.column_stack([X, np.ones(N)])[:, :size]
    wanted = np.einsum("ij,jk,ik->i", x, P, x)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(quadratic_forms(rows, P), wanted, rtol=1e-11)
    assert len(quadratic_forms(X[:0], P)) == 0


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("offset", [None, OFFSET])
def test_sums_of_one_margin(weight, offset):
    s = np.ones(N) if weight is None else weight
    mu = np.exp(0.3 + (0.0 if offset is None else offset)) * np.ones(N)
    terms = np.where(Y > 0, Y * np.log(np.maximum(Y, 1.0) / mu), 0.0) - Y + mu
    reply = shard(weight=weight, offset=offset).answer(
        Problem(LossRef("poisson")),
        EvaluateAlong((), np.empty((2, 0)), np.array([[1.0], [0.3]])),
    )
    wanted = {"values": s @ terms, "slopes": s @ (mu - Y), "hessians": s @ mu}
    assert reply.keys() == {*wanted, "rows"}
    for name, value in wanted.items():
        assert reply[name].shape == (2, 1, 1)[: {"values": 1, "slopes": 2}.get(name, 3)]
        assert reply[name][1] == pytest.approx(value, rel=1e-12)
