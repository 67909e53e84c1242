"""Sums for covariances, against NumPy, for every storage of rows and any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.inference_requests import InferenceSums
from daskglm.core.requests import LossRef, Problem, ResidualSums
from daskglm.data.blocks import to_block
from daskglm.data.values import Place
from daskglm.losses.table import LOSSES
from daskglm.worker import inference
from daskglm.worker.shard import Shard

N, D = 900, 5
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (N, D)) * (RNG.random((N, D)) < 0.6)
Y = RNG.poisson(np.exp(X.sum(axis=1) / 3)).astype(float)
WEIGHT = RNG.integers(0, 4, N).astype(float)
OFFSET = RNG.uniform(-0.5, 0.5, N)
CLUSTERS = RNG.choice(["north", "south", "east", "west", "nowhere"], N)
W = np.linspace(-0.3, 0.4, D + 1)
PROBLEM = Problem(LossRef("negative_binomial", 0.5))
WEIGHT[CLUSTERS == "nowhere"] = 0.0


def shard(rows=X, threads=1, cuts=(0, 200, 650, N), weight=WEIGHT, offset=OFFSET, y=Y):
    def part(values, run):
        return None if values is None else values[run]

    blocks = []
    for i, (lo, hi) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        run = slice(lo, hi)
        beside = part(weight, run), part(offset, run), None, CLUSTERS[run]
        blocks.append(to_block(rows[run], y[run], *beside, place=Place(i), classify=False))
    return Shard(blocks, threads)


def expected(rows=X, weight=WEIGHT, offset=OFFSET, size=D + 1, frequency=False):
    x = np.column_stack([rows, np.ones(N)])[:, :size]
    mu = np.exp(x @ W[:size] + offset)
    g, f = (mu - Y) / (1 + 0.5 * mu), mu / (1 + 0.5 * mu)
    h = (1 + 0.5 * Y) * mu / (1 + 0.5 * mu) ** 2
    scores = weight * g
    meat = x.T @ (x * (weight * g**2 if frequency else scores**2)[:, None])
    return {
        "gradient": x.T @ scores,
        "bread": np.triu(x.T @ (x * (weight * f)[:, None])),
        "observed": np.triu(x.T @ (x * (weight * h)[:, None])),
        "meat": np.triu(meat),
        "pearson": (weight * g**2 / f).sum(),
        "weight": weight.sum(),
        "used": np.count_nonzero(weight),
        "clusters": {
            c: x[c == CLUSTERS].T @ scores[c == CLUSTERS] for c in set(CLUSTERS) - {"nowhere"}
        },
    }


def check(reply, wanted, rtol=1e-11, bread="bread"):
    for name in ("gradient", "pearson", "weight", "used"):
        np.testing.assert_allclose(reply[name], wanted[name], rtol=rtol, atol=1e-10)
    for name, of in (("bread", bread), ("meat", "meat")):
        np.testing.assert_allclose(np.triu(reply[name]), wanted[of], rtol=rtol, atol=1e-10)
    found = dict(zip(reply["clusters"].labels, reply["clusters"].sums, strict=True))
    assert found.keys() == wanted["clusters"].keys()
    for label, row in found.items():
        np.testing.assert_allclose(row, wanted["clusters"][label], rtol=rtol, atol=1e-10)
    assert reply["rows"] == N


ALL = InferenceSums(W, meat=True, clusters=True)
STORAGES = {
    "dense": np.asarray,
    "float32": lambda rows: rows.astype(np.float32),
    "csr": sp.csr_matrix,
    "pattern": lambda rows: sp.csr_matrix((rows != 0) * 0.5),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("storage", list(STORAGES))
def test_sums_of_every_storage(storage, threads, monkeypatch):
    monkeypatch.setattr(inference, "RUN_BYTES", 1)  # runs of 64 rows
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    rows = STORAGES[storage](X)
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, float)
    check(shard(rows, threads).answer(PROBLEM, ALL), expected(dense))


def test_observed_hessians_and_frequencies():
    observed = InferenceSums(W, "observed", meat=True, frequency=True, clusters=True)
    check(shard().answer(PROBLEM, observed), expected(frequency=True), bread="observed")


def test_without_an_intercept_weights_and_offsets():
    request = InferenceSums(W[:D], meat=True, clusters=True)
    reply = shard(weight=None, offset=None).answer(PROBLEM, request)
    x = {**expected(weight=np.ones(N), offset=0.0, size=D)}
    x["clusters"]["nowhere"] = None
    scores = X.T * ((np.exp(X @ W[:D]) - Y) / (1 + 0.5 * np.exp(X @ W[:D])))
    x["clusters"]["nowhere"] = scores[:, CLUSTERS == "nowhere"].sum(axis=1)
    check(reply, x)


def test_what_is_not_asked_for_is_not_summed():
    reply = shard().answer(PROBLEM, InferenceSums(W))
    assert "meat" not in reply
    assert "clusters" not in reply


def test_grams_of_float32_rows_are_summed_exactly():
    rows = (1000.0 + X).astype(np.float32)
    reply = shard(rows, offset=np.full(N, -1000.0 * W[:D].sum())).answer(PROBLEM, InferenceSums(W))
    exact = expected(rows.astype(float), offset=-1000.0 * W[:D].sum())["bread"]
    np.testing.assert_allclose(np.triu(reply["bread"]), exact, rtol=1e-12)


def test_rows_without_clusters_are_told():
    blocks = [to_block(X, Y, place=Place(), classify=False)]
    with pytest.raises(ValueError, match="wants the cluster of each row"):
        Shard(blocks, 1).answer(PROBLEM, ALL)


def test_few_threads_where_sums_are_large(monkeypatch):
    monkeypatch.setattr("daskglm.worker.asked.SUMS_BYTES", 1)
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    many = shard(threads=3)
    asked = []
    each = many._each
    many._each = lambda work, threads=None: asked.append(threads) or each(work, threads)
    check(many.answer(PROBLEM, ALL), expected())
    assert asked == [1]


@pytest.mark.parametrize("weight", [WEIGHT, None])
@pytest.mark.parametrize("frequency", [False, True])
@pytest.mark.parametrize("name", ["poisson", "gamma", "squared", "inverse_gaussian"])
def test_saturated_likelihoods(name, frequency, weight):
    y = Y + 1.0
    problem = Problem(LOSSES[name].ref)
    family, phi = LOSSES[name].family, 1.0 if name == "poisson" else 0.7
    reply = shard(weight=weight, offset=None, y=y).answer(
        problem, ResidualSums(None, phi, frequency=frequency)
    )
    total = 0.0
    for y_i, s in zip(y, np.ones(N) if weight is None else weight, strict=True):
        if s and (frequency or name == "poisson"):
            total += s * family.log_density(y_i, y_i, 1.0, phi, 0.0)
        elif s:
            total += family.log_density(y_i, y_i, s, phi, 0.0)
    np.testing.assert_allclose(reply["likelihood"], total, rtol=1e-12)
    assert reply["rows"] == 0


def test_families_without_a_likelihood_have_none():
    reply = shard().answer(Problem(LossRef("tweedie", 2.5)), ResidualSums(None, 1.0))
    assert np.isnan(reply["likelihood"])
