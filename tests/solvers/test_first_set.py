"""OWL-QN finds which coefficients are not zero, where they are many; else working sets do."""

from itertools import groupby

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.view import ALL
from daskglm.engines.local import Local
from daskglm.solvers import costs, first_set

HOW = {"solver": "proximal_newton", "l1_ratio": 1.0, "fit_intercept": False, "tol": 1e-6}


def words(n=6000, d=4000, per_row=40, seed=0):
    """Sparse rows, labels in which half of the columns count, and the least C that keeps any."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, per_row / d, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    z = X @ (rng.standard_normal(d) * (rng.random(d) < 0.5))
    y = np.where(z + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X, y, 2.0 / np.abs(X.T @ y).max()


@pytest.fixture
def copied(monkeypatch):
    """The numbers of columns of all sets that are copied."""
    found, total = {}, Local.total

    def note(self, problem, request, view=ALL):
        if view.columns is not None:
            found[view.columns.key] = len(view.columns.places)
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    return found


def solvers_of(report):
    """Who made the points; "" is the solver itself."""
    return [by for by, _ in groupby(record["solver"] for record in report.history)]


@pytest.mark.parametrize("penalty", [{}, {"lower_bounds": 0.0}], ids=["l1", "bounds"])
def test_thousands_of_coefficients_are_found_before_sets(penalty, copied, monkeypatch):
    X, y, least = words()
    found = daskglm.fit(X, y, C=20.0 * least, **HOW, **penalty)
    assert solvers_of(found.report_) == ["owlqn", ""]
    assert found.report_.solver == "owlqn+proximal_newton"
    assert found.report_.converged
    sets = len(copied)
    copied.clear()
    monkeypatch.setattr(first_set, "may_be_many", lambda objective: False)
    grown = daskglm.fit(X, y, C=20.0 * least, **HOW, **penalty)
    assert sets < len(copied)
    assert solvers_of(grown.report_) == [""]
    assert np.count_nonzero(grown.coef_) > 2 * min(copied.values())
    assert found.report_.objective == pytest.approx(grown.report_.objective, rel=2e-6)


def test_few_features_that_violate_are_a_set_at_once():
    X, y, least = words()
    found = daskglm.fit(X, y, C=1.2 * least, **HOW)
    assert solvers_of(found.report_) == [""]
    assert found.report_.history[0]["passes"] == 1.0
    assert 0 < np.count_nonzero(found.coef_) < first_set.FIRST_SET


@pytest.mark.parametrize("case", ["squared", "dense", "warm", "wide", "groups"])
def test_where_it_does_not_pay_sets_grow(case, monkeypatch):
    X, y, least = words(n=1500, d=1000, per_row=20)
    how = {"C": 20.0 * least, **HOW}
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 100)
    monkeypatch.setattr(costs, "MOST_SUPPORT_VECTORS", 0.01 if case == "wide" else np.inf)
    monkeypatch.setattr("daskglm.solvers.proximal_newton.descends", lambda objective: False)
    estimator = daskglm.LinearRegressor if case == "squared" else daskglm.LinearClassifier
    if case == "dense":
        X = X.toarray()
    elif case == "groups":
        how["groups"] = np.arange(1000) // 4
    model = estimator(**how, warm_start=case == "warm").fit(X, y)
    if case == "warm":
        model.set_params(C=40.0 * least).fit(X, y)
    report = model.report_
    assert solvers_of(report) == [""]
    assert report.converged


def test_a_fit_killed_before_sets_resumes(tmp_path):
    X, y, least = words()

    class Killed(BaseException):
        pass

    def kill(record):
        if record["solver"] == "owlqn" and record["iteration"] == 4:
            raise Killed

    how = {"C": 20.0 * least, **HOW}
    whole = daskglm.fit(X, y, **how)
    with pytest.raises(Killed):
        daskglm.fit(X, y, checkpoint=tmp_path, checkpoint_every=1, callback=kill, **how)
    rest = daskglm.fit(X, y, resume=tmp_path, **how)
    assert rest.report_.converged
    assert rest.report_.resumed == 4
    assert rest.report_.objective == pytest.approx(whole.report_.objective, rel=2e-6)
