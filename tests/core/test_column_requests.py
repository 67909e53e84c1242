"""Requests about columns travel whole, and columns that cannot be are refused before any work."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from daskglm.core.column_requests import ColumnGram, ColumnMoments, ColumnSigns
from daskglm.core.requests import Evaluate, Request, Restricted, Sampled


def test_requests_are_frozen_picklable_and_known():
    inner = Evaluate(np.zeros(3), 4)
    made = [
        ColumnMoments(),
        ColumnGram((4, np.zeros(3)), np.array([2, 5])),
        ColumnSigns(("a", "b")),
        Restricted(inner, 1, np.array([2, 5])),
        Restricted(Sampled(inner, 0.1, 2), 1, np.array([2, 5])),
    ]
    for request in made:
        assert isinstance(request, Request)
        assert type(pickle.loads(pickle.dumps(request))) is type(request)
    assert pickle.loads(pickle.dumps(made[3])).columns.tolist() == [2, 5]
    with pytest.raises(FrozenInstanceError):
        made[3].key = 2


def test_sets_of_columns_are_compared_by_their_key():
    moments = ColumnMoments()
    one, other = (Restricted(moments, 1, np.array(columns)) for columns in ([2, 5], [3, 4]))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Restricted(moments, 2, np.array([2, 5]))


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
        Restricted(ColumnMoments(), 1, columns)


def test_no_columns_are_a_set():
    assert len(Restricted(ColumnMoments(), 1, np.empty(0, np.int64)).columns) == 0
