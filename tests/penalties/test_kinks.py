"""The non-smooth part of penalties against its definition, minimised and maximised by hand."""

import math

import numpy as np
import pytest
import scipy.optimize

from daskglm.penalties.kinks import Kinks

NONE = np.zeros(0)


def terms(*, bounded=False, grouped=False, size=6):
    """Strengths of 0, 0.5 and 2; bounds of the first features; the last two in a group."""
    strengths = np.array([0.0, 0.5, 2.0, 0.5, 1.0, 0.0])[:size]
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    if bounded:
        lower[:3], upper[:3] = [-0.3, 0.0, 0.25], [0.4, 0.5, 3.0]
    groups, group_strengths = (), NONE
    if grouped:
        strengths[-2:] = 0.0
        groups, group_strengths = (np.array([size - 2, size - 1]),), np.array([0.8])
    return Kinks(strengths, lower, upper, groups, group_strengths)


KINDS = [{}, {"bounded": True}, {"grouped": True}, {"bounded": True, "grouped": True}]


def direct(part, w):
    total = sum(s * abs(x) for s, x in zip(part.strengths, w, strict=True))
    for group, strength in zip(part.groups, part.group_strengths, strict=True):
        total += strength * math.sqrt(sum(w[j] ** 2 for j in group))
    return total


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_value_is_by_its_definition(kind):
    part, rng = terms(**kind), np.random.default_rng(0)
    for _ in range(20):
        w = part.clip(rng.standard_normal(6))
        assert part.value(w) == pytest.approx(direct(part, w), rel=1e-14)


def test_nothing_is_empty_and_adds_nothing():
    nothing = Kinks.nothing(6)
    assert nothing.is_empty
    assert not nothing.is_bounded
    assert nothing.value(np.ones(6)) == 0.0
    assert nothing.clip(np.ones(6)).tolist() == [1.0] * 6
    part = nothing.plus(terms(bounded=True, grouped=True))
    same = terms(bounded=True, grouped=True)
    for name in ("strengths", "lower", "upper", "members", "group_strengths"):
        np.testing.assert_array_equal(getattr(part, name), getattr(same, name))


@pytest.mark.parametrize("kind", [{"bounded": True}, {"grouped": True}], ids=str)
def test_bounds_and_groups_alone_are_not_empty(kind):
    part = terms(**kind)
    alone = Kinks(np.zeros(6), part.lower, part.upper, part.groups, part.group_strengths)
    assert not alone.is_empty


def test_sums_take_the_narrower_bounds():
    zero = np.zeros(2)
    a = Kinks(zero, np.array([-1.0, 0.0]), np.array([3.0, np.inf]))
    b = Kinks(zero, np.array([-2.0, 0.5]), np.array([2.0, 1.0]))
    found = a.plus(b)
    assert found.lower.tolist() == [-1.0, 0.5]
    assert found.upper.tolist() == [2.0, 1.0]


def test_sums_store_equal_entries_once():
    part = Kinks(np.full(4, 0.5), np.full(4, -np.inf), np.full(4, np.inf))
    found = Kinks.nothing(4).plus(part)
    for values in (found.strengths, found.lower, found.upper):
        assert values.strides == (0,)
    assert found.strengths.tolist() == [0.5] * 4
    uneven = found.plus(terms(size=4))
    assert uneven.strengths.tolist() == [0.5, 1.0, 2.5, 1.0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_features_alone_are_a_view(kind):
    part = terms(**kind)
    padded = Kinks(
        *(np.append(values, 0.0) for values in (part.strengths, part.lower, part.upper)),
        part.groups,
        part.group_strengths,
    )
    found = padded.of_features(6)
    assert np.shares_memory(found.lower, padded.lower)
    for name in ("strengths", "lower", "upper", "members", "is_grouped"):
        np.testing.assert_array_equal(getattr(found, name), getattr(part, name))


# ---- the shortest subgradient
def points(part, rng):
    """Random points, on kinks and bounds too."""
    w = rng.standard_normal(6) * (rng.random(6) < 0.6)
    for group in part.groups:
        if rng.random() < 0.4:
            w[group] = 0.0
    return part.clip(w)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_residual_is_the_steepest_descent(kind):
    """Minus the shortest subgradient r is the direction of steepest descent, whose slope is -|r|."""
    part, rng = terms(**kind), np.random.default_rng(1)
    for _ in range(40):
        w, gradient = points(part, rng), 1.5 * rng.standard_normal(6)
        r = part.residual(w, gradient)
        norm = float(np.linalg.norm(r))

        def slope(u, w=w, gradient=gradient, t=1e-7):
            to = w + t * u
            if not ((to >= part.lower) & (to <= part.upper)).all():
                return np.inf
            return float(gradient @ u) + (direct(part, to) - direct(part, w)) / t

        if norm > 0.0:
            assert slope(-r / norm) == pytest.approx(-norm, rel=1e-5)
        for u in rng.standard_normal((20, 6)):
            assert slope(u / np.linalg.norm(u)) >= -norm - 1e-5


def test_residual_is_zero_where_a_subgradient_is():
    part = terms(bounded=True, grouped=True)
    w = np.array([-0.3, 0.5, 0.25, 0.0, 0.0, 0.0])
    # at a lower bound, at an upper one, at a lower one above zero, at a kink, at a zero group
    gradient = np.array([0.7, -0.9, -1.9, 0.49, 0.5, -0.6])
    assert part.residual(w, gradient).tolist() == [0.0] * 6
    away = np.array([-0.7, 0.4, -2.1, 0.6, 3.0, -4.0])
    expected = [-0.7, 0.9, -0.1, 0.1, 3.0 * (1 - 0.8 / 5.0), -4.0 * (1 - 0.8 / 5.0)]
    np.testing.assert_allclose(part.residual(w, away), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_norm_and_places_of_residuals_are_those_of_the_vector(kind, monkeypatch):
    monkeypatch.setattr("daskglm.penalties.kinks.AT_ONCE", 4)
    part, rng = terms(**kind), np.random.default_rng(5)
    for _ in range(20):
        w = part.clip(rng.standard_normal(6) * (rng.random(6) < 0.5))
        gradient = rng.standard_normal(6)
        residual = part.residual(w, gradient)
        assert part.residual_norm(w, gradient) == pytest.approx(np.linalg.norm(residual))
        np.testing.assert_array_equal(part.violated(w, gradient), residual != 0.0)


def test_a_slope_that_is_not_a_number_has_no_residual():
    part = terms()
    nothing = np.full(6, math.nan)
    for w in (np.zeros(6), np.ones(6)):
        assert part.residual(w, nothing).tolist() == [0.0] * 6


def test_the_value_of_long_vectors_is_that_of_short_ones(monkeypatch):
    part, w = terms(), np.array([0.0, -2.0, 0.0, 0.0, 3.0, 1.0])
    known = part.value(w)
    monkeypatch.setattr("daskglm.penalties.kinks.AT_ONCE", 4)
    assert part.value(w) == pytest.approx(known)


def test_over_are_the_slopes_that_may_be_above_their_strengths(monkeypatch):
    monkeypatch.setattr("daskglm.penalties.kinks.AT_ONCE", 4)
    part = terms()  # strengths 0, 0.5, 2, 0.5, 1 and 0
    gradient = np.array([0.0, -0.6, 1.9, 0.4, -0.9, 0.1])
    error = np.array([0.0, 0.0, 0.05, 0.2, 0.05, 0.0])
    assert part.over(gradient, error).tolist() == [1, 3, 5]


def test_times_multiplies_all_strengths_and_keeps_bounds():
    part = terms(bounded=True, grouped=True).times(0.5)
    assert part.strengths.tolist() == [0.0, 0.25, 1.0, 0.25, 0.0, 0.0]
    assert part.group_strengths.tolist() == [0.4]
    assert part.upper[:3].tolist() == [0.4, 0.5, 3.0]
    alike = Kinks(*(np.broadcast_to(value, 6) for value in (2.0, -np.inf, np.inf))).times(0.9)
    assert alike.strengths.strides == (0,), "one number is stored once"
    assert alike.strengths.tolist() == [1.8] * 6


def test_residual_of_a_coefficient_between_equal_bounds_is_zero():
    part = Kinks(np.zeros(1), np.full(1, 0.5), np.full(1, 0.5))
    assert part.residual(np.array([0.5]), np.array([3.0])) == 0.0
    assert part.residual(np.array([0.5]), np.array([-3.0])) == 0.0


# ---- the conjugate
def conjugate_by_search(part, u, curvature, j):
    """The maximum over v_j, by minimising on both sides of the kink within the bounds."""

    def f(v):
        return part.strengths[j] * abs(v) + 0.5 * curvature[j] * v * v - u[j] * v

    low, high = max(part.lower[j], -1e3), min(part.upper[j], 1e3)
    candidates = [low, high, *([0.0] if low <= 0.0 <= high else [])]
    for a, b in ((low, min(high, 0.0)), (max(low, 0.0), high)):
        if a < b:
            found = scipy.optimize.minimize_scalar(
                f, bounds=(a, b), method="bounded", options={"xatol": 1e-12}
            )
            candidates.append(float(found.x))
    return -min(map(f, candidates))


def maximum(part, *given):
    return part.conjugate(*given)[0]


@pytest.mark.parametrize("bounded", [False, True])
def test_the_slope_of_a_conjugate_is_that_of_its_values(bounded):
    part, rng = terms(bounded=bounded), np.random.default_rng(4)
    for _ in range(30):
        curvature = rng.exponential(1.0, 6) + 0.01
        u, error = 3.0 * rng.standard_normal(6), 0.1 * rng.random(6)
        c = rng.random()
        slope = part.conjugate(u, curvature, error, c)[1]
        ends = (maximum(part, u, curvature, error, at) for at in (c - 1e-6, c + 1e-6))
        assert slope == pytest.approx(-np.subtract(*ends) / 2e-6, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("bounded", [False, True])
def test_conjugate_is_the_maximum(bounded):
    part, rng = terms(bounded=bounded), np.random.default_rng(2)
    for _ in range(30):
        curvature = rng.exponential(1.0, 6) + 0.01
        if bounded:  # bounds hold these without a penalty
            curvature[:3] *= rng.random(3) < 0.5
        u = 3.0 * rng.standard_normal(6)
        best = sum(conjugate_by_search(part, u, curvature, j) for j in range(6))
        assert maximum(part, u, curvature, np.zeros(6)) == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_conjugate_within_errors_is_not_below_any():
    part, rng = terms(bounded=True, grouped=True), np.random.default_rng(3)
    curvature = np.array([0.0, 0.3, 1.0, 2.0, 0.0, 0.0])
    for _ in range(50):
        u = rng.standard_normal(6)
        u[4:] *= 0.3
        error = 0.2 * rng.random(6)
        whole = maximum(part, u, curvature, error)
        for sign in rng.choice([-1.0, 0.0, 1.0], (20, 6)):
            assert whole >= maximum(part, u + sign * error, curvature, np.zeros(6)) - 1e-12


def test_conjugate_is_infinite_where_nothing_holds():
    part, none = terms(grouped=True), np.zeros(6)
    fine = np.array([0.0, 0.4, -2.0, 0.5, 0.4, -0.6])
    assert maximum(part, fine, none, none) == 0.0
    for j in range(4):
        assert maximum(part, fine + 0.7 * np.sign(fine + (fine == 0)) * (np.arange(6) == j),
                              none, none) == math.inf  # fmt: skip
    assert maximum(part, np.array([0, 0, 0, 0, 0.5, 0.7]), none, none) == math.inf
    assert maximum(part, fine, none, np.append(np.zeros(4), [0.2, 0.2])) == math.inf


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_most_share_is_the_largest_with_a_finite_conjugate(kind):
    part, rng = terms(**kind), np.random.default_rng(4)
    for _ in range(60):
        curvature = rng.exponential(1.0, 6) * (rng.random(6) < 0.4)
        curvature[part.is_grouped] = 0.0
        gradient, error = rng.standard_normal(6), 0.1 * rng.random(6)
        gradient[0] *= rng.random() < 0.3  # which nothing holds from above
        error[0] = 0.0
        c = part.most_share(gradient, curvature, error, part.over(gradient, error))
        assert 0.0 <= c <= 1.0
        assert math.isfinite(maximum(part, -c * gradient, curvature, c * error))
        if c < 1.0:
            over = min(1.001 * c + 1e-9, 1.0)
            assert maximum(part, -over * gradient, curvature, over * error) == math.inf


# ---- some of the features
def test_restricted_to_whole_groups():
    part = Kinks(
        np.array([0.1, 0.0, 0.0, 0.2, 0.0, 0.0, 0.3, 0.0]),
        np.array([-1.0, -np.inf, -np.inf, -2.0, *[-np.inf] * 4]),
        np.array([np.inf, np.inf, np.inf, 2.0, *[np.inf] * 4]),
        (np.array([1, 4]), np.array([2, 5])),
        np.array([0.5, 0.7]),
    )
    some = part.restricted(np.array([2, 3, 5, 6]), 5)  # with the intercept, which is the last
    w = np.array([0.0, 0.0, 1.0, -1.5, 0.0, 2.0, 3.0, 4.0])
    assert some.value(w[[2, 3, 5, 6, 7]]) == pytest.approx(part.value(w), rel=1e-15)
    assert some.lower.tolist() == [-np.inf, -2.0, -np.inf, -np.inf, -np.inf]
    assert [group.tolist() for group in some.groups] == [[0, 2]]
    gradient = np.random.default_rng(0).standard_normal(8)
    np.testing.assert_array_equal(
        some.residual(w[[2, 3, 5, 6, 7]], gradient[[2, 3, 5, 6, 7]]),
        part.residual(w, gradient)[[2, 3, 5, 6, 7]],
    )
    assert len(part.restricted(np.arange(7), 7).strengths) == 7
    assert part.restricted(np.arange(7), 8) is part
    assert part.restricted(np.array([0, 3]), 2).groups == ()


# ---- where it is smooth
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gradient_and_hessian_are_differences_of_the_value(kind):
    part, rng, h = terms(**kind), np.random.default_rng(0), 1e-6
    for _ in range(10):
        w = part.clip(rng.standard_normal(6))
        w[rng.integers(0, 4)] = 0.0
        free = part.free(w)
        gradient = np.zeros(6)
        v = np.zeros(6)
        v[free] = rng.standard_normal(len(free))
        for j in free:
            e = h * np.eye(6)[j]
            gradient[j] = (part.value(w + e) - part.value(w - e)) / (2 * h)
        np.testing.assert_allclose(part.gradient(w)[free], gradient[free], atol=1e-8)
        change = (part.gradient(w + h * v) - part.gradient(w - h * v)) / (2 * h)
        np.testing.assert_allclose(part.hessian_vector(w, v), change, atol=1e-7)


def test_free_coefficients_are_at_no_kink_and_no_bound():
    part = terms(bounded=True, grouped=True)
    assert part.free(np.array([0.0, 0.0, 1.0, -2.0, 0.0, 1e-9])).tolist() == [0, 2, 3, 4, 5]
    assert part.free(np.array([0.4, 0.5, 0.25, 0.0, 0.0, 0.0])).tolist() == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_proximal_point_has_the_least_value(kind):
    part, rng = terms(**kind), np.random.default_rng(1)
    for _ in range(10):
        w, metric = 2.0 * rng.standard_normal(6), rng.exponential(1.0, 6) + 0.1
        metric[-1] = metric[-2]  # one for a group
        v = part.proximal(w, metric)
        # optimal: no subgradient of the sum is left
        left = part.residual(v, metric * (v - w))
        np.testing.assert_allclose(left, 0.0, atol=1e-12)
        assert (v >= part.lower).all()
        assert (v <= part.upper).all()
