"""Arrays without owners in compiled code are the same arrays."""

import sys

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from daskglm.kernels.borrowed import borrowed, run_of


@numba.njit
def _double(values, start, stop):
    run = run_of(values, start, stop)
    for t in range(len(run)):
        run[t] *= 2.0
    return run.sum(), run.shape[0]


@numba.njit
def _total(arrays):
    (first, second), number = borrowed(arrays)
    return first.sum() + second[1, 0] + number


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (2, 4), (3, 3)])
def test_a_run_is_a_part_of_the_vector(start, stop):
    values, twice = np.arange(5.0), np.arange(5.0)
    twice[start:stop] *= 2.0
    assert _double(values, start, stop) == (twice[start:stop].sum(), stop - start)
    assert np.array_equal(values, twice)


def test_a_run_of_an_empty_vector_is_empty():
    assert _double(np.empty(0), 2, 7) == (0.0, 0)


def test_runs_of_other_arrays_are_refused():
    with pytest.raises(TypingError, match="contiguous vectors"):
        _double(np.arange(8.0)[::2], 0, 2)


def test_arrays_within_tuples_are_borrowed_and_still_belong_to_the_caller():
    first, second = np.arange(4.0), np.arange(6.0).reshape(2, 3)
    counts = sys.getrefcount(first), sys.getrefcount(second)
    assert _total(((first, second), 0.5)) == 9.5
    assert (sys.getrefcount(first), sys.getrefcount(second)) == counts
