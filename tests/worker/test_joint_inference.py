"""Sums for inference of all classes together: by differences, for every storage and division."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.inference_requests import InferenceSums
from daskglm.core.requests import LossRef, Problem
from daskglm.data.blocks import to_block
from daskglm.data.values import Place
from daskglm.worker import joint_inference
from daskglm.worker.shard import Shard

N, D, CLASSES = 700, 3, ("high", "low", "middle")
RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (N, D)) * (RNG.random((N, D)) < 0.6)
Y = np.array(CLASSES)[RNG.integers(0, 3, N)]
WEIGHT = RNG.integers(0, 4, N).astype(float)
OFFSET = RNG.uniform(-0.5, 0.5, N)
CLUSTERS = RNG.integers(0, 9, N)
MULTINOMIAL = np.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.0, -0.3])
ORDINAL = np.array([0.4, -0.3, 0.2, -0.6, 0.9])
SUMS = {"meat": True, "clusters": True}
# of the multinomial and the ordinal loss; their order is not that of the labels
CLASSES = ("middle", "high", "low"), ("low", "middle", "high")


def answer(request, rows=X, threads=1, cuts=(0, 150, 500, N), weight=WEIGHT):
    ordinal = len(request.w) == len(ORDINAL)
    loss = "ordinal" if ordinal else "multinomial"
    blocks = []
    for i, (lo, hi) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        run = slice(lo, hi)
        beside = None if weight is None else weight[run], OFFSET[run], None, CLUSTERS[run]
        blocks.append(to_block(rows[run], Y[run], *beside, place=Place(i), classify=True))
    shard = Shard(blocks, threads)
    try:
        return shard.answer(Problem(LossRef(loss), classes=CLASSES[ordinal]), request)
    finally:
        shard.close()


def asked(ordinal, **more):
    return InferenceSums(ORDINAL if ordinal else MULTINOMIAL, **more)


@pytest.mark.parametrize("ordinal", [False, True])
def test_derivatives_are_those_of_the_value(ordinal):
    request = asked(ordinal)
    reply = answer(request)
    p, h = len(request.w), 1e-5
    gradient, bread = np.empty(p), np.empty((p, p))
    for j in range(p):
        up, down = (answer(InferenceSums(request.w + t * np.eye(p)[j])) for t in (h, -h))
        gradient[j] = (up["value"] - down["value"]) / (2 * h)
        bread[j] = (up["gradient"] - down["gradient"]) / (2 * h)
    np.testing.assert_allclose(reply["gradient"], gradient, rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(reply["bread"], bread, rtol=1e-6, atol=1e-5)
    assert reply["weight"] == WEIGHT.sum()
    assert reply["used"] == np.count_nonzero(WEIGHT)
    assert reply["rows"] == N
    assert "meat" not in reply
    assert "clusters" not in reply


@pytest.mark.parametrize("ordinal", [False, True])
@pytest.mark.parametrize("storage", ["csr", "pattern", "float32", "threads", "runs", "one-block"])
def test_sums_do_not_depend_on_storage_or_division(ordinal, storage, monkeypatch):
    request, how, rows = asked(ordinal, **SUMS), {}, X
    rtol = 1e-11
    if storage == "csr":
        how["rows"] = sp.csr_matrix(X)
    elif storage == "pattern":
        rows = (X != 0) * 2.0
        how["rows"] = sp.csr_matrix(rows)
    elif storage == "float32":
        rows = X.astype(np.float32).astype(float)
        how["rows"] = X.astype(np.float32)
    elif storage == "threads":
        how["threads"] = 2
    elif storage == "one-block":
        how["cuts"] = (0, N)
    wanted = answer(request, rows)
    if storage == "runs":
        monkeypatch.setattr(joint_inference, "RUN_BYTES", 1)
    reply = answer(request, **how)
    for name in ("value", "gradient", "bread", "meat"):
        size = np.abs(wanted[name]).max()
        np.testing.assert_allclose(reply[name], wanted[name], rtol=rtol, atol=rtol * size)
    scores = dict(zip(wanted["clusters"].labels.tolist(), wanted["clusters"].sums, strict=True))
    for label, sums in zip(reply["clusters"].labels.tolist(), reply["clusters"].sums, strict=True):
        np.testing.assert_allclose(sums, scores[label], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("ordinal", [False, True])
def test_scores_add_up(ordinal):
    """Sums by cluster add up to the gradient; a weight of k counts as k rows."""
    reply = answer(asked(ordinal, **SUMS))
    np.testing.assert_allclose(reply["clusters"].sums.sum(axis=0), reply["gradient"], atol=1e-10)
    counted = answer(asked(ordinal, meat=True, frequency=True))["meat"]
    repeated = np.repeat(np.arange(N), WEIGHT.astype(int))
    n = len(repeated)
    blocks = [
        to_block(
            X[repeated], Y[repeated], None, OFFSET[repeated], None, place=Place(0), classify=True
        )
    ]
    shard = Shard(blocks, 1)
    loss = LossRef("ordinal" if ordinal else "multinomial")
    problem = Problem(loss, classes=CLASSES[ordinal])
    plain = shard.answer(problem, asked(ordinal, meat=True))
    shard.close()
    np.testing.assert_allclose(counted, plain["meat"], rtol=1e-11, atol=1e-10)
    assert plain["used"] == n
