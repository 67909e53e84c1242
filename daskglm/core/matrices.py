"""Copies of matrices: of one triangle to the other, and of columns to rows."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# Rows of a block: one of 128 x 128 numbers and its transpose fit into the second-level cache.
# `np.triu` and a sum write the whole matrix six times: 21 ms of 1,500 rows, blocks 4 (2026-11-23).
BLOCK_ROWS = 128
BELOW = np.tril(np.ones((BLOCK_ROWS, BLOCK_ROWS), bool), -1)

# Columns of a matrix that are copied at a time: 64 and 1,024 took about as long (2026-11-29).
COLUMNS_AT_ONCE = 256


def mirror_upper(matrix: np.ndarray) -> None:
    """Copy the upper triangle of a square matrix to its lower one, in place.

    Parameters
    ----------
    matrix : (n, n) array
        What stands below the diagonal is overwritten.
    """
    n = len(matrix)
    for start in range(0, n, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, n)
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T

        block = matrix[start:stop, start:stop]
        np.copyto(block, block.T, where=BELOW[: stop - start, : stop - start])


@lru_cache(maxsize=4)  # NumPy makes a matrix of flags to find them, at each Hessian of a solve
def pairs_of(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second of each pair of so many numbers, row after row."""
    first, second = np.triu_indices(count, 1)
    return first, second


def in_c_order(values: np.ndarray) -> np.ndarray:
    """Return a matrix in C order: a copy, or as it is where it is so.

    NumPy copies one in Fortran order row by row, and finds each line of memory anew for each value
    where a row's are in more lines than a cache holds: 500 x 5,000 took 8.4 ms, and 3.8 by
    `COLUMNS_AT_ONCE`.
    """
    if values.ndim != 2 or values.shape[1] <= COLUMNS_AT_ONCE or values.flags.c_contiguous:
        return np.ascontiguousarray(values)
    found = np.empty(values.shape, values.dtype)
    for first in range(0, values.shape[1], COLUMNS_AT_ONCE):
        some = slice(first, first + COLUMNS_AT_ONCE)
        found[:, some] = values[:, some]
    return found
