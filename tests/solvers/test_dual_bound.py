"""Dual variables bound the error of primal solvers where rounding hides it from the gradient."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.requests import SDCAConfig
from daskglm.duals.dual import Dual
from daskglm.solvers import get_solver
from daskglm.solvers.dual_bound import LEVEL_POINTS, bounded, with_dual_bound
from tests.solvers.problems import make_objective


def hard_to_certify():
    """Sparse rows with column scales over several decades and a weak penalty."""
    rng = np.random.default_rng(4)
    X = sp.random(400, 20_000, 0.002, "csr", random_state=rng)
    X.data = 10.0 ** rng.standard_normal(20_000)[X.indices]
    return X, np.where(X @ rng.standard_normal(20_000) + rng.logistic(size=400) > 0.0, 1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["tron", "lbfgs"])
def test_a_fit_at_its_optimum_is_proved_though_the_gradient_falls_no_further(solver, monkeypatch):
    X, y = hard_to_certify()
    fit = {"C": 1e4, "tol": 1e-7, "solver": solver}
    found = daskglm.fit(X, y, **fit)
    assert found.report_.converged
    assert found.report_.solver == solver
    assert found.report_.relative_gap <= 1e-7

    monkeypatch.setattr("daskglm.fitting.runner.with_dual_bound", lambda _, iterates: iterates)
    with pytest.warns(ConvergenceWarning):
        alone = daskglm.fit(X, y, **fit)
    assert found.report_.objective <= alone.report_.objective * (1.0 + 1e-6)


def level(iterate, count):
    for _ in range(count):
        yield iterate
    return "end"


def test_level_points_are_followed_by_one_bound():
    objective = make_objective(intercept=False)
    iterates = get_solver("newton").run(objective, np.zeros(objective.size), tol=1e-9)
    *_, iterate = itertools.islice(iterates, 12)
    made = []

    def dual():
        made.append(Dual(objective, np.zeros(objective.size), SDCAConfig(), 0))
        return made[-1]

    seen = list(bounded(dual, iterate, level(iterate, LEVEL_POINTS + 3)))
    points = [each.point for each in seen]
    assert len(made) == 1
    assert len(points) == LEVEL_POINTS + 5
    [proof] = [each for each in points if each.gap is not None]
    assert points.index(proof) == LEVEL_POINTS + 1
    assert 0.0 <= proof.gap <= 1e-8 * proof.value


@pytest.mark.parametrize("C", [1.0, math.inf])
def test_points_that_go_on_falling_cost_nothing_more(C):
    objective = make_objective(C=C)
    iterates = with_dual_bound(
        objective, get_solver("lbfgs").run(objective, np.zeros(objective.size))
    )
    seen = [next(iterates) for _ in range(5)]
    assert all(each.point.gap is None for each in seen)
    assert objective.passes <= 7
