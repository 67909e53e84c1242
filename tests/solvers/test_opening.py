"""Easy rows are left to L-BFGS; where the error at zero tells that they are not, a pass is lost."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.solvers import costs

EASY = {"C": 0.05, "fit_intercept": False, "tol": 1e-8}


def rows(seed=0, *, shared=0.0, n=20_000, d=3_000, stored=30):
    """Sparse rows of unit length with labels; `shared`: the weight of a column of all rows."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, stored / d, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    X = sp.hstack([X / np.sqrt(stored), np.full((n, 1), shared)], format="csr")
    y = X @ rng.standard_normal(d + 1) + 0.3 * rng.standard_normal(n) > 0.0
    return X, y


def test_auto_ends_with_l_bfgs_where_rows_are_easy():
    X, y = rows()
    found = daskglm.fit(X, y, **EASY)
    report = found.report_
    assert report.why.split("expected passes: ")[1].startswith(("sdca", "tron"))
    assert report.why.endswith("; lbfgs first, since rows may be easy")
    assert report.converged
    assert report.solver == "lbfgs"
    by_name = {name: daskglm.fit(X, y, solver=name, **EASY) for name in ("lbfgs", "tron", "sdca")}
    assert report.passes == by_name["lbfgs"].report_.passes
    assert report.passes < min(by_name[name].report_.passes for name in ("tron", "sdca"))
    np.testing.assert_array_equal(found.coef_, by_name["lbfgs"].coef_)


@pytest.mark.parametrize("chosen", ["sdca", "tron"])
def test_rows_that_are_hard_at_zero_lose_a_pass_at_most(chosen, monkeypatch):
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: (chosen, "for the test"))
    X, y = rows(shared=1.0)
    found = daskglm.fit(X, y, **EASY, random_state=0)
    asked = daskglm.fit(X, y, solver=chosen, **EASY, random_state=0)
    assert found.report_.solver == asked.report_.solver
    # the point at zero is TRON's first one
    assert found.report_.passes == asked.report_.passes + (chosen == "sdca")
    np.testing.assert_array_equal(found.coef_, asked.coef_)


@pytest.mark.parametrize("chosen", ["sdca", "tron"])
def test_another_solver_goes_on_where_errors_stay(chosen, monkeypatch):
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: (chosen, "for the test"))
    monkeypatch.setattr(costs, "EASY_POINTS", 2)
    report = daskglm.fit(*rows(), **EASY, random_state=0).report_
    assert report.solver == f"lbfgs+{chosen}"
    assert [record["solver"] for record in report.history[:4]] == ["lbfgs"] * 3 + (
        ["sdca"] if chosen == "sdca" else [""]
    )
    assert report.converged


def test_a_solve_that_is_resumed_goes_on_with_the_solver_that_was_chosen(tmp_path):
    X, y = rows()
    with pytest.warns(ConvergenceWarning):
        daskglm.fit(X, y, max_iter=2, checkpoint=tmp_path, checkpoint_every=1, **EASY)
    resumed = daskglm.fit(X, y, resume=tmp_path, **EASY)
    assert resumed.report_.converged
    assert "lbfgs" not in resumed.report_.solver
    np.testing.assert_allclose(resumed.coef_, daskglm.fit(X, y, **EASY).coef_, atol=1e-4)


def test_nothing_is_spent_where_a_bound_tells_that_rows_are_hard(monkeypatch):
    def never(*_, **__):
        raise AssertionError("L-BFGS was tried")

    monkeypatch.setattr("daskglm.solvers.opening.lbfgs", never)
    X, y = rows()
    for other in (
        {"C": 100.0},  # the curvature ratio
        {"solver": "tron"},
        {"warm_start": daskglm.fit(X, y, solver="tron", **EASY)},
    ):
        report = daskglm.fit(X, y, **{**EASY, **other}).report_
        assert report.converged
        assert "solver" in other or "warm_start" in other or "lbfgs" not in report.why
