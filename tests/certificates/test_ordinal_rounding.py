"""Proved gaps of ordered classes are never less than the truth, against optima in long double."""

import math

import numpy as np
import pytest

from daskglm.certificates.constants import hessian_of_gaps, thresholds_of
from daskglm.losses.ordinal import barrier_curvature
from daskglm.solvers import get_solver
from tests.covering import each_choice
from tests.objectives.ordinal_objectives import noise_of, objective, rows


def test_constants_are_logits_of_cumulative_shares():
    np.testing.assert_allclose(thresholds_of(np.array([1.0, 2.0, 1.0])), [-np.log(3), np.log(3)])
    # and keep their digits where one class has nearly all weight
    assert thresholds_of(np.array([1e-20, 1.0]))[0] == pytest.approx(np.log(1e-20))
    assert thresholds_of(np.array([1.0, 1e-20]))[0] == pytest.approx(-np.log(1e-20))


def test_the_hessian_of_barriers():
    H = hessian_of_gaps(np.array([3.0, 5.0]) * barrier_curvature(np.array([1.0, 2.0])))
    a, b = 3 / (4 * np.sinh(0.5) ** 2), 5 / (4 * np.sinh(1.0) ** 2)
    np.testing.assert_allclose(H, [[a, -a, 0], [-a, a + b, -b], [0, -b, b]])


def check_points(made, reference, solver, most=12, **options):
    """Compare all bounds at the points of a solve with the truth."""
    points = []
    iterates = get_solver(solver).run(made, made.origin, **options)
    certificate = made.certificate(1e-12)
    for _, iterate in zip(range(most), iterates, strict=False):
        points.append(certificate(iterate.point)[0])
    best, least = reference.least(points[-1].w)
    tightest = math.inf
    for point in points:
        v = point.w.astype(np.longdouble)
        value = reference.value(v)
        bound, noise = made.bounds.of(point), noise_of(made, point)
        assert float(value - least) <= bound + noise
        tightest = min(tightest, bound / float(least))
        if made.is_penalised:
            away = np.linalg.norm((v - best)[: reference.d])
            steepest = made.rounding.steepest(point.gradient, point.error)
            assert float(away) <= steepest
        settled = reference.least(v, slice(reference.d, None))[1]
        assert float(value - settled) <= point.near + noise
    return tightest


HARD = ["", "copies", "offsets", "scales"]


@each_choice
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
def test_bounds_on_random_problems(solver, hard, seed):
    rng = np.random.default_rng([seed, HARD.index(hard)])
    K, C = int(rng.integers(2, 6)), 10.0 ** rng.uniform(-3, 3)
    X, y = rows(seed, n=120, K=K, hard=hard)
    tightest = check_points(*objective(X, y, C), solver)
    if not hard and solver == "newton":
        assert tightest < 1e-11


@each_choice
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["float32", "sparse", "rare", "weights"])
def test_bounds_of_other_rows(kind, seed):
    dtype = np.float32 if kind == "float32" else np.float64
    X, y = rows(seed, n=150, K=4, dtype=dtype, sparse=kind == "sparse", rare=kind == "rare")
    rng, more = np.random.default_rng(seed), {}
    if kind == "weights":
        more = {"weight": rng.exponential(size=len(y)), "offset": 3 * rng.standard_normal(len(y))}
    made, reference = objective(X, y, 10.0 ** rng.uniform(-2, 3), **more)
    assert check_points(made, reference, "newton") < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_the_hessian_alone_bounds_points_without_a_penalty(seed):
    X, y = rows(seed, n=150, K=2 + seed)
    made, reference = objective(X, y, math.inf)
    assert not made.is_penalised
    points = [
        it.point
        for _, it in zip(range(9), get_solver("newton").run(made, made.origin), strict=False)
    ]
    least = reference.least(points[-1].w)[1]
    bounds = [made.bounds.of(point) for point in points]
    for point, bound in zip(points, bounds, strict=True):
        if not math.isnan(bound):
            truth = reference.value(point.w.astype(np.longdouble)) - least
            assert float(truth) <= bound + noise_of(made, point)
    assert bounds[-1] < 1e-11 * points[-1].value
    assert math.isnan(made.bounds.of(made.at(points[-1].w)))


def test_bounds_near_the_optimum_are_as_small_as_the_decrement():
    """A bound that is far above the truth proves nothing in time."""
    X, y = rows(1, n=400, K=5)
    made, reference = objective(X, y, 10.0)
    best, least = reference.least(made.origin)
    step = 1e-4 * np.random.default_rng(0).standard_normal(len(best))
    point = made.at(best.astype(float) + step, gram=True)
    truth = float(reference.value(point.w.astype(np.longdouble)) - least)
    assert truth <= point.excess <= 1.01 * truth


@pytest.mark.parametrize("hard", HARD)
def test_errors_of_gradients_are_within_their_bounds(hard):
    X, y = rows(2, n=300, K=5, hard=hard)
    made, reference = objective(X, y, 10.0)
    rng, d = np.random.default_rng(0), X.shape[1]
    for gap in (1.0, 1e-3, 1e-9):
        w = rng.standard_normal(d) / np.abs(X).max(axis=0)
        v = np.append(w, rng.standard_normal() + gap * np.cumsum(1 + rng.random(4)))
        point = made.at(v)
        off = np.abs(point.gradient - reference.derivatives(v.astype(np.longdouble))[0])
        error, R = point.error, made.rounding.radius
        assert 0.0 < float(off[d:].sum()) <= error.slopes + error.adding
        assert float(np.linalg.norm(off[:d])) <= R * (error.slopes + error.adding) + error.penalty


def test_thresholds_off_their_best_count_where_rows_are_short():
    X, y = rows(3, n=200, K=4)
    made, reference = objective(1e-4 * X, y, 1.0)
    least = reference.least(made.origin)[1]
    for shift in (1e-3, 0.1, 1.0):
        point = made.at(made.origin + np.append(np.zeros(4), [-shift, shift, 2 * shift]))
        truth = float(reference.value(point.w.astype(np.longdouble)) - least)
        assert truth <= made.bounds.of(point)
        # by their distance alone, too, where the Hessian by thresholds proves nothing
        found = made.rounding.convex(point.w, point.gradient, point.value, point.error, 0.0)
        assert truth <= found < 20 * truth + 0.1
