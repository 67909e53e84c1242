"""Newton's method where curvatures jump: the weight of the losses grows from step to step."""

import numpy as np
import pytest

import daskglm
from daskglm.losses.table import LOSSES, find
from daskglm.objectives.reweighting import reweighted, weighted
from daskglm.solvers import costs
from daskglm.solvers.newton import newton
from tests.solvers.problems import make_objective, problem


def separable(n=800, d=100, seed=0):
    """Few rows for each feature, nearly separable, with a common part and so an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((n, 1))
    return X, np.sign(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n))


@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_few_steps_where_rows_turn_on_and_off(solver):
    """Of steps at the full weight 100 did not do."""
    X, y = separable()
    options = {"loss": "squared_hinge", "C": 150.0, "solver": solver, "tol": 1e-6}
    report = daskglm.fit(X, y, **options).report_
    assert report.converged
    assert report.passes <= 70
    other = daskglm.fit(X, y, **{**options, "solver": "sdca", "tol": 1e-8}).report_
    assert report.objective <= other.objective * (1.0 + 1e-6)


def test_newton_after_a_long_tron_does_not_go_on_from_where_that_is(monkeypatch):
    monkeypatch.setattr(costs, "CERTAIN", 0.0)  # else Newton's method is taken from the start
    X, y = separable(2_000, 400)
    report = daskglm.fit(X, y, loss="squared_hinge", C=1.0, tol=1e-6).report_
    assert report.converged
    assert report.solver == "tron+newton"
    assert [record["solver"] for record in report.history].count("newton") <= 40


def test_which_losses_jump():
    jumping = {name for name, loss in LOSSES.items() if loss.jumps}
    assert {"squared_hinge", "huber", "squared_epsilon_insensitive"} <= jumping
    assert not {"logistic", "squared", "hinge", "poisson", "quantile"} & jumping
    assert not find("tweedie(1.5)").jumps


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_point_with_another_weight_is_what_is_evaluated_there(loss, intercept):
    objective = make_objective(loss, C=3.0, intercept=intercept)
    w = np.random.default_rng(2).standard_normal(objective.size)
    weak = weighted(objective, 0.01)
    wanted = weak.at(w, gram=True)
    found = reweighted(objective.at(w, gram=True), weak)
    assert found.objective is weak
    assert found.value == pytest.approx(wanted.value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, wanted.gradient, rtol=1e-10)
    np.testing.assert_allclose(found.hessian, wanted.hessian, rtol=1e-6, atol=1e-9)


def test_the_weight_is_that_of_the_objective_at_the_end():
    X, y = separable(200, 30)
    objective = problem(X, y, "squared_hinge", C=20.0)
    iterates = newton(objective, objective.origin)
    points = [next(iterates).point for _ in range(12)]
    assert all(point.objective is objective for point in points)
