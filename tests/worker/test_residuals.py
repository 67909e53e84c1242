"""Sums over residuals: over blocks, threads and runs of rows, against NumPy over all rows."""

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, Problem, ResidualSums
from daskglm.data.blocks import Place, to_block
from daskglm.losses.table import loss_of_family
from daskglm.worker import residuals
from daskglm.worker.shard import Shard
from tests.glm import CASES, means, sample

W = np.array([0.1, -0.2, 0.3, 0.2])
VARIANCE = {
    "gaussian": np.ones_like,
    "binomial": lambda mu: mu * (1 - mu),
    "poisson": lambda mu: mu,
    "gamma": lambda mu: mu**2,
    "inverse_gaussian": lambda mu: mu**3,
    "tweedie": lambda mu: mu**1.5,
    "negative_binomial": lambda mu: mu + 0.7 * mu**2,
}


def shard(X, y, weight, offset, cuts, threads=1):
    edges = [0, *cuts, len(y)]
    blocks = [
        to_block(
            *(X[a:b], y[a:b], None if weight is None else weight[a:b]),
            None if offset is None else offset[a:b],
            place=Place(i),
            classify=False,
        )
        for i, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    ]
    return Shard(blocks, threads)


def answers(holder, family, link, centre, dispersion=None):
    at = np.add(W, [0, 0, 0, centre])
    problem = Problem(loss_of_family(family, link).ref)
    return holder.answer(problem, ResidualSums((1, at), dispersion))


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
@pytest.mark.parametrize("beside", [False, True])
def test_pearson_sums_are_those_of_all_rows(family, link, centre, beside):
    X, y, weight, offset = sample(family, link, centre)
    if not beside:
        weight = offset = None
    mu = means(link, X @ W[:3] + W[3] + centre + (0 if offset is None else offset))
    squares = (1 if weight is None else weight) * (y - mu) ** 2
    wanted = (squares / VARIANCE[family.partition("(")[0]](mu)).sum()
    for cuts in ((), (50, 50, 200)):
        found = answers(shard(X, y, weight, offset, cuts), family, link, centre)
        assert found["pearson"] == pytest.approx(wanted, rel=1e-12)


def test_sums_do_not_depend_on_blocks_threads_or_runs(monkeypatch):
    X, y, weight, offset = sample("gamma")
    whole = answers(shard(X, y, weight, offset, ()), "gamma", "log", 0.0, 0.3)["likelihood"]
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    monkeypatch.setattr(residuals, "ROWS", 17)
    parts = answers(shard(X, y, weight, offset, (100,), 3), "gamma", "log", 0.0, 0.3)
    assert parts["likelihood"] == pytest.approx(whole, rel=1e-12)


def test_margins_that_are_cached_cost_no_rows_and_others_are_computed():
    X, y, weight, offset = sample("poisson")
    holder = shard(X, y, weight, offset, (100,))
    problem = Problem(loss_of_family("poisson").ref)
    assert holder.answer(problem, ResidualSums((7, W)))["rows"] == len(y)
    holder.answer(problem, Evaluate(W, 8))
    assert holder.answer(problem, ResidualSums((8, W)))["rows"] == 0


def test_rows_without_weight_do_not_count_in_a_likelihood():
    X, y, weight, _ = sample("gaussian")
    weight[::3] = 0.0
    kept = weight > 0
    some = answers(shard(X, y, weight, None, ()), "gaussian", "identity", 0.0, 0.5)
    only = answers(shard(X[kept], y[kept], weight[kept], None, ()), "gaussian", "identity", 0, 0.5)
    assert some["likelihood"] == pytest.approx(only["likelihood"], rel=1e-12)


def test_a_family_without_a_density_has_no_likelihood():
    X, y, _, _ = sample("tweedie(1.5)")
    assert np.isnan(answers(shard(X, y, None, None, ()), "tweedie(3.5)", "log", 0, 1)["likelihood"])
