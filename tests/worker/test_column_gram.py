"""Hessians by a few coefficients: over blocks, threads, runs and storages, against NumPy."""

import numpy as np
import pytest

from daskglm.core.column_requests import ColumnGram
from daskglm.core.requests import Evaluate, LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.losses.table import LOSSES, find
from daskglm.worker import column_gram
from daskglm.worker.shard import Shard
from tests.worker.restricted import COLUMNS, PROBLEM, STORAGES, blocks_of, columns_of, draw

W = np.linspace(-0.5, 0.5, 13)
HUBER, HINGE = Problem(LossRef("huber", 1.35)), Problem(LossRef("squared_hinge"), 1.0)


def margins(X, offset):
    dense = columns_of(X, range(12))
    return dense @ W[:12] + W[12] + (0.0 if offset is None else offset)


def wanted(X, curvature):
    A = np.column_stack([columns_of(X, COLUMNS), np.ones(X.shape[0])])
    return (A * curvature[:, None]).T @ A


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_hessian_is_that_of_numpy(storage, beside, threads, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    monkeypatch.setattr(column_gram, "MOST", 70)
    X, y, weight, offset = draw(storage)
    if not beside:
        weight = offset = None
    shard = Shard(blocks_of(X, y, weight, offset), threads)
    shard.answer(PROBLEM, Evaluate(W, 3))
    reply = shard.answer(PROBLEM, ColumnGram((3, W), COLUMNS))
    p = 1.0 / (1.0 + np.exp(margins(X, offset)))
    curvature = (1.0 if weight is None else weight) * p * (1.0 - p)
    tolerance = 1e-5 if storage == "float32" else 1e-11  # of margins
    np.testing.assert_allclose(reply["gram"], wanted(X, curvature), rtol=tolerance, atol=tolerance)
    assert reply["rows"] == 900
    assert shard.answer(PROBLEM, ColumnGram((4, W), COLUMNS))["rows"] == 1800, "margins are read"
    shard.close()


def test_no_columns_leave_the_intercept():
    X, y, *_ = draw()
    shard = Shard(blocks_of(X, y), 1)
    reply = shard.answer(PROBLEM, ColumnGram((3, W), np.empty(0, np.int64)))
    p = 1.0 / (1.0 + np.exp(margins(X, None)))
    assert reply["gram"] == pytest.approx((p * (1.0 - p)).sum())
    shard.close()


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_a_hessian_that_overflows_in_threads_is_infinite_without_a_warning(storage, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    X, y, *_ = draw(storage)
    poisson = Problem(find("poisson").ref)
    w = np.append(np.zeros(12), 600.0)
    shard = Shard(blocks_of(X * 1e145, y), 2)
    reply = shard.answer(poisson, ColumnGram((3, w), COLUMNS))
    assert np.isinf(np.diagonal(reply["gram"])[:-1]).all()
    shard.close()


def test_a_reach_is_refused_for_other_losses():
    with pytest.raises(ValueError, match="reach=0.1, but the curvature of 'logistic'"):
        Shard([], 1).answer(PROBLEM, ColumnGram((3, W), COLUMNS, 0.1))


def test_a_worker_without_rows_answers():
    reply = Shard([], 1).answer(PROBLEM, ColumnGram((3, W), COLUMNS))
    np.testing.assert_array_equal(reply["gram"], np.zeros((6, 6)))


@pytest.mark.parametrize("problem", [HUBER, HINGE], ids=["huber", "squared_hinge"])
@pytest.mark.parametrize("reach", [1e-9, 1e-3, 0.3, 1.0, 10.0])
def test_rows_are_counted_that_keep_their_curvature(problem, reach):
    X, y, weight, offset = draw()
    weight[:50] = 0.0
    shard = Shard(blocks_of(X, y, weight, offset), 1)
    if problem is HUBER:
        given = X, y, weight, offset
        shard = Shard([to_block(*given, place=Place(0), classify=False)], 1)
    z = margins(X, offset)
    low, high = (
        (np.abs(part) <= 1.35 for part in (z - y - reach, z - y + reach))
        if problem is HUBER
        else (y * part < 1.0 for part in (z - reach, z + reach))
    )
    sure = low & high
    # rows count that keep it within twice the reach, and some of those between
    twice = np.abs(z - y) + 2 * reach <= 1.35 if problem is HUBER else y * z + 2 * reach < 1.0
    reply = shard.answer(problem, ColumnGram((3, W), COLUMNS, reach))["gram"]
    L = find(problem.loss.name).smoothness
    least, most = wanted(X, L * weight * twice), wanted(X, L * weight * sure)
    slack = 1e-12 * np.abs(most).max() * np.eye(6)
    assert np.linalg.eigvalsh(reply - least + slack)[0] >= 0.0
    assert np.linalg.eigvalsh(most - reply + slack)[0] >= 0.0
    shard.close()


TWO = [name for name, loss in LOSSES.items() if loss.has_two_curvatures]


@pytest.mark.parametrize("name", TWO)
def test_losses_have_the_two_curvatures_that_they_state(name):
    loss = find(name)
    z = np.linspace(-4.0, 4.0, 8001)
    slope = np.array([loss.row(1.0, each, loss.p1, loss.p2)[1] for each in z])
    curvature = np.diff(slope) / np.diff(z)
    bent = np.abs(curvature - loss.smoothness) < 1e-6
    assert (
        bent | (np.abs(curvature) < 1e-6) | np.append(False, bent[:-1] != bent[1:])
    ).mean() > 0.999
    changes = np.flatnonzero(np.diff(np.abs(curvature) > 0.5 * loss.smoothness))
    assert 1 <= len(changes) <= 2, "one interval"
