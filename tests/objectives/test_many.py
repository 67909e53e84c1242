"""Points of several folds from one pass are those that each objective evaluates by itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from daskglm.core.requests import Folds, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import find
from daskglm.objectives.batched import BatchObjective
from daskglm.objectives.many import Place, Trial, adapted, evaluate_together
from daskglm.objectives.primal import Objective
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.ridge import Ridge
from tests.conftest import make_problem
from tests.covering import each_choice

N, D = 400, 6
ROLES = ((2, 0), (0, 1), (0, 0), (1, 0))


class Case:
    """Rows of which two folds train on three of four groups, the first on two only."""

    def __init__(self, name, *, sparse=False, dtype=np.float64, fit_intercept=True, seed=0):
        rng = np.random.default_rng(seed)
        self.loss = find(name)
        self.X, self.y = make_problem(N, D, loss=name, sparse=sparse, dtype=dtype, seed=seed)
        self.weight, self.offset = rng.random(N) + 0.1, rng.normal(0.0, 0.5, N)
        folds = Folds("two", ROLES, groups=rng.integers(0, 4, N))
        self.folds, self.fit_intercept = folds, fit_intercept
        data = partitions(
            self.X, self.y, self.weight, classify=self.loss.classifies, offset=self.offset
        )
        self.engine = Local(data.load(), threads=2)
        self.positive = 1.0 if self.loss.classifies else None
        labels = (-1.0, 1.0) if self.loss.classifies else ()
        rows = BatchObjective(
            self.engine,
            Problem(self.loss.ref, folds=folds),
            self.loss,
            (1.0,) if self.loss.classifies else (),
            labels,
            fit_intercept=fit_intercept,
        )
        self.rows = rows

    def objective(self, fold, strength=2.0):
        """The objective of a fold, for which strengths differ; -1: of all rows."""
        size = D + self.fit_intercept
        strengths = np.zeros(size)
        strengths[:D] = strength * (fold + 2)
        lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
        lower[0] = -0.2
        problem = Problem(self.loss.ref, self.positive)
        if fold >= 0:
            problem = Problem(self.loss.ref, self.positive, folds=self.folds, fold=fold)
        sides = self.rows.sides(0, fold)
        return Objective(
            self.engine,
            problem,
            self.loss,
            C=1.5 + fold,
            fit_intercept=self.fit_intercept,
            intercept_radius=math.inf,
            sides=sides,
            penalty=Penalty(Ridge(D, 0.3), Kinks(strengths, lower, upper)),
            any_penalty=True,
        )

    def shared_objective(self, fold, strength=2.0):
        return adapted(self.objective(fold, strength))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("sparse", "dtype"), [(False, np.float64), (False, np.float32), (True, np.float64)]
)
@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_points_are_those_of_each_objective_by_itself(name, sparse, dtype, fit_intercept):
    case = Case(name, sparse=sparse, dtype=dtype, fit_intercept=fit_intercept)
    rng = np.random.default_rng(1)
    folds = [0, 1, -1, 0]
    W = 0.3 * rng.standard_normal((4, D + fit_intercept))
    trials = [
        Trial(case.shared_objective(fold), Place(fold), w, exact=True)
        for fold, w in zip(folds, W, strict=True)
    ]
    before = case.rows.passes
    points = evaluate_together(case.rows, trials)
    assert case.rows.passes - before == 1.0
    for fold, w, point in zip(folds, W, points, strict=True):
        alone = case.objective(fold).at(w, gram=True, exact=True)
        assert (point.w >= alone.objective.penalty.kinks.lower).all()
        np.testing.assert_array_equal(point.w, alone.w)
        assert point.value == pytest.approx(alone.value, rel=1e-12)
        scale = np.abs(alone.gradient).max()
        np.testing.assert_allclose(point.gradient, alone.gradient, atol=1e-11 * scale)
        scale = np.abs(alone.hessian).max()
        np.testing.assert_allclose(point.hessian, alone.hessian, atol=1e-11 * scale)
        assert point.exact


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_the_best_intercept_is_as_near_as_is_said(name):
    case, rng = Case(name), np.random.default_rng(2)
    found = []
    for size in (0.0, 1e-3, 0.05, 0.5):
        for fold in (0, -1):
            objective = case.shared_objective(fold)
            w = 0.2 * rng.standard_normal(D + 1)
            w[-1] = 0.3

            def slope(b, objective=objective, fold=fold, w=w):
                at = Trial(objective, Place(fold), np.append(w[:-1], b))
                return float(evaluate_together(case.rows, [at])[0].gradient[-1])

            best = scipy.optimize.brentq(slope, -20.0, 20.0, xtol=1e-13)
            at = Trial(objective, Place(fold), np.append(w[:-1], best + size))
            near = evaluate_together(case.rows, [at])[0].near
            assert near >= size * (1.0 - 1e-9)
            found.append(near / max(size, 1e-12))
            if size == 0.0:
                assert near < 1e-11
    assert np.median([each for each in found if math.isfinite(each)]) < 2.0


@each_choice
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma", "negative_binomial"])
def test_gaps_bound_the_truth(name, seed):
    case, rng = Case(name, seed=seed), np.random.default_rng(seed)
    strength = 10.0 ** rng.uniform(-2.0, 1.5)
    for fold in (0, 1):
        objective = case.shared_objective(fold, strength)
        terms, ridge = objective.penalty.kinks, objective.penalty.quadratic
        free = np.r_[rng.permutation(D)[:3], D]  # the optimum over some of them is no lower

        def value(v, objective=objective, fold=fold, free=free):
            w = np.zeros(D + 1)
            w[free] = v
            return evaluate_together(case.rows, [Trial(objective, Place(fold), w)])[0].value

        least = scipy.optimize.minimize(value, np.zeros(len(free)), method="Powell").fun
        for distance in (1.0, 0.1, 0.01):
            w = terms.clip(distance * rng.standard_normal(D + 1))
            point = evaluate_together(case.rows, [Trial(objective, Place(fold), w)])[0]
            if math.isfinite(point.relative_gap):
                lowest = point.value / (1.0 + point.relative_gap)
                assert lowest <= least * (1.0 + 1e-9)
        assert ridge.largest == 0.3


def test_the_rounding_is_that_of_these_sums():
    case = Case("logistic", sparse=True)
    assert case.shared_objective(0).rounding.roundoff == 2.0**-24
    assert not case.shared_objective(0).rounding.is_exact
    assert Case("logistic").shared_objective(0).rounding.is_exact


# ---- what an intercept that is not the best one does to slopes
@pytest.mark.parametrize("name", ["logistic", "squared", "huber"])
@pytest.mark.parametrize("surveyed", [False, True])
def test_slopes_at_the_best_intercept_are_within_what_the_tangent_allows(name, surveyed):
    case, rng = Case(name), np.random.default_rng(3)
    objective = case.objective(-1)
    if surveyed:
        objective.bounds.survey()
    for size in (1e-3, 0.1, 1.0):
        w = 0.2 * rng.standard_normal(D + 1)

        def slope(b, w=w):
            return float(objective.at(np.append(w[:-1], b)).gradient[-1])

        best = scipy.optimize.brentq(slope, -20.0, 20.0, xtol=1e-13)
        point = replace(objective.at(np.append(w[:-1], best + size)), near=size)
        there = objective.at(np.append(w[:-1], best))
        gradient, off, lower = objective.bounds._settled(
            point, point.gradient[:D], np.zeros(D), 0.0
        )
        changed = np.abs(there.gradient[:D] - gradient)
        assert (changed <= off * (1.0 + 1e-9)).all()
        assert changed.max() > 0.0
        assert point.value - there.value <= lower
