"""The softmax on tiles of margins, against NumPy and long double."""

import numpy as np
import pytest

from daskglm.kernels.softmax import direction_curvature, losses, prepared, times_hessian
from daskglm.kernels.sweep_outputs import along, targets_of
from daskglm.losses.multinomial import Softmax
from tests.kernels.softmax_case import draw, hessian, sums

LAW = Softmax(0.0)


def tile(z, codes, s):
    """Value, slopes (K, n) and probabilities (K, n) of margins (K, n)."""
    z, slopes = z.copy(), np.empty_like(z)
    of = np.asarray(codes, np.int64)
    value = losses(LAW, z, len(z), z.shape[1], of, s, np.empty((5, z.shape[1])), slopes)
    return value, slopes, z


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e6])
def test_losses_and_slopes_are_relatively_exact(scale):
    rng = np.random.default_rng(0)
    z, s = scale * rng.normal(size=(5, 200)), rng.random(200)
    z[:, :50] = np.round(z[:, :50] / scale) * scale  # ties
    codes = rng.integers(0, 5, 200)
    long = z.astype(np.longdouble)
    largest = long.max(axis=0)
    e = np.exp(long - largest)
    own = codes, np.arange(200)
    others = e.copy()
    others[own] = 0.0
    rest = others.sum(axis=0)
    losses = np.where(
        long[own] == largest, np.log1p(rest), np.log(e.sum(axis=0)) + (largest - long[own])
    )
    slopes = e / e.sum(axis=0)
    slopes[own] = -rest / e.sum(axis=0)
    value, found, p = tile(z, codes, s)
    assert value == pytest.approx(float(s @ losses), rel=1e-14)
    np.testing.assert_allclose(found, (s * slopes).astype(float), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(p.sum(axis=0), 1.0, rtol=1e-14)


def test_tiny_losses_are_not_lost():
    z = np.array([[40.0, 90.0, 300.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    value, slopes, _ = tile(z, [0, 0, 0], np.ones(3))
    assert value == pytest.approx(2.0 * np.exp(-40.0), rel=1e-13)
    np.testing.assert_allclose(slopes[0, 2], -2.0 * np.exp(-300.0), rtol=1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_margins_that_are_not_finite_give_no_finite_value(bad, k):
    z = np.zeros((3, 4))
    z[k, 2] = bad
    assert not np.isfinite(tile(z, [0, 1, 0, 2], np.ones(4))[0])


def test_rows_of_padding_count_nothing():
    codes, weight = np.array([1, 0, 2], np.int32), np.array([2.0, 3.0, 4.0])
    of, s = np.full(8, -7), np.full(8, np.nan)
    targets_of(codes, weight, 1, 2, 8, of, s)
    np.testing.assert_array_equal(of, [0, 2, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(s, [3.0, 4.0, 0, 0, 0, 0, 0, 0])
    targets_of(codes, np.empty(0), 0, 3, 3, of, s)
    np.testing.assert_array_equal(s[:3], 1.0)


def test_curvature_along_a_direction_is_its_variance():
    rng = np.random.default_rng(1)
    p, s = rng.dirichlet(np.ones(4), 50).T.copy(), rng.random(50)
    b, out = rng.normal(size=4), np.empty(50)
    direction_curvature(LAW, p, 4, b, s, 50, np.empty((5, 50)), out)
    variance = b**2 @ p - (b @ p) ** 2
    np.testing.assert_allclose(out, s * variance, rtol=1e-12)


def test_products_with_the_hessian_of_each_row():
    rng = np.random.default_rng(2)
    z, u, s = rng.normal(size=(4, 50)), rng.normal(size=(4, 50)), rng.random(50)
    p, product = z.copy(), u.copy()
    prepared(LAW, p, 4, 50, np.empty((5, 50)))
    times_hessian(LAW, p, 4, 50, s, np.empty((5, 50)), product)
    for t in range(50):
        H = np.diag(p[:, t]) - np.outer(p[:, t], p[:, t])
        np.testing.assert_allclose(product[:, t], s[t] * H @ u[:, t], atol=1e-15)


def test_values_along_cached_margins():
    X, codes, weight, W, V = draw(n=1100)
    shift = np.array([0.3, -0.2, 0.0, 1.0])
    a, b = np.zeros_like(W), np.zeros_like(V)
    a[:], b[:] = W, V
    mixed = 0.25 * W + 0.75 * V
    mixed[:, -1] += shift
    Z = tuple(sums(X, codes, weight, each, V)["margins"].copy() for each in (a, b))
    out = np.zeros(2), np.zeros((2, 4)), np.zeros((2, 4, 4))
    steps, shifts = np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([np.zeros(4), shift])
    for lo, hi in ((0, 513), (513, 1100)):
        along(LAW, codes, weight, Z, steps, shifts, lo, hi, out)
    for m, at in enumerate((W, mixed)):
        expected = sums(X, codes, weight, at, V)
        assert out[0][m] == pytest.approx(expected["value"], rel=1e-13)
        np.testing.assert_allclose(out[1][m], expected["gradient"][:, -1], rtol=1e-10, atol=1e-11)
        whole = hessian(expected["grams"], 4)[:, -1, :, -1]
        np.testing.assert_allclose(out[2][m], whole, rtol=1e-11)
