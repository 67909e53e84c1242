"""Random samples of rows, Newton's method begun on them, and the bound on the excess that the Hessian gives."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.requests import Evaluate, Folds, LossRef, Problem
from daskglm.core.view import Drawn, View
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.worker.fold_assignment import trained_on
from daskglm.worker.subsampling import draw
from tests.conftest import make_problem


# ---- rows
@pytest.mark.parametrize("storage", ["dense", "csr", "pattern"])
def test_a_sample_holds_rows_of_the_block_spread_over_it(storage):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 7))
    if storage != "dense":
        X = sp.random(1000, 7, density=0.4, format="csr", random_state=rng)
        X.data[:] = 0.5 if storage == "pattern" else X.data
    weight = rng.random(1000)
    block = to_block(X, np.arange(1000.0), weight, place=Place(), classify=False)
    part = draw(block, Drawn(0.1, 3))
    assert part.facts.n_rows == len(part.y) == part.X.shape[0] == 100
    rows = part.y.astype(int)
    assert (np.diff(rows) > 0).all()
    assert np.all(rows // 10 == np.arange(100)), "one of every ten"
    np.testing.assert_array_equal(part.weight, weight[rows])
    dense = X if storage == "dense" else X.toarray()
    if storage == "pattern":
        got = sp.csr_matrix(
            (np.full(part.X.nnz, part.X.value[0]), part.X.indices, part.X.indptr), part.X.shape
        )
    else:
        got = part.X
    np.testing.assert_array_equal(got if storage == "dense" else got.toarray(), dense[rows])
    assert (draw(block, Drawn(0.1, 4)).y != part.y).any()


def test_a_sample_is_the_same_wherever_its_blocks_are_and_costs_its_share_of_a_pass():
    X, y = make_problem(n=4000)
    cuts = [0, 1000, 1500, 1500, 4000]
    blocks = [
        to_block(X[a:b], y[a:b], place=Place(partition=i), classify=True)
        for i, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False))
    ]
    problem = Problem(LOSSES["logistic"].ref, 1.0)
    asked = (Evaluate(np.ones(X.shape[1]), 0), View(Drawn(0.05, 1)))
    whole = Local(blocks, 2).total(problem, *asked)
    parts = [
        Local(blocks[:2], 1).total(problem, *asked),
        Local(blocks[2:], 2).total(problem, *asked),
    ]
    assert whole["rows"] == 200
    np.testing.assert_allclose(
        whole["gradient"], parts[0]["gradient"] + parts[1]["gradient"], rtol=1e-12
    )


@pytest.mark.parametrize("divided", [{"groups": np.repeat(np.arange(4), 1000)}, {"seed": 3}])
def test_a_sample_leaves_out_the_rows_that_a_fold_holds_out(divided):
    X, y = make_problem(n=4000)
    folds = Folds("four", tuple(tuple(int(g == k) for k in range(4)) for g in range(4)), **divided)
    block = to_block(X, y, place=Place(), classify=True)
    part = draw(block, Drawn(0.1, 2))
    here = np.array([np.flatnonzero((row == X).all(axis=1))[0] for row in part.X])
    for fold in range(4):
        np.testing.assert_array_equal(
            trained_on(part, folds, fold), trained_on(block, folds, fold)[here]
        )
        problem = Problem(LOSSES["logistic"].ref, 1.0, folds=folds, fold=fold)
        sums = Local([block], 1).total(
            problem, Evaluate(np.zeros(X.shape[1]), 0), View(Drawn(0.1, 2))
        )
        assert sums["value"] == pytest.approx(
            np.log(2) * trained_on(block, folds, fold)[here].sum()
        )


def test_samples_of_several_blocks_keep_to_their_folds_however_few_values_they_have():
    X, y = make_problem(n=4000)
    blocks = [
        to_block(X[a : a + 1000], y[a : a + 1000], place=Place(partition=i), classify=True)
        for i, a in enumerate(range(0, 4000, 1000))
    ]
    folds = Folds("two", ((1, 0), (0, 1)), seed=1)
    drawn = [draw(block, Drawn(0.1, 2)) for block in blocks]
    trained = sum(trained_on(block, folds, 1).sum() for block in drawn)
    problem = Problem(LOSSES["logistic"].ref, 1.0, folds=folds, fold=1)
    sums = Local(blocks, 1).total(problem, Evaluate(np.zeros(X.shape[1]), 0), View(Drawn(0.1, 2)))
    assert trained != 200
    assert sums["value"] == pytest.approx(np.log(2) * trained)


def test_a_worker_without_rows_answers_for_its_sample():
    block = to_block(np.empty((0, 3)), np.empty(0), place=Place(), classify=True)
    reply = Local([block], 1).total(
        Problem(LossRef("logistic"), 1.0), Evaluate(np.ones(3), 0), View(Drawn(0.1, 1))
    )
    assert reply["rows"] == 0
    assert not reply["gradient"].any()


# ---- Newton begun on samples


# ---- the bound by the Hessian


def test_samples_keep_the_offsets_of_their_rows():
    y = np.arange(1000.0)
    block = to_block(np.ones((1000, 2)), y, offset=-y, place=Place(), classify=False)
    found = draw(block, Drawn(0.1, 3))
    assert len(found.y) == 100
    np.testing.assert_array_equal(found.offset, -found.y)
