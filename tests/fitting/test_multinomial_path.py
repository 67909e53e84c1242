"""Paths of multinomial fits: one load, each from the fit with the next smaller C."""

import numpy as np

import daskglm
from daskglm.fitting.config import FitConfig
from daskglm.fitting.multinomial_path import train_path


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    return X, (X @ rng.normal(size=(5, 3)) + rng.gumbel(size=(400, 3))).argmax(axis=1)


def test_models_come_in_the_order_given():
    X, y = rows()
    settings, Cs = FitConfig("multinomial", tol=1e-12), np.array([1.0, 0.01, 0.1])
    path = train_path(X, y, settings, Cs)
    for trained, C in zip(path, Cs, strict=True):
        alone = daskglm.LogisticRegression(C=C, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(trained.coef, alone.coef_, atol=1e-5)
        assert trained.report.relative_gap <= 1e-12
    starts = [(each.coef, each.intercept) for each in path]
    again = train_path(X, y, settings, Cs, starts=starts)
    assert max(each.report.n_iter for each in again) <= 1
