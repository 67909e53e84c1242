"""Coordinate descent by columns of dense rows, against the minimum by a Hessian that is formed."""

import numpy as np
import pytest

from daskglm.kernels.column_descent import descend
from daskglm.kernels.records import read_only
from daskglm.penalties.descent import minimise
from daskglm.penalties.kinks import Kinks
from tests.penalties.test_descent import model as model_value


def drawn(seed=0, *, n=80, d=12, intercept=True, bounded=False, ridge=0.3, mean=0.0):
    """Columns, curvatures, the Hessian, the model's first two lines, a point and kinks."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + mean
    X[:, 3], X[:, 4] = X[:, 2], 0.0  # a copy, and a column of zeros
    size = d + intercept
    A = np.column_stack([X, np.ones(n)])[:, :size]
    curvature = rng.random(n)
    curvature[:5] = 0.0
    more = np.append(np.full(d, ridge), 0.0)[:size]
    H = (A.T * curvature) @ A + np.diag(more)
    strengths = np.append(rng.uniform(1.0, 3.0, d), 0.0)[:size]
    ends = (-0.05, 0.08) if bounded else (-np.inf, np.inf)
    lower, upper = (np.append(np.full(d, end), np.inf)[:size] for end in ends)
    lower[d:] = -np.inf
    w = np.clip(0.2 * rng.standard_normal(size) * (rng.random(size) < 0.5), lower, upper)
    return X, curvature, H, more, 8.0 * rng.standard_normal(size), w, Kinks(strengths, lower, upper)


def descended(X, curvature, H, ridge, g, w, kinks, wanted=1e-10, most=np.inf):
    model, v = np.array([g, ridge, kinks.strengths, kinks.lower, kinks.upper]), w.copy()
    columns = read_only(np.ascontiguousarray(X.T))
    visited, ended = descend(columns, curvature, read_only(model), (wanted, most), v)
    return v, visited, ended


@pytest.mark.parametrize("mean", [0.0, 300.0])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_end_is_the_minimum(seed, intercept, bounded, mean):
    if mean and not intercept:
        pytest.skip("nothing centres the columns")
    case = drawn(seed, intercept=intercept, bounded=bounded, mean=mean)
    X, _, H, _, g, w, kinks = case
    # slopes of far columns have fewer digits
    found, visited, ended = descended(*case, wanted=1e-7 if mean else 1e-10)
    assert ended
    assert visited >= X.size
    best = minimise(H, g, w, kinks, 1e-12)
    least = model_value(H, g, w, kinks, best.w)
    size = abs(least) + 1.0
    assert model_value(H, g, w, kinks, found) <= least + 1e-8 * size
    assert (found >= kinks.lower).all()
    assert (found <= kinks.upper).all()


@pytest.mark.parametrize("seed", range(4))
def test_no_coefficient_has_more_of_a_residual_than_wanted(seed):
    case = drawn(seed)
    _, _, H, _, g, w, kinks = case
    found, _, ended = descended(*case, wanted=1e-4)
    assert ended
    left = np.abs(kinks.residual(found, g + H @ (found - w)))
    assert (left[:-1] <= 2e-4 * kinks.strengths[:-1]).all()
    assert left[-1] <= 1e-9, "the intercept takes its best value"


def test_a_descent_ends_where_it_may_read_no_more():
    case = drawn(1, ridge=0.0)
    X, _, H, _, g, w, kinks = case
    found, visited, ended = descended(*case, most=3.0 * X.size)
    assert not ended
    assert visited <= 8.0 * X.size, "it is seen after a sweep, which reads a value three times"
    assert model_value(H, g, w, kinks, found) <= model_value(H, g, w, kinks, w)


def test_slow_descents_are_given_up_by_their_rate():
    # columns that are nearly the same
    rng = np.random.default_rng(0)
    X, curvature, _, ridge, g, _, kinks = drawn(0, n=80, ridge=0.0, intercept=False)
    X = X[:, :1] + 1e-3 * rng.standard_normal(X.shape)
    kinks = Kinks(1e-3 * kinks.strengths, kinks.lower, kinks.upper)
    H, w, most = (X.T * curvature) @ X, np.zeros(X.shape[1]), 1e4 * X.size
    found, visited, ended = descended(X, curvature, H, ridge, g, w, kinks, most=most)
    assert not ended
    assert visited < 0.1 * most
    assert model_value(H, g, w, kinks, found) < 0.0


def test_nothing_moves_at_a_minimum():
    X, curvature, H, ridge, g, w, kinks = drawn(2)
    w[:], g[:] = 0.0, 0.0
    found, visited, ended = descended(X, curvature, H, ridge, g, w, kinks)
    assert ended
    assert visited == X.size, "one look at each column"
    np.testing.assert_array_equal(found, w)
