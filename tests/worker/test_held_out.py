"""Scores of the rows that a fold holds out."""

import numpy as np
import pytest

from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.batched import BatchObjective, ProblemBatch
from tests.conftest import make_problem


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_a_whole_evaluation(sparse, weighted):
    X, y = make_problem(700, sparse=sparse, seed=4)
    folds = Folds(
        "two", ((1, 0), (0, 1), (2, 0)), groups=np.random.default_rng(0).integers(0, 3, len(y))
    )
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    engine = Local(partitions(X, y, weight, classify=True).load())
    batched = BatchObjective(
        engine,
        Problem(LossRef("logistic"), folds=folds),
        LOSSES["logistic"],
        (1.0, -1.0),
        (-1.0, 1.0),
        fit_intercept=True,
    )
    columns = ProblemBatch(np.array([0, 1, 0]), np.array([0, 1, -1]), np.ones(3))
    W = np.random.default_rng(2).standard_normal((3, 8))
    found = batched.evaluate(columns, W, np.empty(0, int))
    losses, counts = batched.score(columns, W)
    np.testing.assert_allclose(losses, found.losses)
    np.testing.assert_allclose(counts, found.counts)
    assert losses[0] > 0.0
    assert losses[2] == 0.0
    engine.close()
