"""Trust-region Newton: passes and preconditioners."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.solvers import costs
from tests.solvers.problems import drive


def test_tron_makes_one_pass_per_product_and_trial():
    obj = drive("tron", 4)
    assert obj.passes == len(obj.engine.requests)
    assert set(obj.engine.requests) == {"Evaluate", "HessianVector"}


@pytest.mark.parametrize("C", [0.01, 10.0])
def test_tron_takes_the_hessian_of_a_sample_where_that_saves_products(C, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((60, 60)) * np.logspace(
        0, -1, 60
    )  # columns that go together: no diagonal helps
    X = (rng.standard_normal((40_000, 60)) @ mixing.T).astype(np.float32)
    y = np.where(X @ rng.standard_normal(60) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    options = {"C": C, "solver": "tron", "tol": 1e-8}
    found = daskglm.fit(X, y, **options).report_
    monkeypatch.setattr(costs, "LARGEST_SAMPLE", 0.0)
    diagonal = daskglm.fit(X, y, **options).report_
    assert found.passes < (0.6 if C == 0.01 else 0.35) * diagonal.passes
    assert found.objective == pytest.approx(diagonal.objective, rel=1e-7)


def test_steps_that_the_model_got_wrong_are_shortened_and_not_taken_in_a_smaller_region():
    """With the squared hinge on few rows, rejected steps shrank the region for 1,000 iterations."""
    rng = np.random.default_rng(3)
    X = sp.random(200, 2000, 0.0015, "csr", rng=rng)
    X.data = rng.lognormal(0.0, 1.5, len(X.data))
    y = np.sign(X @ rng.standard_normal(2000) + 1e-9)
    report = daskglm.fit(
        X, y, loss="squared_hinge", C=100.0, fit_intercept=False, solver="tron", tol=1e-6
    ).report_
    assert report.converged
    assert report.solver == "tron"
    assert report.n_iter < 100
    best = daskglm.fit(
        X, y, loss="squared_hinge", C=100.0, fit_intercept=False, solver="newton", tol=1e-9
    ).report_
    assert report.objective <= best.objective * (1.0 + 1e-6)


def test_least_squares_are_one_system():
    """By systems that are solved to a tenth it was 4 of them, and 13 passes."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2_000, 80)) * np.logspace(0, -1.5, 80)
    y = X @ rng.standard_normal(80) + rng.standard_normal(len(X))
    report = daskglm.fit(X, y, loss="squared", solver="tron", tol=1e-6).report_
    assert report.converged
    assert report.n_iter == 1
    assert report.passes <= 11
