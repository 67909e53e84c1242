"""Proximal points of the hinge."""

import daskglm
from tests.conftest import make_problem


def test_hand_over_of_the_hinge_to_proximal_points():
    X, y = make_problem(3000, 6, seed=2)
    params = {"loss": "hinge", "solver": "sdca", "C": 1.0, "random_state": 0}
    for intercept in (False, True):
        model = daskglm.fit(X, y, tol=1e-8, fit_intercept=intercept, **params)
        assert model.report_.solver == "sdca+newton"
        assert model.report_.converged
        assert model.report_.relative_gap <= 1e-8
        options = {"polish": False}
        crawl = daskglm.fit(
            X, y, tol=1e-4, fit_intercept=intercept, solver_options=options, max_iter=5000, **params
        )
        assert crawl.report_.solver == "sdca"
        excess = crawl.report_.objective - model.report_.objective
        assert -1e-8 * model.report_.objective <= excess <= 1e-4 * crawl.report_.objective
