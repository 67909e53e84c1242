"""The ordinal objective with other links: differences, samples, searches, and that nothing is proved."""

import math

import numpy as np
import pytest
import scipy.stats

from daskglm.core.requests import Problem
from daskglm.losses.ordinal import loss_of_link
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.ridge import Ridge
from tests.objectives.ordinal_objectives import engine_of, rows
from tests.objectives.several import ordered_objective

LINKS = ["probit", "cloglog"]
LAW = {"probit": scipy.stats.norm, "cloglog": scipy.stats.gumbel_l}


def objective(X, y, link, C=2.5, weight=None, offset=None, kind=ordered_objective, **more):
    loss, labels = loss_of_link(link), np.unique(y)
    s = np.ones(len(y)) if weight is None else weight
    return kind(
        engine_of(X, y, weight, offset, threads=2),
        Problem(loss.ref),
        loss,
        classes=tuple(labels.tolist()),
        weights=[float(s[y == k].sum()) for k in labels],
        C=C,
        **more,
    )


def case(link, K, *, sparse=False, dtype=np.float64):
    X, y = rows(0, K=K, sparse=sparse, dtype=dtype)
    rng = np.random.default_rng(1)
    weight, offset = rng.random(len(y)), rng.standard_normal(len(y))
    v = np.append(rng.standard_normal(4), np.sort(rng.standard_normal(K - 1)))
    return objective(X, y, link, 2.5, weight, offset), v, (X, y, weight, offset)


@pytest.mark.parametrize("storage", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("link", LINKS)
def test_values_gradients_hessians_and_products(link, K, storage):
    dtype = np.float32 if storage == "float32" else np.float64
    made, v, (X, y, weight, offset) = case(link, K, sparse=storage == "sparse", dtype=dtype)
    point = made.at(v, gram=True, diagonal=True, exact=True)
    z = np.asarray(X @ v[:4], float) + offset
    t = np.concatenate([[-np.inf], v[4:], [np.inf]])
    a, b, law = t[y + 1] - z, t[y] - z, LAW[link]
    p = np.where(b > 0.0, law.sf(b) - law.sf(a), law.cdf(a) - law.cdf(b))
    assert point.value == pytest.approx(0.5 * v[:4] @ v[:4] - 2.5 * weight @ np.log(p), rel=1e-10)

    h, unit = 1e-5, np.eye(len(v))
    ends = [(made.at(v + h * e), made.at(v - h * e)) for e in unit]
    slopes = [(a.value - b.value) / (2 * h) for a, b in ends]
    np.testing.assert_allclose(point.gradient, slopes, rtol=1e-6, atol=1e-4)
    hessian = np.stack([(a.gradient - b.gradient) / (2 * h) for a, b in ends])
    np.testing.assert_allclose(point.hessian, hessian, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(point.hessian, point.hessian.T, rtol=1e-12)
    assert np.linalg.eigvalsh(point.hessian).min() > 0.0
    np.testing.assert_allclose(point.diagonal, np.diag(point.hessian), rtol=1e-6)
    u = np.random.default_rng(2).standard_normal(len(v))
    np.testing.assert_allclose(point.hessian_vector(u), point.hessian @ u, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("link", LINKS)
def test_searches_have_no_pass_and_end_where_thresholds_do_not_rise(link):
    made, v, _ = case(link, 4)
    a = made.at(v)
    b = made.at(v + np.array([1.0, -1.0, 0.5, 0.0, -0.2, 0.1, 0.3]), beside=a)
    steps, passes = np.array([0.0, 0.3, 1.0]), made.passes
    values = made.between(a, b, steps)
    assert made.passes == passes
    expected = [made.at(a.w + s * (b.w - a.w)).value for s in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    outside = a.w.copy()
    outside[4:] = [2.0, 0.0, 1.0]
    b = made.at(outside, gram=True, keep=False, beside=a)
    assert b.value == math.inf
    values = made.between(a, b, np.array([1.0, 0.9, 0.01]))
    assert values[0] == values[1] == math.inf
    assert math.isfinite(values[-1])


@pytest.mark.parametrize("link", LINKS)
def test_thresholds_alone(link):
    X, y = rows(5, K=5)
    weight = np.random.default_rng(0).random(len(y))
    made = objective(X, y, link, weight=weight)
    point = made.at(made.origin)
    assert np.abs(point.gradient[4:]).max() < 1e-11 * weight.sum()
    moved = made.at(made.origin + 0.3)
    better = made.margins.best_constants(made, moved)
    assert np.abs(better.gradient[4:]).max() < 1e-8
    assert better.value < moved.value
    np.testing.assert_array_equal(better.w[:4], moved.w[:4])


@pytest.mark.parametrize("link", LINKS)
def test_a_sample_belongs_together(link):
    X, y = rows(7, n=4000)
    part = objective(X, y, link).sample(0.25, 3)
    h, u = 1e-6, np.array([1.0, -1.0, 0.0, 0.5, 0.3, -0.2, 0.4])
    point = part.at(part.origin, gram=True)
    up, down = part.at(part.origin + h * u), part.at(part.origin - h * u)
    assert point.gradient @ u == pytest.approx((up.value - down.value) / (2 * h), rel=1e-4)
    found = (up.gradient - down.gradient) / (2 * h)
    np.testing.assert_allclose(point.hessian @ u, found, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(point.hessian_vector(u), point.hessian @ u, rtol=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_proved(link):
    made, v, (X, y, *_) = case(link, 4)
    assert not made.bounds.proves
    kinks = Kinks(np.append(np.ones(4), np.zeros(3)), np.full(7, -np.inf), np.full(7, np.inf))
    penalty = Penalty(Ridge(4), kinks)
    for each in (made, objective(X, y, link, penalty=penalty, any_penalty=True)):
        for point in (each.at(v), each.at(v, gram=True)):
            assert math.isnan(point.relative_gap)
            assert point.excess == math.inf
            found, gap = each.certificate(1e-6)(point)
            assert found is point
            assert math.isnan(gap)
