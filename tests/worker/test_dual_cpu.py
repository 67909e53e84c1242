"""Dual ascent on threads: many small blocks and empty ones."""

import dask.array as da
import pytest

import daskglm
from tests.conftest import make_problem


def test_many_small_blocks_and_empty_ones():
    X, y = make_problem(1000, 5, seed=3)
    cuts = [0, 0, 3, 300, 301, 650, 650, 1000]
    lazy = da.concatenate(
        [
            da.from_array(X[a:b], chunks=(b - a or 1, 5))
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]
    )
    whole = daskglm.fit(X, y, solver="sdca", tol=1e-7, random_state=0)
    parts = daskglm.fit(lazy, y, solver="sdca", tol=1e-7, random_state=0)
    assert parts.report_.objective == pytest.approx(whole.report_.objective, rel=2e-7)
