"""Sums over coded rows that a fit asks for once, against their definitions."""

import numpy as np
import pytest

from daskglm.core.summation import MOMENT
from daskglm.kernels import coded, coded_totals
from daskglm.kernels.records import NO_NUMBERS, read_only
from tests.kernels import coded_cases

N = 2 * coded_totals.ROWS + 10


@pytest.mark.parametrize("k", [0, 3])
def test_a_spread_bounds_the_largest_distance_from_the_mean(k):
    X = coded_cases.coded(N, k=k)
    full, rows, d = coded_cases.sparse(X).toarray(), coded.arrays_of(X), X.shape[1]
    scale = 2.0 * np.sqrt((full**2).sum(axis=1).max())
    sums = np.zeros(2 * d + 1)
    coded.spread(rows, read_only(full.mean(axis=0)), scale, 0, N, sums)
    np.testing.assert_allclose(sums[:d], full.sum(axis=0), atol=1e-10)
    columns = (np.abs(full) / scale) ** MOMENT
    np.testing.assert_allclose(sums[d:-1], columns.sum(axis=0), rtol=1e-10)
    distances = np.sqrt(((full - full.mean(axis=0)) ** 2).sum(axis=1)) / scale
    assert distances.max() ** MOMENT <= sums[-1]
    if k:
        np.testing.assert_allclose(sums[-1], (distances**MOMENT).sum(), rtol=1e-10)
    else:
        assert sums[-1] ** (1.0 / MOMENT) <= 1.1 * distances.max()


def test_a_distance_of_nearly_nothing_is_not_lost_in_rounding():
    # all rows are alike: they have their mean, but for the errors of what is subtracted
    X = coded_cases.coded(N)[np.zeros(N, int)]
    full, rows, d = coded_cases.sparse(X).toarray(), coded.arrays_of(X), X.shape[1]
    scale = 2.0 * np.sqrt((full[0] ** 2).sum())
    sums = np.zeros(2 * d + 1)
    centre = full[0] + 1e-9
    coded.spread(rows, read_only(centre), scale, 0, N, sums)
    found = scale * sums[-1] ** (1.0 / MOMENT)
    assert np.sqrt(d) * 1e-9 <= found < 1e-6


def test_norms_and_moments_are_those_of_all_rows():
    X = coded_cases.coded(N, k=2)
    full, rows, d = coded_cases.sparse(X).toarray(), coded.arrays_of(X), X.shape[1]
    weight = np.random.default_rng(1).random(N)
    norms = (full[7:] ** 2).sum(axis=1)
    np.testing.assert_allclose(coded.squared_norms(rows, 7, N), (norms.max(), norms.sum()))
    for given, wanted in ((read_only(weight), weight), (NO_NUMBERS, np.ones(N))):
        sums, squares = np.zeros(d + 1), np.zeros(d + 1)
        coded.add_moments(rows, given, 7, N, sums, squares)
        ones = np.column_stack([full, np.ones(N)])[7:]
        np.testing.assert_allclose(sums, wanted[7:] @ ones, atol=1e-9)
        np.testing.assert_allclose(squares[:d], wanted[7:] @ ones[:, :d] ** 2, atol=1e-9)
    X.dense[9, 1] = np.inf
    assert coded.squared_norms(coded.arrays_of(X), 0, N) == (np.inf, np.inf)
