"""Sums of many problems over the folds of a block."""

import numpy as np
import pytest

from daskglm.core.batch_requests import EvaluateMany, WeighGroups
from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from tests.conftest import make_problem


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
