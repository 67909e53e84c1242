"""Softmax losses with kinks and bounds: derivatives, bounds, parts of the columns and rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

import daskglm
from daskglm.certificates.constants import contrasts
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.outputs import multinomial_objective
from daskglm.losses.table import find
from daskglm.objectives.restriction import Restriction
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers.proximal_newton import proximal_newton
from daskglm.solvers.proximal_steps import with_hessians
from tests.covering import each_choice
from tests.kernels.softmax_case import draw
from tests.oracle.softmax import Reference
from tests.worker.softmax_shard import engine_of

LOSS = find("multinomial")


def composite(X, codes, weight=None, *, C=1.0, intercept=True, **penalty):
    s = np.ones(len(codes)) if weight is None else weight
    settings = FitConfig(
        "multinomial", C=C, fit_intercept=intercept, penalty=PenaltyConfig(**penalty)
    )
    weights = tuple(np.bincount(codes, s).tolist())
    engine = engine_of(X, codes, weight)
    return multinomial_objective(engine, Problem(LOSS.ref), weights, LOSS, settings)


def random_problem(seed, n=80):
    """Rows of three to five classes, columns of unlike scales."""
    rng = np.random.default_rng(seed)
    d, K = int(rng.integers(2, 7)), int(rng.integers(3, 6))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d) + rng.standard_normal(d)
    z = X / X.std(axis=0) @ rng.standard_normal((d, K))
    codes = (0.7 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    codes[:K] = np.arange(K)
    return X, codes, rng.uniform(0.2, 3.0, n)


# ---- derivatives
@pytest.mark.parametrize("intercept", [True, False])
def test_value_gradient_and_hessian(intercept):
    X, codes, weight, W, V = draw()
    if not intercept:
        W, V = W[:, :-1], V[:, :-1]
    v = np.arange(7) / 2.0
    how = {"l1_ratio": 0.3, "penalty_factor": v}
    objective = composite(X, codes, weight, C=2.0, intercept=intercept, **how)
    known = Reference(X, codes, 2.0, weight, intercept, **how)
    assert objective.size == 4 * (7 + intercept)
    w = objective.margins.vector(W)
    np.testing.assert_array_equal(w[: 4 * 7], W[:, :7].ravel())

    point = objective.at(w, gram=True)
    assert point.value == pytest.approx(known.value(W), rel=1e-12)
    gradient = known.gradient(W)
    np.testing.assert_allclose(point.gradient, objective.margins.vector(gradient), atol=1e-9)

    # along changes that move all coefficients of what nothing holds alike it is made definite
    u = objective.margins.vector(V - V.mean(axis=0) * known.free)
    ends = [objective.at(w + t * u).gradient for t in (1e-5, -1e-5)]
    np.testing.assert_allclose(point.hessian @ u, (ends[0] - ends[1]) / 2e-5, rtol=2e-5, atol=2e-5)
    assert np.linalg.eigvalsh(point.hessian)[0] > 1e-3
    np.testing.assert_allclose(point.hessian @ u, point.hessian_vector(u), rtol=1e-9, atol=1e-8)

    steps = np.array([0.0, 0.4, 1.0])
    other = objective.at(objective.margins.vector(V), beside=point)
    for t, value in zip(steps, objective.between(point, other, steps), strict=True):
        assert value == pytest.approx(known.value(W + t * (V - W)), rel=1e-12)


def test_smooth_penalties_are_solved_along_contrasts():
    X, codes, weight = random_problem(0)
    objective = composite(X, codes, weight, standardize=True)
    K, d = len(objective.margins.labels), X.shape[1]
    np.testing.assert_array_equal(objective.margins.basis, contrasts(K))
    mean = np.average(X, axis=0, weights=weight)
    variance = np.average((X - mean) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(
        objective.penalty.quadratic.diagonal(objective.size)[: (K - 1) * d],
        np.tile(variance, K - 1),
    )
    assert objective.passes == 1.0
    assert objective.penalty.is_smooth


def test_a_matrix_is_the_penalty_of_each_class():
    X, codes, weight = random_problem(1)
    d = X.shape[1]
    A = np.random.default_rng(0).standard_normal((d, d))
    objective = composite(X, codes, weight, P2=A @ A.T, l1_ratio=0.4)
    W = np.random.default_rng(1).standard_normal((objective.outputs, d))
    w = objective.margins.vector(np.hstack([W, np.zeros((objective.outputs, 1))]))
    expected = 0.3 * np.trace(W @ A @ A.T @ W.T)
    assert objective.penalty.quadratic.value(w) == pytest.approx(expected, rel=1e-12)
    assert objective.penalty.kinks.value(w) == pytest.approx(0.4 * np.abs(W).sum(), rel=1e-12)


# ---- rounding
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_a_hessian_bounds_errors_of_the_gradient(C):
    X, codes = load_iris(return_X_y=True)
    objective = composite(X, codes, C=C, l1_ratio=1.0)
    w = objective.origin
    for _, iterate in zip(range(30), proximal_newton(objective, w), strict=False):
        w = iterate.point.w
    point = objective.at(w, gram=True)
    off, constant, _ = objective.bounds.errors(point, point.error, point.value)
    bare = replace(point, hessian=None)
    looser, _, _ = objective.bounds.errors(bare, point.error, point.value)
    W = objective.margins.matrix(w).astype(np.longdouble)
    z = X.astype(np.longdouble) @ W[:, :4].T + W[:, 4]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p -= codes[:, None] == np.arange(3)
    errors = np.abs(point.gradient - np.r_[(C * p.T @ X).ravel(), C * p.sum(axis=0)])
    assert (errors[:12] <= off).all()
    assert np.linalg.norm(errors[12:]) <= constant
    assert (off <= looser).all()
    if C > 1.0:  # most rows are told apart, and have next to no curvature
        assert off.max() < 0.2 * looser.max()


def test_large_C_with_an_l1_penalty_has_a_proved_gap():
    X, y = load_iris(return_X_y=True)
    model = daskglm.LogisticRegression(C=1e4, l1_ratio=1.0, tol=1e-6).fit(X, y)
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-6


# ---- bounds
def penalties(d):
    """Penalties by name, and what the reference calls them."""
    labels = np.arange(d) // 2
    factors = np.ones(d)
    factors[0], factors[-1] = 0.0, 2.5
    return {
        "l1": {"l1_ratio": 1.0},
        "elastic net": {"l1_ratio": 0.6},
        "a group for each feature": {"l1_ratio": 1.0, "groups": np.arange(d)},
        "groups": {"l1_ratio": 0.8, "groups": labels},
        "factors": {"l1_ratio": 1.0, "penalty_factor": factors},
        "some without a penalty": {"l1_ratio": 0.5, "penalty_factor": factors},
        "bounds": {"l1_ratio": 1.0, "lower_bounds": -0.1, "upper_bounds": 0.3},
        "bounds and L2": {"lower_bounds": 0.0},
    }


@each_choice
@pytest.mark.parametrize("kind", list(penalties(2)))
@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_at_all_points(kind, seed):
    X, codes, weight = random_problem(100 * seed + 1)
    intercept = bool(seed % 3)
    C = float(np.random.default_rng(seed).choice([0.02, 0.3, 2.0]))
    given = penalties(X.shape[1])[kind]
    objective = composite(X, codes, weight, C=C, intercept=intercept, **given)
    certificate = objective.certificate(1e-9)
    points = [certificate(each.point) for each in with_hessians(objective, objective.origin, 1e-9)]
    best, gap = min(points, key=lambda each: each[0].value)
    # rounding counts for more where the Hessian tells how near coefficients are
    assert min(each[1] for each in points) <= (1e-7 if kind == "factors" else 1e-9)
    rng = np.random.default_rng(seed)
    for scale in (1e-6, 1e-3, 0.1, 1.0):
        moved = best.w + scale * rng.standard_normal(objective.size)
        for gram in (True, False):
            point = objective.at(moved, gram=gram)
            points += [(point, point.relative_gap)]
            points += [certificate(point)]
    for point, gap in points:
        if math.isfinite(gap):
            excess = (point.value - best.value) / best.value
            assert excess <= gap * (1 + 1e-9) + 1e-15


def test_without_l1_the_hessian_proves_the_last_digits():
    X, codes, weight = random_problem(3)
    objective = composite(X, codes, weight, l1_ratio=0.5)
    last = [each.point for each in with_hessians(objective, objective.origin, 1e-13)][-1]
    assert last.factor.proves
    assert last.excess < 1e-6 * objective.bounds.nominal(last) or last.excess < 1e-12 * last.value


def test_features_without_a_penalty_are_proved_by_their_hessian():
    X, codes, weight = random_problem(4)
    factors = np.ones(X.shape[1])
    factors[0] = 0.0
    objective = composite(X, codes, weight, l1_ratio=1.0, penalty_factor=factors)
    K, d = objective.outputs, X.shape[1]
    held = np.setdiff1d(np.arange(objective.size), objective.margins.free_entries)
    assert len(objective.margins.free_entries) == 2 * K
    np.testing.assert_array_equal(held % d != 0, True)
    last = [each.point for each in with_hessians(objective, objective.origin, 1e-10)][-1]
    assert last.relative_gap < 1e-6
    # at the origin they are far from their best values, and so without a Hessian
    assert not objective.at(objective.origin, gram=True).relative_gap < 1.0
    assert not replace(last, hessian=None).relative_gap < 1.0
    # rows that sum to zero, and equal margins
    shifted = last.w.copy()
    shifted[objective.margins.free_entries] += 7.0
    np.testing.assert_allclose(
        objective.margins.matrix(shifted), objective.margins.matrix(last.w), atol=1e-13
    )
    assert objective.at(shifted).value == pytest.approx(last.value, rel=1e-12)


def test_a_survey_proves_what_rounding_hides():
    X, codes, weight = random_problem(5)
    X = X * 10.0 ** np.linspace(-4, 4, X.shape[1])
    objective = composite(X, codes, weight, l1_ratio=1.0, standardize=True)
    point = [each.point for each in with_hessians(objective, objective.origin, 1e-9)][-1]
    assert point.relative_gap > 1e-9
    found, gap = objective.certificate(1e-9)(point)
    assert gap <= 1e-9
    assert len(objective.rounding.squares) == objective.n_features


def test_without_intercepts_nothing_is_asked_of_them():
    X, codes, weight = random_problem(2)
    objective = composite(X, codes, weight, intercept=False, l1_ratio=0.5)
    point = objective.at(objective.origin)
    assert objective.bounds.with_near_constants(point) is point


# ---- parts
def test_some_features_of_all_classes():
    X, codes, weight = random_problem(6)
    K, d = codes.max() + 1, X.shape[1]
    objective = composite(X, codes, weight, l1_ratio=1.0, groups=np.arange(d))
    entries = (np.array([0, d - 1]) + d * np.arange(K)[:, None]).ravel()
    part = Restriction.of(objective, entries)
    assert part.objective.size == 3 * K
    w = np.random.default_rng(0).standard_normal(part.objective.size)
    whole = objective.at(part.put(w), gram=True)
    here = part.objective.at(w, gram=True)
    assert here.value == pytest.approx(whole.value, rel=1e-13)
    np.testing.assert_allclose(here.gradient, part.take(whole.gradient), rtol=1e-9, atol=1e-9)
    chosen = np.append(entries, np.arange(K * d, objective.size))
    np.testing.assert_allclose(
        here.hessian, whole.hessian[np.ix_(chosen, chosen)], rtol=1e-9, atol=1e-9
    )
    again = part.at_whole(here, whole)
    assert again.value == pytest.approx(whole.value, rel=1e-13)
    values = np.zeros(K * d)
    values[d + 1] = 3.0
    np.testing.assert_array_equal(objective.margins.tied(values).reshape(K, d)[:, 1], 3.0)
    assert objective.margins.tied(values).sum() == 3.0 * K


@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_working_sets_find_the_same_optimum(factor, monkeypatch):
    from daskglm.solvers import costs
    from daskglm.solvers import working_sets as module

    X, codes, weight = random_problem(7)
    X = np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 30))])
    factors = np.ones(X.shape[1])
    factors[1] = factor
    how = {"l1_ratio": 0.9, "penalty_factor": factors, "C": 0.5}
    objective = composite(X, codes, weight, **how)
    expected = [each.point for each in proximal_newton(objective, objective.origin)][-1]
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 20)
    monkeypatch.setattr(module, "FIRST_SET", 10)
    objective = composite(X, codes, weight, **how)
    certificate = objective.certificate(1e-8)
    gaps = []
    for each in proximal_newton(objective, objective.origin, tol=1e-8):
        point, gap = certificate(each.point)
        gaps.append(gap)
        if gap <= 1e-8:
            break
    assert gaps[-1] <= 1e-8
    assert point.value == pytest.approx(expected.value, rel=1e-8)


def test_samples_estimate_the_whole():
    X, codes, weight, W, _ = draw(4000)
    objective = composite(X, codes, weight, l1_ratio=1.0)
    part, w = objective.sample(0.25, 3), objective.margins.vector(W)
    assert part.at(w).value == pytest.approx(objective.at(w).value, rel=0.1)
    assert part.at(w, gram=True).hessian.shape == (32, 32)
    assert objective.passes == pytest.approx(1.5)


def test_slopes_at_the_best_intercepts_are_within_what_the_tangent_allows():
    X, codes, weight = random_problem(3)
    objective = composite(X, codes, weight, C=0.5, l1_ratio=1.0)
    K, d = len(np.unique(codes)), X.shape[1]
    features = K * d
    w = objective.origin.copy()
    w[:features] = 0.2 * np.random.default_rng(0).standard_normal(features)
    b = w[features:]
    for _ in range(50):  # Newton's steps by the intercepts, whose common change is nothing
        point = objective.at(np.append(w[:features], b), gram=True)
        block = point.hessian[features:, features:] + np.ones((K, K))
        b = b - np.linalg.solve(block, point.gradient[features:])
    there = objective.at(np.append(w[:features], b))
    assert np.abs(there.gradient[features:]).max() < 1e-9
    for size in (1e-3, 0.05, 0.3):
        moved = size * np.linspace(-1.0, 1.0, K)
        here = objective.at(np.append(w[:features], b + moved), gram=True)
        decrement = math.sqrt(moved @ here.hessian[features:, features:] @ moved)
        here = replace(here, near=decrement)
        gradient, off, lower = objective.bounds._settled(
            here, here.gradient[:features], np.zeros(features), 0.0
        )
        changed = np.abs(there.gradient[:features] - gradient)
        assert (changed <= off * (1.0 + 1e-9)).all()
        assert changed.max() > 0.0
        assert lower >= here.value - there.value
