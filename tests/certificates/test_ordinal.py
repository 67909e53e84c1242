"""Ordinal losses with kinks and bounds: values, bounds against optima in long double, columns."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.ordinal import ordinal_objective
from daskglm.losses.ordinal import LOSS
from daskglm.objectives.restriction import Restriction
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers.owlqn import owlqn
from daskglm.solvers.proximal_newton import proximal_newton
from tests.covering import covering, each_choice
from tests.objectives.ordinal_objectives import engine_of, noise_of, rows
from tests.oracle.ordinal import LONG, Reference


def composite(X, y, C=1.0, weight=None, offset=None, **penalty):
    """The objective of rows in memory, and the penalty's parts in long double."""
    s = np.ones(len(y)) if weight is None else weight
    settings = FitConfig("ordinal", C=C, penalty=PenaltyConfig(**penalty))
    weights = tuple(float(s[y == k].sum()) for k in np.unique(y))
    engine = engine_of(X, y, weight, offset)
    made = ordinal_objective(engine, Problem(LOSS.ref), weights, LOSS, settings)
    return made, Reference(X, y, C, weight, offset, **penalty)


def factors(d):
    found = np.ones(d)
    found[0], found[-1] = 0.0, 2.5
    return found


PENALTIES = {
    "l1": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.4},
    "one without a penalty": {"l1_ratio": 1.0, "penalty_factor": factors(4)},
    "factors of L2": {"penalty_factor": factors(4)},
    "bounds": {"l1_ratio": 0.5, "lower_bounds": -0.05},
}
HARD = ["", "copies", "offsets", "scales"]


def check_points(made, reference, solver, most=15):
    """Compare the bounds at the points of a solve with the truth; return the least of them."""
    points = []
    certificate = made.certificate(1e-12)
    for _, iterate in zip(range(most), solver(made, made.origin), strict=False):
        points.append(certificate(iterate.point)[0])
    last = points[-1].w
    for _, iterate in zip(range(60), proximal_newton(made, last, tol=1e-15), strict=False):
        last = iterate.point.w
    _, least = reference.least(last)
    tightest = math.inf
    for point in points:
        value = reference.value(point.w.astype(LONG))
        bound = made.bounds.of(point)
        if not math.isnan(bound):
            assert float(value - least) <= bound + noise_of(made, point)
            tightest = min(tightest, bound / float(least))
    return tightest


@covering(1, seed=range(3), hard=HARD, kind=PENALTIES, solver=[proximal_newton, owlqn])
def test_bounds_on_random_problems(solver, kind, hard, seed):
    rng = np.random.default_rng([seed, HARD.index(hard)])
    K, C = int(rng.integers(2, 6)), 10.0 ** rng.uniform(-2, 1)
    X, y = rows(seed, n=120, K=K, hard=hard)
    tightest = check_points(*composite(X, y, C, **PENALTIES[kind]), solver)
    if not hard and solver is proximal_newton:
        assert tightest < 1e-10


@each_choice
@pytest.mark.parametrize("kind", ["l1", "elastic net"])
@pytest.mark.parametrize("rows_are", ["float32", "sparse", "rare", "weights"])
def test_bounds_of_other_rows(rows_are, kind):
    dtype = np.float32 if rows_are == "float32" else np.float64
    how = {"sparse": rows_are == "sparse", "rare": rows_are == "rare"}
    X, y = rows(3, n=150, K=4, dtype=dtype, **how)
    rng, more = np.random.default_rng(0), {}
    if rows_are == "weights":
        more = {"weight": rng.exponential(size=len(y)), "offset": rng.standard_normal(len(y))}
    made, reference = composite(X, y, 0.3, **more, **PENALTIES[kind])
    assert check_points(made, reference, proximal_newton) < 1e-8


def test_gradients_at_other_thresholds_are_within_what_their_cost_allows():
    """The inequality in the module's docstring, on which bounds rest."""
    X, y = rows(1, n=150, K=5)
    rng, d = np.random.default_rng(0), X.shape[1]
    m = np.array([0.0, 3.0, 100.0, -1e3])
    X = X + m
    _, reference = composite(X, y, 3.0, l1_ratio=1.0)
    curvature = 3.0 * LOSS.smoothness * ((X - m) ** 2).sum(axis=0)
    for _ in range(20):
        w = rng.standard_normal(d)
        v = np.append(w, w @ m + np.sort(3 * rng.standard_normal(4)))
        best, value = reference.least(v, slice(d, None))
        cost = reference.value(v.astype(LONG)) - value
        here, there = reference.derivatives(v.astype(LONG))[0], reference.derivatives(best)[0]
        moved = here[:d] + m * here[d:].sum() - there[:d]
        assert (np.abs(moved) <= np.sqrt(2.0 * cost * curvature) * (1 + 1e-9)).all()


def test_value_gradient_and_kinks():
    X, y = rows(2, n=100, K=4)
    made, reference = composite(X, y, 2.0, l1_ratio=0.3, penalty_factor=factors(4))
    rng = np.random.default_rng(0)
    v, u = np.append(rng.standard_normal(4), [-1.0, 0.5, 2.0]), rng.standard_normal(7)
    point = made.at(v, gram=True)
    assert point.value == pytest.approx(float(reference.value(v.astype(LONG))), rel=1e-12)
    ends = [made.at(v + t * u).gradient for t in (1e-5, -1e-5)]
    np.testing.assert_allclose(point.hessian @ u, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(point.hessian @ u, point.hessian_vector(u), rtol=1e-9)
    other = made.at(v + 0.1 * u, beside=point)
    for t, value in zip((0.0, 0.3), made.between(point, other, np.array([0.0, 0.3])), strict=True):
        at = (v + 0.1 * t * u).astype(LONG)
        assert value == pytest.approx(float(reference.value(at)), rel=1e-12)


def test_thresholds_that_do_not_increase_are_outside():
    X, y = rows(2, n=100, K=4)
    made, _ = composite(X, y, l1_ratio=1.0)
    point = made.at(np.append(np.zeros(4), [0.0, 1.0, 0.5]), gram=True)
    assert point.value == math.inf
    assert made.bounds.of(point) == math.inf


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_some_features_alone(l1_ratio):
    X, y = rows(4, n=120, K=3)
    made, _ = composite(X, y, 0.5, l1_ratio=l1_ratio)
    alone, _ = composite(np.ascontiguousarray(X[:, [1, 3]]), y, 0.5, l1_ratio=l1_ratio)
    part = Restriction.of(made, np.array([1, 3]))
    w = np.array([0.3, -0.2, -0.5, 0.7])
    here, there = part.objective.at(w, gram=True), alone.at(w, gram=True)
    assert here.value == pytest.approx(there.value, rel=1e-13)
    np.testing.assert_allclose(here.gradient, there.gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(here.hessian, there.hessian, rtol=1e-10, atol=1e-10)
    whole = part.at_whole(here, made.at(made.origin))
    assert whole.value == pytest.approx(here.value, rel=1e-13)
    np.testing.assert_array_equal(whole.w, [0.0, 0.3, 0.0, -0.2, -0.5, 0.7])
    assert made.rows.meter.stored == 2 * len(y)


def test_a_sample_of_the_rows_has_the_same_penalty():
    X, y = rows(5, n=400, K=3)
    made, _ = composite(X, y, 0.5, l1_ratio=1.0)
    part = made.sample(0.5, seed=1)
    point = part.at(np.append(np.full(4, 0.1), [-0.5, 0.7]), gram=True)
    assert math.isfinite(point.value)
    assert part.penalty.kinks.value(point.w) == pytest.approx(0.4)


@pytest.mark.parametrize("mean", [1e2, 1e4])
def test_a_column_of_a_large_mean_is_proved(mean):
    X, y = rows(6, n=500, K=4)
    X[:, 0] += mean
    made, reference = composite(X, y, 1.0, l1_ratio=1.0)
    assert check_points(made, reference, proximal_newton) < 1e-7


@pytest.mark.parametrize("surveyed", [False, True])
def test_slopes_at_the_best_thresholds_are_within_what_the_tangent_allows(surveyed):
    X, y = rows(4, n=150, K=4)
    X = X + 2.0  # columns with means: thresholds move with them
    made, _ = composite(X, y, 0.5, l1_ratio=1.0)
    if surveyed:
        made.bounds.survey()
    d, rng = made.n_features, np.random.default_rng(0)
    w = np.append(0.2 * rng.standard_normal(d), [-1.0, 0.3, 1.2])
    best = scipy.optimize.root(lambda t: made.at(np.append(w[:d], t)).gradient[d:], w[d:]).x
    there = made.at(np.append(w[:d], best))
    for size in (1e-3, 0.05, 0.3):
        here = made.at(np.append(w[:d], best + size * np.array([1.0, 0.6, 1.3])))
        here = replace(here, near=(here.value - there.value) * (1.0 + 1e-6))
        gradient, off, lower = made.bounds._settled(here, here.gradient[:d], np.zeros(d), 0.0)
        changed = np.abs(there.gradient[:d] - gradient)
        assert (changed <= off * (1.0 + 1e-6) + 1e-7).all()
        assert lower >= here.value - there.value
        if surveyed:  # they move along, and the means say where to
            assert changed.max() < np.abs(there.gradient[:d] - here.gradient[:d]).max()
