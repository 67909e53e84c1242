"""Logistic regression beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import daskglm
from tests.conftest import make_problem


def test_one_vs_rest_probabilities_are_scikit_learns():
    from sklearn.multiclass import OneVsRestClassifier

    X, y = load_iris(return_X_y=True)
    ours = daskglm.LogisticRegression(tol=1e-10, multi_class="ovr").fit(X, y)
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert len(ours.report_.parts) == 3
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))


@pytest.mark.parametrize("named", ["auto", "deprecated", "multinomial"])
def test_more_than_two_classes_are_fitted_together(named):
    X, y = load_iris(return_X_y=True)
    model = daskglm.LogisticRegression(multi_class=named, stop="coefficients", tol=1e-9).fit(X, y)
    theirs = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=0, atol=1e-8)
    assert model.n_iter_.shape == (1,)
    assert not model.report_.parts
    np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-12)


def test_two_classes_are_the_plain_logistic():
    X, y = make_problem(n=200, d=4)
    by_name = daskglm.LogisticRegression(multi_class="multinomial").fit(X, y)
    plain = daskglm.LogisticRegression(multi_class="ovr").fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, plain.coef_)
    np.testing.assert_array_equal(by_name.predict_proba(X), plain.predict_proba(X))
    assert by_name.coef_.shape == (1, 4)
    assert daskglm.LogisticRegression(solver="sdca").fit(X, y).report_.solver.startswith("sdca")


def test_softmax_probabilities_are_scikit_learns():
    X, y = load_iris(return_X_y=True)
    ours = daskglm.LogisticRegression(tol=1e-14).fit(X, y)
    theirs = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(ours.predict_proba(X).sum(axis=1), 1.0, rtol=1e-14)
    assert ours.decision_function(X).shape == (150, 3)
    assert ours.score(X, y) == theirs.score(X, y)


def test_the_dual_solver_of_several_classes_is_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    for model in (
        daskglm.LogisticRegression(solver="sdca"),
        daskglm.LogisticRegression(dual=True),
    ):
        with pytest.raises(ValueError, match="give another solver, or multi_class='ovr'"):
            model.fit(X, y)
        assert len(model.set_params(multi_class="ovr").fit(X, y).report_.parts) == 3
    by_their_name = daskglm.LogisticRegression(solver="saga").fit(X, y).report_
    assert by_their_name.solver == "lbfgs"
    assert by_their_name.why == "solver='saga' of scikit-learn: sdca; multinomial: lbfgs"


def test_cross_validation_fits_one_against_the_rest_where_it_is_asked_to():
    X, y = load_iris(return_X_y=True)
    model = daskglm.LogisticRegressionCV(Cs=[1.0], cv=3, multi_class="ovr").fit(X, y)
    plain = daskglm.LogisticRegression(multi_class="ovr").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    joint = daskglm.LogisticRegressionCV(Cs=[1.0], cv=3, tol=1e-10).fit(X, y)
    alone = daskglm.LogisticRegression(tol=1e-10).fit(X, y)
    np.testing.assert_allclose(joint.predict_proba(X), alone.predict_proba(X), atol=1e-6)
