"""Sums of the ordinal loss over sparse rows, with values and with a pattern alone."""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.kernels.ordinal_cases import Case, cases
from tests.kernels.test_sweep_thresholds import check


@settings(max_examples=25, deadline=None)
@given(cases)
def test_values_and_derivatives(drawn):
    case = Case(drawn, sparse=True)
    check(case)
    case.engine.close()


@pytest.mark.parametrize("K", [2, 4])
def test_a_pattern(K):
    drawn = {
        "dtype": np.float64,
        "weighted": True,
        "moved": True,
        "K": K,
        "n": 500,
        "d": 9,
        "seed": 5,
    }
    check(Case(drawn, sparse=True, pattern=True))
