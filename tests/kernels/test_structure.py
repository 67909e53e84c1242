"""Indices of sparse rows are checked in one sweep that leaves no array."""

import numpy as np
import pytest

from daskglm.kernels.structure import CANONICAL, FAULTY, IN_RANGE, fault


def state(indices, indptr, width=5, stored=None, dtype=np.int32):
    indices = np.array(indices, dtype)
    return tuple(fault(indices, np.array(indptr, np.int64), stored or len(indices), width))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("indices", "indptr"), [([0, 2, 4, 1], [0, 3, 4]), ([], [0]), ([], [0, 0, 0]), ([4], [0, 0, 1])]
)
def test_ascending_indices_are_canonical(indices, indptr, dtype):
    assert state(indices, indptr, dtype=dtype) == (CANONICAL, -1, -1)


@pytest.mark.parametrize("indices", [[2, 0, 1], [0, 0, 1]])
def test_indices_in_another_order_or_twice_are_in_range(indices):
    assert state(indices, [0, 3]) == (IN_RANGE, -1, -1)


@pytest.mark.parametrize(
    ("indices", "indptr", "found"),
    [
        ([0, 5], [0, 1, 2], (FAULTY, 1, 1)),
        ([0, -1], [0, 2], (FAULTY, 0, 1)),
        ([3, 1, 9], [0, 3], (FAULTY, 0, 2)),
        ([0, 1], [0, 2, 1], (FAULTY, 1, -1)),
        ([0, 1], [0, 3], (FAULTY, 0, -1)),
        ([0, 1], [1, 2], (FAULTY, 0, -1)),
    ],
)
def test_the_first_fault_has_its_row_and_place(indices, indptr, found):
    assert state(indices, indptr) == found
