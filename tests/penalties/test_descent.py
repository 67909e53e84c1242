"""The minimum of quadratics with kinks, bounds and groups: by optimality, and by a slow method."""

import numpy as np
import pytest

from daskglm.penalties import descent
from daskglm.penalties.descent import minimise
from daskglm.penalties.kinks import Kinks
from tests.covering import covering, each_choice


def quadratic(rng, d, *, n=40, spread=0.0, copies=False, empty=False):
    """Hessian and gradient of a least squares problem at a random point w, and that point."""
    X = rng.standard_normal((n, d)) * 10.0 ** (spread * rng.uniform(-1, 1, d))
    if copies:
        X[:, 1] = X[:, 0]
        X[:, 3] = X[:, 2] - X[:, 0]
    if empty:
        X[:, d - 1] = 0.0
    w = rng.standard_normal(d) * (rng.random(d) < 0.5)
    return X.T @ X, X.T @ (X @ w - rng.standard_normal(n) - X[:, 0]), w


def drawn(rng, d, *, bounded=False, grouped=False, scale=5.0):
    """Random terms: a third of the strengths are zero."""
    strengths = scale * rng.exponential(1.0, d) * (rng.random(d) < 0.67)
    lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
    groups, group_strengths = (), np.zeros(0)
    first = 0
    if grouped:
        groups = (np.array([0, 2, 4]), np.array([1, 3]))
        group_strengths = scale * rng.exponential(2.0, 2)
        strengths[:5] = 0.0
        first = 5
    if bounded:
        lower[first:] = np.where(
            rng.random(d - first) < 0.5, -rng.exponential(0.3, d - first), -np.inf
        )
        upper[first:] = np.where(
            rng.random(d - first) < 0.5, rng.exponential(0.3, d - first), np.inf
        )
        lower[first], upper[first] = 0.1, 0.4  # zero is outside
    return Kinks(strengths, lower, upper, groups, group_strengths)


def model(H, g, w, terms, v):
    step = v - w
    return float(g @ step + 0.5 * step @ H @ step) + terms.value(v)


def violation(H, g, w, terms, v):
    """By how much v misses the conditions of a minimum, as a share of what gradients are made of."""
    slope = g + H @ (v - w)
    size = np.abs(g) + np.abs(H) @ np.abs(v - w) + terms.strengths + 1e-300
    worst = 0.0
    for j in np.flatnonzero(~terms.is_grouped):
        low, high = slope[j] - terms.strengths[j], slope[j] + terms.strengths[j]
        if v[j] != 0.0:
            low = high = slope[j] + terms.strengths[j] * np.sign(v[j])
        if v[j] <= terms.lower[j]:
            low = -np.inf
        if v[j] >= terms.upper[j]:
            high = np.inf
        worst = max(worst, low / size[j], -high / size[j])
    for group, strength in zip(terms.groups, terms.group_strengths, strict=True):
        norm = np.linalg.norm(v[group])
        if norm > 0.0:
            off = np.linalg.norm(slope[group] + strength * v[group] / norm)
        else:
            off = max(np.linalg.norm(slope[group]) - strength, 0.0)
        worst = max(worst, off / (np.linalg.norm(size[group]) + strength))
    return worst


def by_proximal_gradient(H, g, w, terms, iterations=20_000):
    """The minimum by proximal gradient with momentum that restarts."""
    top = np.linalg.eigvalsh(H)[-1]
    v = seen = terms.clip(w)
    t = 1.0
    for _ in range(iterations):
        to = seen - (g + H @ (seen - w)) / top
        new = np.clip(
            np.sign(to) * np.maximum(np.abs(to) - terms.strengths / top, 0.0),
            terms.lower,
            terms.upper,
        )
        for group, strength in zip(terms.groups, terms.group_strengths, strict=True):
            norm = np.linalg.norm(to[group])
            new[group] = to[group] * max(1.0 - strength / top / max(norm, 1e-300), 0.0)
        if (seen - new) @ (new - v) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        seen, v, t = new + (t - 1.0) / after * (new - v), new, after
    return v


KINDS = [
    {},
    {"bounded": True},
    {"grouped": True},
    {"bounded": True, "grouped": True},
]


@covering(1, kind=KINDS, rows=[{}, {"copies": True}, {"empty": True}, {"n": 5}])
def test_the_model_is_no_higher_than_by_proximal_gradient(rows, kind):
    rng = np.random.default_rng(0)
    for _ in range(2):
        H, g, w = quadratic(rng, 8, **rows)
        terms = drawn(rng, 8, **kind)
        w = terms.clip(w)
        found = minimise(H, g, w, terms, 1e-10)
        slow = by_proximal_gradient(H, g, w, terms)
        least = model(H, g, w, terms, slow)
        scale = abs(model(H, g, w, terms, w)) + abs(least)
        assert model(H, g, w, terms, found.w) <= least + 1e-10 * scale
        assert violation(H, g, w, terms, found.w) <= 1e-8
        assert ((found.w >= terms.lower) & (found.w <= terms.upper)).all()
        np.testing.assert_allclose(found.slope, g + H @ (found.w - w), atol=1e-10 * np.abs(g).max())


@each_choice
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("d", [8, 60])
def test_optimality_of_many_random_models(d, kind):
    rng = np.random.default_rng(d)
    for k in range(40):
        rows = {"spread": rng.choice([0.0, 3.0]), "copies": k % 3 == 0, "empty": k % 5 == 0}
        n = int(rng.choice([d // 2, 4 * d]))
        H, g, w = quadratic(rng, d, n=n, **rows)
        terms = drawn(rng, d, scale=10.0 ** rng.uniform(-3, 2), **kind)
        w = terms.clip(w)
        found = minimise(H, g, w, terms, 1e-10)
        assert model(H, g, w, terms, found.w) <= model(H, g, w, terms, w) * (1 + 1e-14)
        # of dependent columns each step may take only one coefficient to zero
        wanted = 1e-4 if n < d or rows["copies"] else 1e-7
        assert violation(H, g, w, terms, found.w) <= wanted, (k, rows)


@pytest.mark.parametrize("share", [0.1, 1e-3, 1e-8])
def test_the_residual_falls_to_the_share_that_is_asked_for(share):
    rng = np.random.default_rng(1)
    for _ in range(20):
        H, g, w = quadratic(rng, 12)
        terms = drawn(rng, 12)
        terms.strengths[-1] = 0.5  # else it is not among those whose residual is asked for
        root = np.sqrt(H.diagonal())
        first = np.linalg.norm(terms.residual(w, g) / root)
        found = minimise(H, g, w, terms, share)
        left = np.linalg.norm(terms.residual(found.w, g + H @ (found.w - w)) / root)
        assert left <= share * first * (1 + 1e-9)
        assert found.residual == pytest.approx(left, rel=1e-3, abs=1e-12 * first)


def test_nothing_moves_at_the_minimum():
    rng = np.random.default_rng(2)
    H, g, _ = quadratic(rng, 6)
    terms = Kinks(np.abs(g) * 1.01, np.full(6, -np.inf), np.full(6, np.inf))
    found = minimise(H, g, np.zeros(6), terms, 1e-3)
    assert found.w.tolist() == [0.0] * 6
    assert found.residual == 0.0


def test_without_kinks_it_is_a_newton_step():
    rng = np.random.default_rng(3)
    H, g, w = quadratic(rng, 10, spread=2.0)
    found = minimise(H, g, w, Kinks.nothing(10), 1e-12)
    np.testing.assert_allclose(found.w, w - np.linalg.solve(H, g), rtol=1e-6)


def test_arguments_stay_as_they_are():
    rng = np.random.default_rng(4)
    H, g, w = quadratic(rng, 7)
    copies = H.copy(), g.copy(), w.copy()
    minimise(H, g, w, drawn(rng, 7), 1e-8)
    for before, now in zip(copies, (H, g, w), strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("grouped", [False, True])
def test_steps_on_free_coefficients_take_over_where_columns_are_correlated(monkeypatch, grouped):
    monkeypatch.setattr(descent, "MOST_LOOKS", 100)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 1)) + 1e-3 * rng.standard_normal((200, 30))
    H, g = X.T @ X, X.T @ rng.standard_normal(200) * 10.0
    terms = drawn(rng, 30, grouped=grouped, scale=1e-2)
    found = minimise(H, g, np.zeros(30), terms, 1e-8)
    monkeypatch.setattr(descent, "SWEEP_COST", 0.0)  # never
    slow = minimise(H, g, np.zeros(30), terms, 1e-8)
    assert found.residual <= 1e-5 * slow.residual


def test_a_quadratic_that_is_zero():
    """Rows without curvature: only coefficients that the penalty holds have a minimum, at zero."""
    terms = Kinks(np.ones(3), np.full(3, -np.inf), np.full(3, np.inf))
    found = minimise(np.zeros((3, 3)), np.zeros(3), np.array([1.0, 0.0, 0.0]), terms, 1e-3)
    assert np.isfinite(found.w).all()
    assert found.w.tolist() == [0.0, 0.0, 0.0]


def test_a_group_of_columns_of_unlike_sizes():
    """Steps by the largest eigenvalue of a group took over 2,000 sweeps for the small columns."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((200, 6)) * np.array([1e3, 1.0, 1e-3, 1.0, 1e2, 1.0])
    H, g = X.T @ X, X.T @ (rng.standard_normal(200) - X @ (1.0 / X.std(axis=0)))
    none = np.full(6, np.inf)
    for strength in (0.0, 1e-3, 1.0, 1e3, 1e6):
        groups = (np.arange(3), np.arange(3, 6))
        terms = Kinks(np.zeros(6), -none, none, groups, np.full(2, strength))
        found = minimise(H, g, np.zeros(6), terms, 1e-10)
        assert found.residual <= 1e-8 * np.linalg.norm(g / np.sqrt(H.diagonal()))


@pytest.mark.parametrize("strength", [0.0, 1e-8, 0.3, 5.0])
def test_the_minimum_along_a_group_is_exact(strength):
    rng = np.random.default_rng(7)
    for _ in range(20):
        root = rng.standard_normal((4, 4)) * 10.0 ** rng.uniform(-3, 3, 4)
        H, v, slope = root @ root.T, rng.standard_normal(4), rng.standard_normal(4)
        values, basis = np.linalg.eigh(H)
        best = descent._best_group(v, slope, np.ascontiguousarray(basis), values, strength)
        left = slope + H @ (best - v)
        size = np.linalg.norm(np.abs(slope) + np.abs(H) @ (np.abs(best) + np.abs(v)))
        if (norm := np.linalg.norm(best)) > 0.0:
            assert np.linalg.norm(left + strength * best / norm) <= 1e-9 * size
        else:
            assert np.linalg.norm(left) <= strength * (1 + 1e-12)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_column_of_zeros_does_not_keep_a_coefficient_that_is_penalised(bounded):
    """It stayed where it was, where a bound was reached or not only the L1 penalty held it."""
    H, g = np.diag([2.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    upper = np.array([np.inf, 1.0 if bounded else np.inf, np.inf])
    terms = Kinks(np.array([0.1, 0.1, 0.0]), np.full(3, -np.inf), upper)
    found = minimise(H, g, np.array([0.0, 1.0, 3.0]), terms, 1e-8)
    np.testing.assert_allclose(found.w, [-0.45, 0.0, 3.0])
    assert found.residual <= 1e-16


def test_nothing_moves_where_rounding_has_made_the_matrix_indefinite():
    """Of float32 rows with means of 1e4: coordinate descent overflowed."""
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.standard_normal((100, 4)) + 1e4, np.ones(100)])
    H = X.T @ X
    noise = 1e-6 * rng.standard_normal((5, 5)) * np.sqrt(np.outer(H.diagonal(), H.diagonal()))
    H += noise + noise.T
    terms = Kinks(np.array([1.0, 1.0, 1.0, 1.0, 0.0]), np.full(5, -np.inf), np.full(5, np.inf))
    w = rng.standard_normal(5)
    found = minimise(H, X.T @ rng.standard_normal(100), w, terms, 1e-8)
    assert np.isfinite(found.w).all()
    np.testing.assert_array_equal(found.w[:4], w[:4])
