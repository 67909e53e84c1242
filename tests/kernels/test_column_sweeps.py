"""Coordinate descent by columns of sparse rows, against the same on a Hessian that is formed."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.kernels.column_sweeps import sweep
from daskglm.kernels.records import read_only
from daskglm.penalties.kinks import Kinks
from tests.penalties.test_descent import model as model_value


def drawn(seed=0, *, n=60, d=12, intercept=True, bounded=False, dtype=np.float64):
    """A model by sparse rows: their columns, curvatures, the Hessian, a gradient and kinks."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X[:, 3], X[:, 4] = X[:, 2], 0.0  # a copy, and a column of zeros
    X = sp.csc_matrix(X.astype(dtype))
    A = np.column_stack([X.toarray(), np.ones(n)])[:, : d + intercept]
    curvature, ridge = rng.random(n), np.append(np.full(d, 0.3), 0.0)[: d + intercept]
    curvature[:5] = 0.0
    H = (A.T * curvature) @ A + np.diag(ridge)
    size = d + intercept
    strengths = np.append(np.full(d, 2.0), 0.0)[:size]
    ends = (np.full(size, -0.05), np.full(size, 0.05)) if bounded else (-np.inf, np.inf)
    lower, upper = (np.broadcast_to(end, size) for end in ends)
    w = np.clip(0.2 * rng.standard_normal(size) * (rng.random(size) < 0.5), lower, upper)
    return (
        X,
        curvature,
        H,
        ridge,
        5.0 * rng.standard_normal(size),
        w,
        Kinks(strengths, lower, upper),
    )


def swept(X, curvature, H, ridge, g, w, kinks, wanted=0.0, most=1):
    diagonal = np.where(H.diagonal() > 0.0, H.diagonal(), 1.0)
    model = np.array([g, diagonal, ridge, kinks.strengths, kinks.lower, kinks.upper])
    rows, v = np.zeros((X.shape[0], 2)), w.copy()
    rows[:, 0] = curvature
    columns = tuple(map(read_only, (X.indptr, X.indices, X.data)))
    sweeps, visited = sweep(columns, read_only(model), (wanted, most), v, rows)
    return v, sweeps, visited, rows[:, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_takes_each_coefficient_to_its_best_value(seed, intercept, bounded, dtype):
    case = drawn(seed, intercept=intercept, bounded=bounded, dtype=dtype)
    X, _, H, _, g, w, kinks = case
    found, sweeps, _, moved = swept(*case)
    v, slope = w.copy(), g.copy()
    some = (w != 0.0) | (kinks.residual(w, g) != 0.0)
    for j in np.flatnonzero(some):
        unit = np.eye(len(w))[j]
        curvature = H[j, j] if H[j, j] > 0.0 else 1.0
        to = kinks.proximal(v - unit * slope / curvature, np.full(len(w), curvature))[j]
        slope += H[:, j] * (to - v[j])
        v[j] = to
    assert sweeps == 1
    np.testing.assert_allclose(found, v, rtol=1e-9, atol=1e-12)
    A = np.column_stack([X.toarray(), np.ones(X.shape[0])])[:, : len(w)]
    np.testing.assert_allclose(moved, A @ (found - w), atol=1e-7)


@pytest.mark.parametrize("bounded", [False, True])
def test_no_sweep_lets_the_model_rise(bounded):
    case = drawn(5, bounded=bounded)
    _, _, H, _, g, w, kinks = case
    last = model_value(H, g, w, kinks, w)
    for _ in range(30):
        found = swept(*case[:4], g + H @ (w - case[5]), w, kinks)[0]
        value = model_value(H, g, case[5], kinks, found)
        assert value <= last + 1e-12 * abs(last)
        w, last = found, value
    slope = g + H @ (w - case[5])
    assert np.abs(kinks.residual(w, slope)).max() < 1e-3 * np.abs(kinks.residual(case[5], g)).max()


def test_it_ends_where_the_residual_is_what_was_wanted():
    case = drawn(1)
    assert swept(*case, wanted=1e9, most=50)[1] == 1
    assert 1 < swept(*case, most=50)[1] < 50
    assert swept(*case, most=2)[1] == 2


def test_coefficients_at_rest_are_not_visited():
    X, curvature, H, ridge, g, w, kinks = drawn(2, intercept=False)
    found, sweeps, visited, moved = swept(
        X, curvature, H, ridge, 0.1 * g / np.abs(g).max(), 0 * w, kinks
    )
    assert sweeps == 1
    assert not visited
    assert not found.any()
    assert not moved.any()
