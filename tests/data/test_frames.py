"""Columns of frames become floats as scikit-learn converts them."""

import numpy as np
import pandas as pd
import pytest

from daskglm.data.frames import frame_rows, numbers, with_features
from daskglm.data.values import Place


@pytest.mark.parametrize(
    "column",
    [
        [1, 2, 3],
        [True, False, True],
        np.array([1, 2, 3], np.float32),
        pd.array([1, 2, 3], dtype="Int64"),
        ["1", "2.5", "3"],
        np.array([1, 2.5, 3], object),
    ],
    ids=str,
)
def test_values_are_those_of_numpy(column):
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": column})
    rows = frame_rows(frame, Place())
    np.testing.assert_array_equal(rows[:, 1], np.asarray(list(column), dtype=float))
    assert rows.flags.c_contiguous


def test_float32_columns_alone_stay_so():
    frame = pd.DataFrame(np.ones((3, 2), np.float32))
    assert frame_rows(frame, Place()).dtype == np.float32


def test_missing_values_of_nullable_columns_become_nan():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")})
    np.testing.assert_array_equal(frame_rows(frame, Place()), [[1.0], [np.nan], [3.0]])


def test_missing_values_of_objects_are_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": np.array(["3", None], dtype=object)})
    with pytest.raises(ValueError, match=r"is a missing value\): row 1, column 'b'"):
        frame_rows(frame, Place())


def test_text_is_named_with_its_row_and_column():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["3", "three"]})
    with pytest.raises(ValueError, match="row 1, column 'b' is 'three'; encode it before fit"):
        frame_rows(frame, Place())
    with pytest.raises(ValueError, match="row 0, column 1 is 'x'"):
        numbers(np.array([[1.0, "x"]], object), Place())


@pytest.mark.parametrize("levels", [[3, 1, 2], ["a", "b", "c"], [True, False, True]], ids=str)
def test_categories_are_refused_by_column(levels):
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": pd.Categorical(levels)})
    with pytest.raises(ValueError, match="column 'b' has dtype category"):
        frame_rows(frame, Place())


def test_dates_are_refused_by_column():
    frame = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=2)})
    with pytest.raises(ValueError, match="column 'when'"):
        frame_rows(frame, Place())


def test_columns_come_in_the_order_of_the_fit():
    frame = pd.DataFrame({"b": [2.0], "a": [1.0], "c": [3.0]})
    for names in (["a", "b", "c"], ["c", "a"], ["b", "a", "c"]):
        assert list(with_features(frame, names, place=Place()).columns) == names
