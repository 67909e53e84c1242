"""Labels, targets and weights in memory are taken as scikit-learn takes them."""

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from daskglm.data.targets import in_memory, rows_of

X = np.ones((3, 2))


def test_lists_become_arrays():
    rows, y, weight = in_memory([[1, 2], [3, 4]], [0, 1], [1, 2])
    np.testing.assert_array_equal(rows, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(y, [0, 1])
    assert weight.dtype == np.float64


def test_one_number_is_the_weight_of_all_rows():
    np.testing.assert_array_equal(in_memory(X, [0, 1, 0], 2.5)[2], [2.5, 2.5, 2.5])


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning):
        _, y, _ = in_memory(X, np.array([[0], [1], [0]]), None)
    assert y.shape == (3,)


@pytest.mark.parametrize("rows", [None, 5, {"a": [1, 2]}, "rows.csv"])
def test_what_holds_no_rows(rows):
    with pytest.raises(TypeError, match="give an array, a sparse matrix or a dataframe"):
        rows_of(rows)


def test_rows_of_unequal_length():
    with pytest.raises(ValueError, match="rows are not of equal length"):
        rows_of([[1, 2], [3]])


@pytest.mark.parametrize(
    ("y", "weight"),
    [
        (np.array([1j, 0, 1]), None),
        (np.zeros((3, 2)), None),
        (np.ma.masked_array([0, 1, 0], [True, False, False]), None),
        ([0, 1, 0], [1.0, 1.0]),
    ],
)
def test_shapes_and_values_that_cannot_be(y, weight):
    with pytest.raises(ValueError, match=r"."):
        in_memory(X, y, weight)
