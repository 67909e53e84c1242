"""Bounds without a penalty: true on linear programs that scipy solves, whatever the slopes are."""

import math

import numpy as np
import pytest

from daskglm.core.requests import Problem, SDCAConfig
from daskglm.data.partitions import partitions
from daskglm.duals.corrected import Corrected
from daskglm.duals.correction import Correction
from daskglm.duals.dual import Dual
from daskglm.engines.local import Local
from daskglm.losses.table import find
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import newton_step
from tests.losses.programs import quantile_optimum


def dual_of(X, y, name, *, C=math.inf, intercept=True, weight=None):
    loss = find(name)
    engine = Local(partitions(X, y, weight, classify=False).load(), threads=1)
    objective = Objective(
        engine,
        Problem(loss.ref),
        loss,
        C=C,
        fit_intercept=intercept,
        intercept_radius=engine.facts.largest_target,
        sides=(engine.facts.weight, 0.0),
    )
    return Dual(
        objective, np.zeros(objective.size), SDCAConfig(), 0, corrected=Corrected(objective)
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("width", [1e-3, 0.3, 10.0])
def test_the_bound_holds_at_any_point(intercept, width):
    """Slopes far from feasible give a poor bound, never a wrong one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y, weight = X[:, 0] + rng.standard_t(2, 60) + 5, rng.exponential(size=60)
    coef, b, optimum = quantile_optimum(X, y, 0.3, weight=weight, intercept=intercept)
    best = np.append(coef, b) if intercept else coef
    gaps = []
    for far in (3.0, 0.1, 1e-3, 0.0):
        dual = dual_of(X, y, "quantile(0.3)", intercept=intercept, weight=weight)
        dual.start_point()
        w = best + far * rng.standard_normal(len(best))
        dual.adopt(dual.smoothed(width), w)
        point = dual.certified_point(w)
        assert dual.met.dual <= optimum * (1 + 1e-12)
        assert point.value - point.gap <= optimum * (1 + 1e-12)
        assert point.value >= optimum * (1 - 1e-12)
        gaps.append(point.gap)
    assert all(math.isfinite(gap) for gap in gaps)


def test_slopes_of_a_solved_step_bound_its_point():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 3))
    y = X[:, 0] + rng.standard_t(2, 200)
    dual = dual_of(X, y, "epsilon_insensitive(0.2)")
    dual.start_point()
    step = dual.smoothed(0.5)
    point = step.at(np.linalg.lstsq(np.hstack([X, np.ones((200, 1))]), y)[0], gram=True)
    for _ in range(30):
        point = step.at(point.w + newton_step(point.hessian, point.gradient), gram=True)
    assert dual.feasible.left_open(point) <= 1e-9 * point.value
    assert not dual.feasible.is_lost(point, 1e-8 * point.value)
    dual.adopt(step, point.w)
    found = dual.certified_point(point.w)
    assert 0.0 < found.gap <= 0.2 * found.value


def test_dependent_columns_prove_nothing():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 2))
    dual = dual_of(np.hstack([X, X]), rng.standard_normal(50), "quantile(0.5)")
    dual.start_point()
    w = 0.1 * np.ones(5)
    dual.adopt(dual.smoothed(1.0), w)
    assert dual.certified_point(w).gap >= dual.value
    assert math.isinf(dual.feasible.left_open(dual.objective.at(w)))


@pytest.mark.parametrize(("level", "least"), [(0.2, 0.2), (0.5, 0.5), (0.9, 0.1)])
def test_corrections_keep_to_the_narrower_side_of_the_box(level, least):
    rng = np.random.default_rng(0)
    dual = dual_of(rng.standard_normal((40, 2)), rng.standard_normal(40), f"quantile({level})")
    correction = Correction(dual.objective, np.arange(3))
    assert correction.least == pytest.approx(least, rel=1e-12)
