"""Codes of one column against what NumPy says."""

import numpy as np
import pytest

from daskglm.kernels.codes import count, exchange


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_codes_are_counted_and_exchanged(dtype):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 200, 1000).astype(dtype)
    np.testing.assert_array_equal(count(codes, 210), np.bincount(codes, minlength=210))
    for to in (rng.integers(0, 70_000, 200).astype(np.uint32), rng.random(200) < 0.5):
        found = exchange(codes, to)
        assert found.dtype == to.dtype
        np.testing.assert_array_equal(found, to[codes])
