"""The ordinal objective as one vector: against long double, differences, and where it is infinite."""

import math

import numpy as np
import pytest

from tests.objectives.ordinal_objectives import objective, rows


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_values_gradients_and_hessians(K, sparse):
    X, y = rows(0, K=K, sparse=sparse)
    rng = np.random.default_rng(1)
    weight, offset = rng.random(len(y)), rng.standard_normal(len(y))
    made, reference = objective(X, y, 2.5, weight, offset)
    v = np.append(rng.standard_normal(4), np.sort(rng.standard_normal(K - 1)))
    point = made.at(v, gram=True, diagonal=True)
    g, H = reference.derivatives(reference.vector(v[:4], v[4:]))
    assert point.value == pytest.approx(float(reference.value(v.astype(np.longdouble))), rel=1e-13)
    np.testing.assert_allclose(point.gradient, g.astype(float), atol=1e-10)
    np.testing.assert_allclose(point.hessian, H.astype(float), atol=1e-9)
    np.testing.assert_allclose(point.diagonal, np.diag(H).astype(float), rtol=1e-10)
    u = rng.standard_normal(len(v))
    np.testing.assert_allclose(point.hessian_vector(u), (H @ u).astype(float), atol=1e-9)
    # the loss is minus the logarithm of a difference of probabilities
    losses = reference.losses(reference.vector(v[:4], v[4:]))
    direct = 0.5 * v[:4] @ v[:4] + 2.5 * float(reference.s @ losses)
    assert point.value == pytest.approx(direct, rel=1e-12)


def test_between_two_points_there_is_no_pass():
    X, y = rows(3)
    made, _ = objective(X, y)
    a = made.at(made.origin)
    b = made.at(made.origin + np.array([1.0, -1.0, 0.5, 0.0, -0.2, 0.1, 0.3]), beside=a)
    steps, passes = np.array([0.0, 0.3, 1.0]), made.passes
    values = made.between(a, b, steps)
    assert made.passes == passes
    expected = [made.at(a.w + t * (b.w - a.w)).value for t in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-13)


def test_thresholds_that_do_not_rise_are_refused_and_searched_from():
    X, y = rows(4)
    made, _ = objective(X, y)
    a = made.at(made.origin)
    outside = a.w.copy()
    outside[4:] = [2.0, 0.0, 1.0]
    assert not made.is_inside(outside)
    assert made.is_inside(a.w)
    b = made.at(outside, gram=True, diagonal=True, keep=False, beside=a)
    assert b.value == math.inf
    assert b.hessian is None
    passes = made.passes
    values = made.between(a, b, np.array([1.0, 0.5, 0.01]))
    assert made.passes == passes
    assert values[0] == math.inf
    assert math.isfinite(values[-1])


def test_the_origin_has_the_best_thresholds_for_coefficients_of_zero():
    X, y = rows(5, K=5)
    weight = np.random.default_rng(0).random(len(y))
    made, _ = objective(X, y, weight=weight)
    point = made.at(made.origin)
    assert made.is_origin(point.w)
    assert not made.is_origin(point.w + 1e-9)
    assert np.abs(point.gradient[4:]).max() < 1e-12 * weight.sum()
    assert point.near < 1e-15


@pytest.mark.parametrize("C", [1.0, 1e-2])
def test_the_best_thresholds_of_a_point(C):
    X, y = rows(6, hard="offsets")
    made, reference = objective(X, y, C)
    w = made.origin + np.array([1e-4, -1e-4, 1e-5, 0.0, 0.0, 0.5, 1.5])
    better = made.margins.best_constants(made, made.at(w))
    best, value = reference.least(w, slice(4, None))
    np.testing.assert_allclose(better.w[4:], best[4:].astype(float), rtol=1e-7)
    assert better.value == pytest.approx(float(value), rel=1e-12)


def test_a_sample_belongs_together():
    X, y = rows(7, n=4000)
    made, _ = objective(X, y)
    part = made.sample(0.25, 3)
    point = part.at(part.origin, gram=True)
    assert point.value == pytest.approx(made.at(made.origin).value, rel=0.1)
    h, u = 1e-6, np.array([1.0, -1.0, 0.0, 0.5, 0.3, -0.2, 0.4])
    up, down = part.at(part.origin + h * u), part.at(part.origin - h * u)
    assert point.gradient @ u == pytest.approx(
        (up.value - down.value) / (2 * h), rel=1e-4, abs=1e-3
    )
    np.testing.assert_allclose(
        point.hessian @ u, (up.gradient - down.gradient) / (2 * h), rtol=1e-4, atol=1e-3
    )


def test_a_certificate_settles_thresholds_where_only_those_are_in_the_way():
    X, y = rows(8)
    made, reference = objective(X, y)
    off, _ = reference.least(made.origin)
    off[4:] += [1e-4, -1e-4, 2e-4]
    # the best coefficients for these thresholds: no gradient by features is left
    off = reference.least(off, slice(0, 4))[0].astype(float)
    point = made.at(off)
    settled, gap = made.certificate(0.9 * point.relative_gap)(point)
    assert gap < 0.5 * point.relative_gap
    np.testing.assert_array_equal(settled.w[:4], off[:4])
    assert np.abs(settled.gradient[4:]).max() < 1e-9
    # nothing is tried for points whose coefficients are in the way
    point, passes = made.at(made.origin), made.passes
    assert made.certificate(1e-10)(point)[0] is point
    assert made.passes == passes


def test_combinations_with_one_constant_are_not_offered():
    X, y = rows(9)
    made, _ = objective(X, y)
    with pytest.raises(NotImplementedError, match="between"):
        made.along((made.at(made.origin),), np.ones((1, 2)))
