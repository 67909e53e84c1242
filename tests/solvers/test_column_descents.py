"""L1 fits of few dense rows, whose models are minimised by coordinate descent beside the rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet as Theirs

import daskglm
from daskglm.core.column_requests import ColumnDescent
from daskglm.core.view import ALL
from daskglm.engines.local import Local
from daskglm.solvers import proximal_newton

TOL = 1e-6


@pytest.fixture
def descents(monkeypatch):
    """The descents that are asked for in this process."""
    found, total = [], Local.total

    def note(self, problem, request, view=ALL):
        if isinstance(request, ColumnDescent):
            found.append(request)
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    return found


def drawn(n=300, d=700, rho=0.6, seed=0):
    """Correlated columns, a tenth of which count, and targets with a tenth of noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    z = X @ (rng.standard_normal(d) * (rng.random(d) < 0.1))
    return X, z + 0.1 * z.std() * rng.standard_normal(n)


def strength(X, y, share, l1_ratio=1.0):
    return share * float(np.abs(X.T @ y).max()) / len(y) / l1_ratio


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_a_lasso_takes_four_requests(descents, rho, share):
    """The start, a descent, the point where it led to, and what the report says."""
    X, y = drawn(rho=rho)
    model = daskglm.Lasso(strength(X, y, share), fit_intercept=False).fit(X, y)
    assert len(descents) == 1
    assert model.report_.relative_gap <= TOL
    assert model.report_.rounds <= 4
    assert model.report_.passes <= 25.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("share", [0.3, 0.05, 0.01])
def test_the_optimum_is_that_of_scikit_learn(descents, share, l1_ratio, intercept, dtype):
    X, y = drawn(150, 500, seed=3)
    X, y = X.astype(dtype), y + 30.0 * intercept
    alpha = strength(X, y - intercept * y.mean(), share, l1_ratio)
    same = {"l1_ratio": l1_ratio, "fit_intercept": intercept}
    ours = daskglm.ElasticNet(alpha, solver="proximal_newton", **same).fit(X, y)
    theirs = Theirs(alpha, tol=1e-10, max_iter=100_000, **same).fit(X.astype(float), y)
    assert descents
    assert ours.report_.relative_gap <= TOL

    def value(model):
        z = X.astype(float) @ model.coef_ + model.intercept_
        l1, l2 = np.abs(model.coef_).sum(), model.coef_ @ model.coef_
        return 0.5 * np.mean((y - z) ** 2) + alpha * (l1_ratio * l1 + 0.5 * (1.0 - l1_ratio) * l2)

    assert value(ours) <= value(theirs) * (1.0 + TOL)
    assert value(ours) >= value(theirs) * (1.0 - 2.0 * TOL)


@pytest.mark.parametrize("positive", [False, True])
def test_classes_take_a_few_models(descents, monkeypatch, positive):
    X, z = drawn(500, 400, seed=1)
    y = np.where(z > 0.0, 1, -1)
    C = 1.0 / (0.05 * float(np.abs(X.T @ y).max()) / 2.0)
    bounds = {"lower_bounds": 0.0} if positive else {}
    how = {"C": C, "l1_ratio": 1.0, "solver": "proximal_newton", **bounds}
    ours = daskglm.fit(X, y, loss="logistic", **how)
    assert 3 <= len(descents) <= 8
    assert ours.report_.relative_gap <= TOL
    assert ours.report_.rounds <= 2 * len(descents) + 4, "a descent and a point for each"
    monkeypatch.setattr(proximal_newton, "descends", lambda objective: False)
    other = daskglm.fit(X, y, loss="logistic", **how)
    assert ours.report_.objective == pytest.approx(other.report_.objective, rel=2.0 * TOL)


def test_slow_descents_are_given_up_for_working_sets(descents):
    X, y = drawn(100, 1000, rho=0.9)
    model = daskglm.Lasso(strength(X, y, 0.003), fit_intercept=False).fit(X, y)
    assert len(descents) == 1
    assert model.report_.relative_gap <= TOL
    assert model.report_.rounds > 4


def test_a_descent_with_more_coefficients_than_rows_is_not_gone_on_from(descents, monkeypatch):
    """It is far from the optimum, which needs no more, and working sets would grow by it."""
    X, y = drawn(60, 1200, rho=0.0, seed=4)
    answers, total = [], Local.total

    def note(self, problem, request, view=ALL):
        reply = total(self, problem, request, view)
        if isinstance(request, ColumnDescent):
            answers.append(reply)
        elif answers and hasattr(request, "w"):
            assert not np.array_equal(request.w, answers[0]["v"])
        return reply

    monkeypatch.setattr(Local, "total", note)
    model = daskglm.Lasso(strength(X, y, 1e-3), fit_intercept=False).fit(X, y)
    assert [reply["ended"] for reply in answers] == [False]
    assert np.count_nonzero(answers[0]["v"]) > 60
    assert model.report_.relative_gap <= TOL


@pytest.mark.parametrize("rows", ["sparse", "few features", "unpenalised"])
def test_where_there_are_no_descents(descents, rows):
    X, y = drawn()
    how = {"C": 1.0 / (300 * strength(X, y, 0.1)), "l1_ratio": 1.0, "loss": "squared"}
    if rows == "sparse":
        daskglm.fit(sp.csr_matrix(X), y, **how)
    elif rows == "few features":
        daskglm.fit(X[:, :50], y, **how)
    else:
        daskglm.fit(X, y, penalty_factor=np.append(0.0, np.ones(699)), **how)
    assert not descents


@pytest.mark.parametrize("descends", [False, True])
def test_what_a_strong_penalty_leaves_is_found(monkeypatch, descends):
    """Zeros would be within `tol` of the optimum."""
    X, y = drawn(seed=2)
    if not descends:
        monkeypatch.setattr(proximal_newton, "descends", lambda objective: False)
    model = daskglm.Lasso(strength(X, y, 1.0 - 1e-6), fit_intercept=False).fit(X, y)
    assert np.flatnonzero(model.coef_).tolist() == [int(np.abs(X.T @ y).argmax())]
    none = daskglm.Lasso(strength(X, y, 1.0 + 1e-6), fit_intercept=False).fit(X, y)
    assert not none.coef_.any()
    assert none.report_.rounds <= 2


def test_auto_descends_on_elastic_nets(descents):
    X, y = drawn()
    report = daskglm.ElasticNet(strength(X, y, 0.1, 0.5), l1_ratio=0.5).fit(X, y).report_
    assert report.solver == "proximal_newton"
    assert len(descents) == 1
    assert report.rounds <= 4
