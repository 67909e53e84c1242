"""Decision values become classes and probabilities."""

import numpy as np

from daskglm.core.decisions import predicted, probabilities


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
