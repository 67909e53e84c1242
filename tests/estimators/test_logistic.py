"""Logistic regression beside scikit-learn's."""

import numpy as np
from sklearn.datasets import load_iris

import daskglm


def test_one_vs_rest_probabilities_are_scikit_learns():
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    X, y = load_iris(return_X_y=True)
    ours = daskglm.LogisticRegression(tol=1e-10).fit(X, y)
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert len(ours.report_.parts) == 3
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))
