"""LinearSVC beside scikit-learn's, for each hinge."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC as TheirSVC

import daskglm
from tests.conftest import make_problem

X, y = make_problem(300, 5, seed=2)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_coefficients_are_scikit_learns(loss):
    ours = daskglm.LinearSVC(loss=loss, fit_intercept=False, tol=1e-9, random_state=0).fit(X, y)
    theirs = TheirSVC(
        loss=loss, dual=True, fit_intercept=False, tol=1e-9, max_iter=100_000, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    assert ours.score(X, y) == theirs.score(X, y)


def test_dual_is_solved_by_sdca():
    report = daskglm.LinearSVC(dual=True, random_state=0).fit(X, y).report_
    assert report.solver.startswith("sdca")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"loss": "logistic"}, "loss='logistic' is not one of 'squared_hinge', 'hinge'"),
        ({"loss": "hinge", "dual": False}, "dual"),
        ({"dual": "yes"}, "dual='yes'"),
    ],
)
def test_parameters_that_cannot_be(params, said):
    with pytest.raises(ValueError, match=said):
        daskglm.LinearSVC(**params).fit(X, y)


def test_several_classes_are_each_against_the_rest():
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    model = daskglm.LinearSVC(tol=1e-8).fit(X, classes)
    for k in range(3):
        alone = daskglm.LinearSVC(tol=1e-8).fit(X, classes == k)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-5)
