"""Decision values become classes and probabilities."""

import numpy as np
import pytest

from daskglm.core import decisions
from daskglm.core.decisions import predicted, probabilities, softmax_probabilities


def test_two_classes():
    values = np.array([-1000.0, -1.0, 0.0, 2.0, 1000.0])
    np.testing.assert_array_equal(predicted(values), [0, 0, 0, 1, 1])
    p = probabilities(values)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p[:, 1], [0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-2)), 1.0])


def test_several_classes_are_normalised():
    values = np.array([[0.0, 1.0, -1.0], [5.0, 5.0, -5.0]])
    np.testing.assert_array_equal(predicted(values), [1, 0])
    np.testing.assert_allclose(probabilities(values).sum(axis=1), 1.0)
    assert (probabilities(values).argmax(axis=1) == predicted(values)).all()


def test_rows_that_no_class_takes_have_equal_probabilities():
    np.testing.assert_array_equal(probabilities(np.full((1, 4), -1e4)), np.full((1, 4), 0.25))


def test_softmax_of_margins():
    values = np.array([[0.0, np.log(2.0), np.log(5.0)], [1e6, 0.0, -1e6]])
    p = softmax_probabilities(values)
    np.testing.assert_allclose(p, [[0.125, 0.25, 0.625], [1.0, 0.0, 0.0]], atol=1e-15)
    np.testing.assert_array_equal(softmax_probabilities(values[0]), probabilities(values[0]))


def test_probabilities_of_ordered_classes_sum_to_one_and_do_not_cancel():
    t, z = np.array([-1.0, 0.5, 0.5, 2.0]), np.array([-800.0, -40.0, 0.3, 40.0, 800.0])
    p = decisions.ordinal_probabilities(t, z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-15)
    assert (p[:, 2] == 0.0).all()
    # a difference of two sigmas would be zero: both round to one
    assert p[1, 1] == pytest.approx(np.exp(-39.0) - np.exp(-40.5), rel=1e-12)
    log = decisions.ordinal_log_probabilities(t, z)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(log[1:4], np.log(p[1:4]), rtol=1e-13, atol=1e-15)
    assert log[0, -1] == pytest.approx(-802.0)
    assert decisions.ordinal_predicted(t, z).tolist() == [0, 0, 1, 4, 4]
