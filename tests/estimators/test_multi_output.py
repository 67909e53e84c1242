"""Several targets: how many there are, and a strength of the penalty for each."""

import dask.array as da
import numpy as np
import pytest

from daskglm.estimators.multi_output import count_of, each_strength


@pytest.mark.parametrize(
    ("y", "count"),
    [
        (np.zeros(5), 1),
        (np.zeros((5, 1)), 1),
        (np.zeros((5, 3)), 3),
        ([[1, 2], [3, 4]], 2),
        ([1, 2], 1),
        (da.zeros((6, 4), chunks=3), 4),
        ("label", 1),
    ],
)
def test_columns_of_y_are_targets(y, count):
    assert count_of(y) == count


@pytest.mark.parametrize(
    ("alpha", "each"), [(2.0, [2.0, 2.0]), ([1.0, 3.0], [1.0, 3.0]), (np.array([5.0]), [5.0, 5.0])]
)
def test_a_strength_for_each_target(alpha, each):
    assert each_strength(alpha, 2) == each


@pytest.mark.parametrize(
    ("alpha", "said"),
    [
        ([1.0, 2.0, 3.0], r"3 != 2"),
        ([1.0, None], "must be a number not below 0 for each target"),
    ],
)
def test_strengths_that_do_not_go_with_the_targets(alpha, said):
    with pytest.raises(ValueError, match=said):
        each_strength(alpha, 2)
