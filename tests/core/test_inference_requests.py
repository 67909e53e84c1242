"""Sums of clusters are joined by label, whichever worker has them."""

import pickle

import numpy as np
import pytest

from daskglm.core.inference_requests import (
    ClusterSums,
    InferenceSums,
    together,
)
from daskglm.core.requests import ResidualSums, add, size_of


def sums(labels, first):
    values = first + np.arange(2.0 * len(labels)).reshape(-1, 2)
    return ClusterSums(np.asarray(labels), values)


def by_label(found):
    return {label: tuple(row) for label, row in zip(found.labels.tolist(), found.sums, strict=True)}


def test_sums_of_equal_labels_are_added_and_others_kept():
    both = add([{"clusters": sums([3, 1], 0.0)}, {"clusters": sums([1, 7], 10.0)}])["clusters"]
    assert by_label(both) == {3: (0.0, 1.0), 1: (12.0, 14.0), 7: (12.0, 13.0)}


def test_no_rows_add_nothing():
    some, none = sums(["a", "b"], 1.0), ClusterSums(np.empty(0), np.zeros((0, 2)))
    assert by_label(some + none) == by_label(none + some) == {"a": (1.0, 2.0), "b": (3.0, 4.0)}


def test_numbers_and_texts_stay_apart():
    joined = together([np.array([1, 2]), np.array(["1", "2"])])
    assert joined.tolist() == [1, 2, "1", "2"]
    assert together([np.array([1]), np.array([1.5])]).tolist() == [1.0, 1.5]


def test_bytes_of_a_reply_count_both_arrays():
    found = sums([1, 2, 3], 0.0)
    assert size_of({"clusters": found, "value": 1.0}) == found.nbytes == 3 * 8 + 6 * 8


@pytest.mark.parametrize("request_", [InferenceSums(np.ones(2)), ResidualSums(None, 1.0)])
def test_requests_travel(request_):
    again = pickle.loads(pickle.dumps(request_))
    assert type(again) is type(request_)
    assert repr(again) == repr(request_)
