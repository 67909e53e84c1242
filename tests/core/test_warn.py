"""Warnings name the line of the user's that called, however deep they are raised."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskglm
from daskglm.core.warn import quiet, warn
from tests.conftest import make_problem

X, y = make_problem(300, 5)

CALLS = {
    "fit": lambda: daskglm.fit(X, y, max_iter=1, solver="gd"),
    "estimator": lambda: daskglm.LogisticRegression(max_iter=1, solver="gd").fit(X, y),
    "path": lambda: daskglm.fit(X, y, C=[0.1, 1.0], max_iter=0, tol=1e-12),
    "no penalty": lambda: daskglm.LogisticRegression(penalty=None, C=3.0).fit(X, y),
    "dependent columns": lambda: daskglm.fit(X[:, [0, 1, 1]], y, C=np.inf),
    "score": lambda: daskglm.Ridge().fit(X, X[:, 0]).score(X[:1], X[:1, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_names_this_file(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    assert caught
    assert {each.filename for each in caught} == {__file__}


def test_quiet_is_of_one_thread():
    with quiet(), ThreadPoolExecutor(1) as others:
        warn("not heard")
        with pytest.warns(UserWarning, match="^heard$"):
            others.submit(warn, "heard").result()
    with pytest.warns(UserWarning, match="heard again"):
        warn("heard again")


def test_a_warning_from_within_a_pipeline_names_the_pipeline():
    model = make_pipeline(StandardScaler(), daskglm.LogisticRegression(max_iter=1, solver="gd"))
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert "pipeline.py" in caught[0].filename
