"""Groups as parts of a penalty, for one set of coefficients and for one of each class."""

import numpy as np

from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.config import PenaltyConfig


def test_groups_of_several_sets_have_the_strength_of_their_features():
    config = PenaltyConfig(l1_ratio=0.5, groups=[[0, 2]], penalty_factor=[2.0, 1.0, 2.0])
    one = config.for_features(3, None)
    three = one.repeated(3, 3)
    terms = penalty_of(three, np.ones(9), 12).kinks
    np.testing.assert_array_equal(terms.groups[0], [0, 2, 3, 5, 6, 8])
    np.testing.assert_array_equal(terms.groups[1], [1, 4, 7])
    np.testing.assert_allclose(terms.group_strengths, [np.sqrt(2.0), 0.5])
    assert not terms.strengths.any()
    # one set: a group of one feature is plain L1
    found = penalty_of(one.repeated(1, 3), np.ones(3), 4)
    ridge, terms = found.quadratic, found.kinks
    assert len(terms.groups) == 1
    np.testing.assert_allclose(terms.strengths, [0.0, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(ridge.diagonal(4), [1.0, 0.5, 1.0, 0.0])


def test_factors_bounds_and_matrices_are_those_of_each_set():
    config = PenaltyConfig(l1_ratio=1.0, lower_bounds=[0.0, -1.0], upper_bounds=2.0)
    found = config.for_features(2, None).repeated(2, 2)
    terms = penalty_of(found, np.ones(4), 6).kinks
    np.testing.assert_array_equal(terms.lower[:4], [0.0, -1.0, 0.0, -1.0])
    assert np.isinf(terms.lower[4:]).all()
    P2 = np.array([[2.0, 1.0], [1.0, 3.0]])
    found = PenaltyConfig(P2=P2).for_features(2, None).repeated(2, 2)
    np.testing.assert_array_equal(found.P2[:2, :2], P2)
    np.testing.assert_array_equal(found.P2[2:, 2:], P2)
    assert not found.P2[:2, 2:].any()
