"""Sums of many problems over the folds of a block."""

import numpy as np
import pytest

from daskglm.core.batch_requests import EvaluateMany, WeighGroups
from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from tests.conftest import make_problem
from tests.losses.formulas import reference


def test_sums_by_group_are_those_of_the_folds():
    X, y = make_problem(700, seed=4)
    groups = np.random.default_rng(0).integers(0, 3, len(y))
    folds = Folds("three", ((1, 0, 0), (0, 1, 0), (0, 0, 1)), groups=groups)
    weight = np.random.default_rng(1).random(len(y))
    engine = Local(partitions(X, y, weight, classify=True).load())
    problem = Problem(LossRef("logistic"), folds=folds)
    w = np.random.default_rng(2).standard_normal((1, 8))
    zero = np.zeros(1, int)
    by = engine.total(problem, EvaluateMany(w, zero, zero - 1, (1.0,), (0,), by_group=True))
    z = X @ w[0, :7] + w[0, 7]
    for g in range(3):
        assert by["values"][g, 0] == pytest.approx(
            np.sum((weight * np.logaddexp(0, -y * z))[groups == g])
        )
        one = engine.total(problem, EvaluateMany(w, zero, zero + g, (1.0,), (0,)))
        np.testing.assert_allclose(
            one["gradients"][0, 0], by["gradients"][:, 0].sum(0) - by["gradients"][g, 0]
        )
        np.testing.assert_allclose(one["grams"][0, 0], by["grams"][:, 0].sum(0) - by["grams"][g, 0])
        right = weight * ((z > 0) == (y > 0)) * (groups == g)
        expected = [right @ (y > 0), (weight * (groups == g)) @ (y > 0), right @ (y < 0)]
        np.testing.assert_allclose(one["counts"][0, :3], expected)
    weights = engine.total(problem, WeighGroups((-1.0, 1.0)))["weights"]
    assert weights[2, 1] == pytest.approx(weight[(groups == 2) & (y > 0)].sum())
    engine.close()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "squared"])
def test_offsets_are_added_to_all_margins(loss, wide):
    d = 520 if wide else 7
    X, y = make_problem(300, d, loss=loss, sparse=wide)
    rng = np.random.default_rng(3)
    offset, groups = rng.normal(0.0, 2.0, 300), rng.integers(0, 2, 300)
    folds = Folds("two", ((1, 0), (0, 1)), groups=groups)
    classes = (1.0,) if loss == "logistic" else ()
    data = partitions(X, y, None, classify=bool(classes), offset=offset)
    engine = Local(data.load(), threads=2)
    W = 0.3 * rng.standard_normal((3, d + 1))
    of, fold = np.zeros(3, int), np.array([0, 1, -1])
    problem = Problem(LossRef(loss), folds=folds)
    how = {} if wide else {"gram": (1,), "anchors": W[:1], "anchor": np.zeros(3, int)}
    found = engine.total(problem, EvaluateMany(W, of, fold, classes, **how))

    z = X @ W[:, :d].T + W[:, d] + offset[:, None]
    targets = np.where(y > 0, 1.0, -1.0) if classes else y
    losses, slopes, curvatures = reference(loss, targets[:, None], z)
    for p, train in enumerate([groups == 1, groups == 0, groups >= 0]):
        for g in (0, 1):
            expected = losses[groups == g, p].sum()
            assert found["values"][g, p] == pytest.approx(expected, rel=1e-10)
        expected = np.append(X.T @ (slopes[:, p] * train), slopes[train, p].sum())
        np.testing.assert_allclose(found["gradients"][0, p], expected, rtol=1e-7, atol=1e-7)
    if not wide:
        rows = np.column_stack([X, np.ones(300)])
        gram = rows.T @ (rows * (curvatures[:, 1] * (groups == 0))[:, None])
        np.testing.assert_allclose(found["grams"][0, 0], gram, rtol=1e-7, atol=1e-7)
        moved = np.abs(z[:, 1:] - z[:, :1]) ** 32
        np.testing.assert_allclose(found["moments"], [0.0, *moved.sum(axis=0)], rtol=1e-7)
    if not classes:
        return
    scored = engine.total(problem, EvaluateMany(W, of, fold, classes, score=True))
    for p in (0, 1):
        held = groups == p
        right = ((z[:, p] > 0) == (y > 0)) & (y > 0)
        assert scored["values"][p, p] == pytest.approx(losses[held, p].sum(), rel=1e-10)
        assert scored["counts"][p, 0] == (right & held).sum()
    engine.close()
