"""Multinomial fits between settings and solvers."""

import numpy as np
import pytest

from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.outputs import (
    coefficients,
    multinomial_objective,
    settled_outputs,
    solvable,
    start_of_outputs,
    with_last_bound,
)
from daskglm.fitting.runner import train
from daskglm.losses.table import find
from daskglm.solvers.iterate import Iterate
from tests.worker.softmax_shard import engine_of

LOSS = find("multinomial")
SETTINGS = FitConfig("multinomial")
SMALL = np.random.default_rng(3).normal(size=(60, 3)), np.arange(60) % 3


def made(weights, settings=SETTINGS):
    """An objective of four classes with these total weights."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(200, 3)), np.arange(200) % 4
    labels = np.array(["a", "b", "c", "d"])
    engine = engine_of(X, labels[codes], np.asarray(weights, float)[codes] / 50)
    problem = Problem(LOSS.ref)
    return multinomial_objective(engine, problem, tuple(weights), LOSS, settings), labels


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "proximal_newton", "owlqn"])
def test_solvers_of_kinks_get_the_terms_of_a_plain_penalty(solver):
    objective, _ = made([10.0, 5.0, 20.0, 30.0], FitConfig("multinomial", solver=solver))
    assert objective.bounds.any_penalty == (solver in ("proximal_newton", "owlqn"))
    one = train(*SMALL, FitConfig("multinomial", tol=1e-10))
    other = train(*SMALL, FitConfig("multinomial", solver=solver, tol=1e-10))
    np.testing.assert_allclose(other.coef, one.coef, atol=1e-4)


def test_classes_without_weight_are_left_out_where_there_are_intercepts():
    objective, labels = made([10.0, 0.0, 20.0, 30.0])
    assert objective.margins.labels == ("a", "c", "d")
    coef, intercept = coefficients(objective, np.ones(objective.size), labels)
    np.testing.assert_array_equal(coef[1], 0.0)
    assert intercept.sum() == pytest.approx(0.0, abs=1e-12)
    assert intercept[1] < intercept[[0, 2, 3]].max() - LOSS.rest_margin + 1e-9
    without = FitConfig("multinomial", fit_intercept=False)
    assert made([10.0, 0.0, 20.0, 30.0], without)[0].margins.labels == ("a", "b", "c", "d")
    for alone in (0, 2):
        weights = np.zeros(4)
        weights[alone] = 5.0
        one, _ = made(weights.tolist())
        assert len(one.margins.labels) == 2
        assert one.only_side == (1.0 if one.margins.shares[0] else -1.0)


def test_starts_are_of_all_labels():
    objective, labels = made([10.0, 0.0, 20.0, 30.0])
    rng = np.random.default_rng(1)
    coef, intercept = rng.normal(size=(4, 3)), rng.normal(size=4)
    w = start_of_outputs((coef, intercept), objective, labels)
    again, _ = coefficients(objective, w, labels)
    kept = [0, 2, 3]
    np.testing.assert_allclose(again[kept], coef[kept] - coef[kept].mean(axis=0))
    assert not start_of_outputs(None, objective, labels).any()
    with pytest.raises(ValueError, match="this fit has 4 classes and 3 features"):
        start_of_outputs((coef[:3], intercept), objective, labels)


def test_solvers_of_the_dual_are_refused_by_name_and_replaced_by_others():
    assert solvable(SETTINGS) is SETTINGS
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        solvable(FitConfig("multinomial", solver="sdca"))
    of_others = FitConfig("multinomial", solver="sdca", why="solver='sag' of scikit-learn: sdca")
    assert solvable(of_others).solver == "lbfgs"


def test_separable_classes_are_told_apart_from_others():
    settings = FitConfig("multinomial", C=np.inf, fit_intercept=False)
    from types import SimpleNamespace

    X = np.eye(3)[np.arange(60) % 3]
    engine = engine_of(X, np.arange(60) % 3)
    objective = multinomial_objective(engine, Problem(LOSS.ref), (20.0,) * 3, LOSS, settings)
    from daskglm.fitting.driver import Solution

    for W, reason in ((np.eye(3), Reason.SEPARABLE), (np.zeros((3, 3)), Reason.NO_PROGRESS)):
        point = objective.at(objective.margins.vector(W))
        solution = Solution(point, Reason.NO_PROGRESS, np.nan, 0.0, np.nan, [], SimpleNamespace())
        assert settled_outputs(objective, solution).reason is reason


def test_a_solve_ends_with_its_best_bound():
    objective, _ = made([10.0, 20.0, 20.0, 30.0])
    point = objective.margins.best_constants(objective, objective.at(np.zeros(objective.size)))

    def solver():
        yield Iterate(point)
        return Reason.NO_PROGRESS

    first, last = with_last_bound(objective, solver())
    assert first.point is point
    assert last.point.relative_gap <= point.relative_gap
    assert last.point.near < 1e-6
