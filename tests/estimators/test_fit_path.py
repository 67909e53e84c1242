"""Paths of many C, each the separate fit."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem, objective
from tests.fitting.grids import CS


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge", "squared"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_path_is_the_separate_fits(loss, sparse, fit_intercept):
    X, y = make_problem(loss=loss, sparse=sparse)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    path = daskglm.fit(X, y, loss=loss, C=CS, sample_weight=weight, fit_intercept=fit_intercept)
    for C, model in zip(CS, path, strict=True):
        alone = daskglm.fit(
            X, y, loss=loss, C=C, sample_weight=weight, fit_intercept=fit_intercept, tol=1e-12
        )
        best = objective(X, y, alone.coef_, alone.intercept_, C, loss, weight)
        assert objective(X, y, model.coef_, model.intercept_, C, loss, weight) <= best * (1 + 1e-6)
        assert model.report_.converged
        assert model.report_.relative_gap <= 1e-6
        assert model.get_params()["C"] == C


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_infinite_C_and_losses_without_curvature_are_solved_alone(loss):
    X, y = make_problem()
    Cs = [0.1, 1.0] if loss == "hinge" else [0.1, np.inf]
    path = daskglm.fit(X, y, loss=loss, C=Cs, tol=1e-6)
    alone = daskglm.fit(X, y, loss=loss, C=Cs[1], tol=1e-9)
    assert path[1].report_.objective == pytest.approx(alone.report_.objective, rel=2e-6)


def test_what_did_not_converge_is_told():
    X, y = make_problem()
    with pytest.warns(
        ConvergenceWarning,
        match=r"of 9 problems stopped before tol=1e-06; the worst: .*reached: rel",
    ):
        model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, max_iter=1, refit=False).fit(X, y)
    assert not model.report_.converged
    assert len(model.report_.parts) == 9
