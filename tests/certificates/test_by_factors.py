"""Bounds by factors against what rows and their sums can do, and against those of any rows."""

import math

import numpy as np
import pytest

from daskglm.certificates.by_factors import ByFactors
from daskglm.certificates.constants import Intercept
from daskglm.certificates.hessian_factor import GradientError, HessianFactor
from daskglm.certificates.rounding import Rounding
from daskglm.core.facts import DataSummary
from daskglm.losses.table import find

N, FIRST, SECOND, K = 400, 9, 5, 3
D = FIRST + SECOND + K


@pytest.fixture(params=range(4))
def case(request):
    """Rows with two factors and numbers, their Hessian with an intercept, and their rounding."""
    rng = np.random.default_rng(request.param)
    X = np.zeros((N, D + 1))
    # some rows have no level: that of the reference
    for start, levels in ((0, FIRST), (FIRST, SECOND)):
        codes = rng.integers(0, levels + 1, N)
        has = np.flatnonzero(codes < levels)
        X[has, start + codes[has]] = 1.0
    X[:, FIRST + SECOND : D] = rng.normal(size=(N, K)) * np.logspace(0, request.param, K)
    X[:, D] = 1.0
    factor = HessianFactor.of((X.T * rng.random(N)) @ X + 1e-3 * np.eye(D + 1), 0.0)
    facts = DataSummary(
        n_rows=N,
        n_features=D,
        weight=float(N),
        largest_row_norm=float(np.linalg.norm(X[:, :D], axis=1).max()),
        factors=((0, FIRST), (FIRST, FIRST + SECOND)),
    )
    one = Intercept.of(fit_intercept=True)
    rounding = Rounding(facts, find("poisson"), one, on_device=False)
    return rng, X, factor, rounding


def test_no_row_moves_further_than_the_reach(case):
    _, X, factor, rounding = case
    largest = max(factor.decrement(x) for x in X)
    assert largest <= rounding.reach(factor)
    assert rounding.reach(factor) <= rounding.by_factors.reach(factor.roots, rounding.radius)


def test_errors_of_sums_are_within_the_bound(case):
    rng, X, factor, rounding = case
    rounding.columns = np.abs(X[:, :D]).max(axis=0)
    u = 1e-3  # roundings of that size
    slopes = rng.exponential(size=N)
    error = GradientError(margins=0.0, slopes=0.0, adding=u * slopes.sum(), penalty=0.0)
    bound = rounding.by_factors.error(factor, error, rounding.columns)
    assert bound <= factor.error(error, D, rounding.columns)
    for signs in rng.choice([-1.0, 1.0], (50, D + 1)):
        # each entry is off by a share of the sizes of its terms
        off = u * signs * (np.abs(X).T @ slopes)
        assert factor.decrement(off) <= bound


def with_levels(m):
    """A Hessian of m levels of four rows each, and of an intercept."""
    diagonal = np.full(m + 1, 4.0)
    factor = HessianFactor.of(np.diag(diagonal), 0.0)
    return factor, ByFactors(((0, m),), m, Intercept.of(fit_intercept=True))


def test_neither_grows_with_the_number_of_levels():
    error = GradientError(margins=0.0, slopes=0.0, adding=1.0, penalty=0.0)
    for m in (10, 300):
        factor, by = with_levels(m)
        assert by.reach(factor.roots, 2.0) == pytest.approx(1.0)
        assert by.error(factor, error, 2.0) == pytest.approx(1.0)


def test_other_roots_are_not_split():
    error = GradientError(margins=0.0, slopes=0.0, adding=1.0, penalty=0.0)
    factor, _ = with_levels(3)
    one = Intercept.of(fit_intercept=True)
    for by in (ByFactors((), 3, one), ByFactors(((0, 3),), 4, one)):
        assert by.reach(factor.roots, 1.0) == math.inf
    by = ByFactors((), 3, one)
    assert by.error(factor, error, 1.0) == factor.error(error, 3, 1.0)
