"""The upper triangle of a matrix is copied to the lower one, at and beside the edges of blocks."""

import numpy as np
import pytest

from daskglm.core.matrices import BLOCK_ROWS, mirror_upper


@pytest.mark.parametrize("n", [0, 1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 300])
def test_lower_triangle_mirrors_the_upper(n):
    matrix = np.random.default_rng(n).standard_normal((n, n))
    upper = np.triu(matrix)

    mirror_upper(matrix)

    np.testing.assert_array_equal(np.triu(matrix), upper)
    np.testing.assert_array_equal(matrix, matrix.T)
