"""Estimators that take any loss of their kind by its name."""

import numpy as np
import pytest

import daskglm
from tests.conftest import make_problem

X, y = make_problem(300, 5, seed=2)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "smoothed_hinge"])
def test_a_classifier_minimises_the_loss_that_it_names(loss):
    model = daskglm.LinearClassifier(loss=loss, random_state=0).fit(X, y)
    best = daskglm.fit(X, y, loss=loss, random_state=0)
    assert model.report_.objective == pytest.approx(best.report_.objective, rel=1e-5)


def test_a_regressor_minimises_the_loss_that_it_names():
    target = X @ np.arange(5.0)
    model = daskglm.LinearRegressor(loss="squared", tol=1e-10).fit(X, target)
    np.testing.assert_allclose(model.coef_, daskglm.Ridge(tol=1e-10).fit(X, target).coef_)


@pytest.mark.parametrize(
    ("estimator", "loss"),
    [(daskglm.LinearClassifier, "squared"), (daskglm.LinearRegressor, "logistic")],
)
def test_losses_of_the_other_kind_are_refused(estimator, loss):
    with pytest.raises(ValueError, match=f"loss='{loss}' is not one of"):
        estimator(loss=loss).fit(X, y)
