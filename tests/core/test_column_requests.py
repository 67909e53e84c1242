"""Requests about columns travel whole, and columns that cannot be are refused before any work."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from daskglm.core.column_requests import ColumnGram, ColumnMoments, ColumnSigns, ColumnTargets
from daskglm.core.requests import Evaluate, Request
from daskglm.core.view import Columns, Drawn, View


def test_requests_and_views_are_frozen_and_picklable():
    columns = Columns(1, np.array([2, 5]))
    requests = [
        ColumnMoments(),
        ColumnGram((4, np.zeros(3)), np.array([2, 5])),
        ColumnSigns(("a", "b")),
        ColumnTargets(0.5),
        Evaluate(np.zeros(3), 4),
    ]
    assert all(isinstance(request, Request) for request in requests)
    for each in [*requests, View(Drawn(0.1, 2), columns)]:
        assert type(pickle.loads(pickle.dumps(each))) is type(each)
    assert pickle.loads(pickle.dumps(View(columns=columns))).columns.places.tolist() == [2, 5]
    with pytest.raises(FrozenInstanceError):
        columns.key = 2


def test_sets_of_columns_are_compared_by_their_key():
    one, other = (View(columns=Columns(1, np.array(columns))) for columns in ([2, 5], [3, 4]))
    assert one == other
    assert hash(one) == hash(other)
    assert one != View(columns=Columns(2, np.array([2, 5])))
    assert one != replace(one, part=Drawn(0.1, 1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([2, 5], "columns is list of shape"),
        (np.array([2.0, 5.0]), r"columns is float64 of shape \(2,\)"),
        (np.array([2, 5], np.int32), "columns is int32"),
        (np.array([[2, 5]]), r"int64 of shape \(1, 2\)"),
        (np.array(3), r"int64 of shape \(\)"),
        (np.array([-1, 5]), r"columns\[0\] is -1: give numbers of columns from 0 on"),
        (np.array([5, 2]), r"columns\[1\] is 2, after 5"),
        (np.array([1, 2, 2]), r"columns\[2\] is 2, after 2"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Columns(1, columns)


def test_no_columns_are_a_set():
    assert len(Columns(1, np.empty(0, np.int64)).places) == 0
