"""Targets and weights of a block under a problem."""

import numpy as np
import pytest

from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.worker.targets import signs_of, targets_of

LOGISTIC = LossRef("logistic")
LABELS = np.array(["b", "a", "c", "b"])
WEIGHT = np.array([1.0, 2.0, 3.0, 4.0])


def block(weight=None, y=LABELS, classify=True):
    return to_block(np.ones((4, 2)), y, weight, place=Place(), classify=classify)


@pytest.mark.parametrize(("positive", "signs"), [("a", [-1, 1, -1, -1]), ("b", [1, -1, -1, 1])])
def test_one_class_against_the_rest(positive, signs):
    found = targets_of(block(), Problem(LOGISTIC, positive))
    np.testing.assert_array_equal(found.y, signs)
    assert found.y.dtype == np.int8
    assert len(found.weight) == 0
    np.testing.assert_array_equal(signs_of(LABELS, positive), signs)


def test_class_weights_multiply_row_weights():
    problem = Problem(LOGISTIC, "a", (("a", 10.0), ("c", 0.0)))
    np.testing.assert_array_equal(targets_of(block(), problem).weight, [1.0, 10.0, 0.0, 1.0])
    np.testing.assert_array_equal(targets_of(block(WEIGHT), problem).weight, [1.0, 20.0, 0.0, 4.0])


def test_rows_that_a_fold_does_not_train_on_have_weight_zero():
    folds = Folds("k", ((0, 1), (1, 0)), groups=np.array([0, 1, 0, 1]))
    problem = Problem(LOGISTIC, "a", folds=folds, fold=1)
    np.testing.assert_array_equal(targets_of(block(), problem).weight, [0.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(targets_of(block(WEIGHT), problem).weight, [0.0, 2.0, 0.0, 4.0])


def test_numbers_stay_as_they_are():
    y = np.array([0.5, -2.0, 3.0, 0.0])
    found = targets_of(block(WEIGHT, y, classify=False), Problem(LossRef("squared")))
    np.testing.assert_array_equal(found.y, y)
    np.testing.assert_array_equal(found.weight, WEIGHT)


def test_offsets_stay_but_where_targets_can_be_shifted():
    y, offset = np.array([0.5, 2.0, 3.0, 0.0]), np.array([1.0, -1.0, 0.25, 0.0])
    rows = to_block(np.ones((4, 2)), y, offset=offset, place=Place(), classify=False)
    shifted = targets_of(rows, Problem(LossRef("squared")))
    np.testing.assert_array_equal(shifted.y, y - offset)
    assert len(shifted.offset) == 0
    kept = targets_of(rows, Problem(LossRef("poisson")))
    np.testing.assert_array_equal(kept.y, y)
    np.testing.assert_array_equal(kept.offset, offset)
    assert len(targets_of(block(), Problem(LOGISTIC, "a")).offset) == 0


def test_targets_are_moved_inside_of_what_the_family_has():
    y = np.array([0.0, 1e-9, 0.3, 1.0])
    rows = block(y=y, classify=False)

    def moved(loss, inside):
        return targets_of(rows, Problem(LossRef(loss), inside=inside)).y

    np.testing.assert_array_equal(moved("binomial_log", 0.0), y)
    np.testing.assert_array_equal(moved("binomial_log", 1e-8), [1e-8, 1e-8, 0.3, 1.0 - 1e-8])
    np.testing.assert_array_equal(moved("poisson_sqrt", 1e-8), [1e-8, 1e-8, 0.3, 1.0])
    np.testing.assert_array_equal(rows.y, y)
