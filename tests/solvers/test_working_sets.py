"""Working sets of proximal Newton: with Hessians, by products with them, and of most features."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Evaluate, HessianVector
from daskglm.core.view import ALL
from daskglm.engines.local import Local
from daskglm.objectives.restriction import Restriction
from daskglm.solvers import costs, first_set, proximal_newton, proximal_steps, working_sets
from daskglm.solvers.proximal_steps import Products
from daskglm.solvers.working_sets import KeptSet
from daskglm.solvers.workload import Workload
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.fitting.test_checkpoint import killed
from tests.solvers.test_owlqn import composite
from tests.solvers.test_proximal_newton import PENALTIES, check_same, fit, lazy, problem

SETS = ["lasso", "net", "factors", "bounds", "groups", "P2"]
WAYS = ["hessians", "products", "whole", "whole with hessians"]
each_way = pytest.mark.parametrize("way", WAYS)


def without_descents(monkeypatch):
    """Few dense rows have working sets only where descents along columns are given up."""
    monkeypatch.setattr(proximal_newton, "descends", lambda objective: False)


def take(way, monkeypatch):
    """Solve for small sets, or for all features, with Hessians or by products.

    Rows of few features take working sets as if they were wide.
    """
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 0)
    monkeypatch.setattr(costs, "MODEL_PRODUCTS", 1e9 if "hessians" in way else 0.0)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)  # of so few rows any Hessian is cheap
    monkeypatch.setattr(working_sets, "FIRST_SET", 2)
    without_descents(monkeypatch)
    monkeypatch.setattr(working_sets, "WHOLE", 0.0 if "whole" in way else 1.0)


@pytest.fixture
def asked(monkeypatch):
    """Each request that is asked in this process: its kind, and whether of some columns only."""
    found, total = [], Local.total

    def note(self, problem, request, view=ALL):
        found.append((type(request), view.columns is not None))
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    return found


@each_choice
@each_way
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("penalty", SETS)
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "squared_hinge"])
def test_the_optimum_of_the_full_hessian(monkeypatch, asked, way, loss, penalty, sparse):
    X, y = problem(loss, sparse=sparse)
    options = {"solver": "proximal_newton", "tol": 1e-8, **PENALTIES[penalty]}
    full = fit(X, y, loss, **options)
    take(way, monkeypatch)
    asked.clear()
    check_same(fit(X, y, loss, **options), full, atol=1e-3)
    # each way is the one that was meant: of groups none may be worth a set beside the intercept,
    # and features without a penalty are always solved for in sets
    if penalty not in ("groups", "factors"):
        assert ((HessianVector, True) in asked) == (way == "products")
        assert ((HessianVector, False) in asked) == (way == "whole")


@pytest.mark.slow
@each_choice
@each_way
@pytest.mark.parametrize("penalty", SETS)
def test_on_two_workers(client, monkeypatch, way, penalty):
    X, y = problem("logistic", d=8)
    options = {"solver": "proximal_newton", "tol": 1e-8, **PENALTIES[penalty]}
    full = fit(X, y, **options)
    take(way, monkeypatch)
    there = fit(*lazy(X, y), client=client, **options)
    assert there.report_.workers == 2
    check_same(there, full, atol=1e-3)


@each_choice
@each_way
@pytest.mark.parametrize("penalty", ["lasso", "bounds", "groups"])
def test_out_of_core(monkeypatch, way, penalty):
    X, y = problem("poisson", sparse=True)
    options = {"solver": "proximal_newton", "tol": 1e-8, **PENALTIES[penalty]}
    full = fit(X, y, "poisson", **options)
    take(way, monkeypatch)
    check_same(fit(*lazy(X, y), "poisson", out_of_core=True, **options), full, atol=1e-3)


@pytest.mark.slow
@each_choice
@each_way
@pytest.mark.parametrize("penalty", ["lasso", "bounds", "groups"])
def test_on_a_device(cupy, monkeypatch, way, penalty):
    X, y = problem("poisson", sparse=True, dtype=np.float32)
    options = {"solver": "proximal_newton", "tol": 1e-7, **PENALTIES[penalty]}
    full = fit(X, y, "poisson", **options)
    take(way, monkeypatch)
    there = fit(X, y, "poisson", device="cuda", **options)
    assert there.report_.device == "cuda"
    check_same(there, full, atol=1e-2)


@each_choice
@each_way
@pytest.mark.parametrize("penalty", [{}, {"groups": True}, {"penalty_factor": [0.0] + [1.0] * 7}])
def test_several_classes(monkeypatch, way, penalty):
    X, y = make_problem(400, 8, loss="logistic", seed=1)
    y = np.digitize(X[:, 0] + X[:, 1] * y, [-0.7, 0.7])
    if "groups" in penalty:
        penalty = {"groups": np.arange(8) // 2}
    options = {"solver": "proximal_newton", "C": 0.05, "l1_ratio": 0.9, "tol": 1e-7, **penalty}
    model = daskglm.LogisticRegression(**options).fit(X, y)
    take(way, monkeypatch)
    by_sets = daskglm.LogisticRegression(**options).fit(X, y)
    assert by_sets.report_.converged
    assert by_sets.report_.objective == pytest.approx(model.report_.objective, rel=1e-6)
    np.testing.assert_allclose(by_sets.coef_, model.coef_, atol=2e-3)


@each_way
def test_a_killed_fit_is_resumed(monkeypatch, way, tmp_path):
    take(way, monkeypatch)
    X, y = problem("poisson")
    options = {"solver": "proximal_newton", "l1_ratio": 1.0}
    options |= {"tol": 1e-7}
    whole = fit(X, y, "poisson", **options)
    killed(tmp_path / "c", X, y, at=2, loss="poisson", C=0.05, **options)
    rest = fit(X, y, "poisson", resume=tmp_path / "c", **options)
    assert rest.report_.resumed == 2
    assert rest.report_.converged
    assert rest.report_.objective == pytest.approx(whole.report_.objective, rel=2e-7)
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=2e-3)


@each_way
@pytest.mark.parametrize("size", [1e10, 1e100, 1e150])
def test_huge_columns_are_not_silently_wrong(monkeypatch, way, size):
    """The optimum, in which such a column has no penalty to speak of, or an error or a warning."""
    X, y = problem("logistic")
    free = fit(X, y, l1_ratio=1.0, penalty_factor=[0.0] + [1.0] * 7, tol=1e-9)
    X = X.copy()
    X[:, 0] *= size
    take(way, monkeypatch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit(X, y, l1_ratio=1.0, tol=1e-6, solver="proximal_newton")
        except ValueError:
            return
    if not model.report_.converged:
        assert [each for each in caught if issubclass(each.category, ConvergenceWarning)]
        return
    np.testing.assert_allclose(np.ravel(model.coef_)[1:], np.ravel(free.coef_)[1:], atol=0.02)


def test_wide_sparse_rows():
    """More features than a Hessian is formed for: by working sets, without being asked."""
    rng = np.random.default_rng(0)
    X = sp.random(400, 3000, 0.01, format="csr", random_state=0)
    z = X[:, :5] @ np.array([8.0, -8.0, 6.0, 6.0, -5.0])
    y = np.where(z + 0.3 * rng.standard_normal(400) > 0, 1.0, -1.0)
    model = daskglm.fit(X, y, l1_ratio=1.0, C=2.0, tol=1e-7, solver="proximal_newton")
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-7
    assert 0 < np.count_nonzero(model.coef_) < 400
    slope = -y / (1.0 + np.exp(y * model.decision_function(X)))
    pull = 2.0 * (X.T @ slope)
    w = model.coef_[0]
    assert np.abs(pull[w == 0.0]).max() <= 1.0 + 1e-3
    np.testing.assert_allclose(pull[w != 0.0], -np.sign(w[w != 0.0]), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_thousands_of_coefficients(l1_ratio, asked):
    """Sets of more features than a Hessian is formed for; and of most features of all."""
    rng = np.random.default_rng(1)
    X = sp.random(3000, 6000, 0.01, format="csr", random_state=1)
    z = X @ (rng.standard_normal(6000) * (rng.random(6000) < 0.5))
    y = np.where(z + 0.1 * rng.standard_normal(3000) > 0, 1.0, -1.0)
    how = {"l1_ratio": l1_ratio, "tol": 1e-6, "solver": "proximal_newton"}
    model = daskglm.fit(X, y, C=30.0, **how)
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-6
    assert np.count_nonzero(model.coef_) > 1000
    assert HessianVector in {kind for kind, _ in asked}


@pytest.mark.parametrize(
    ("per_row", "rows", "features", "formed"),
    [
        (15, 1_000_000, 700, True),  # few values a row beside many rows
        (20, 200_000, 1000, False),
        (38, 20_000, 1500, False),  # many a row: their pairs are more
        (38, 20_000, 50, True),
        (100, 100, 100, True),  # takes no time
        (200, 200_000, 200, True),  # dense
        (600, 200_000, 600, False),
    ],
)
def test_a_hessian_is_formed_where_it_costs_less_than_products(per_row, rows, features, formed):
    stored = per_row * rows
    known = {"n_rows": rows, "n_features": features, "nonzeros": stored, "nbytes": 8 * stored}
    summary = DataSummary(**known, sparse=per_row < features)
    assert Workload(summary, features).forms_hessian == formed


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_working_sets_are_taken_where_a_hessian_of_all_costs_more(loss, asked, monkeypatch):
    """Not where nothing else proves a point."""
    without_descents(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 600))
    z = X[:, :10] @ rng.standard_normal(10)
    y = np.where(z > 0, 1.0, -1.0) if loss == "logistic" else z
    how = {"C": 0.02, "l1_ratio": 1.0, "solver": "proximal_newton"}
    model = daskglm.fit(X, y, loss=loss, **how)
    assert model.report_.relative_gap <= 1e-6
    assert any(some for _, some in asked)
    asked.clear()
    factors = np.ones(600)
    factors[0] = 0.0
    model = daskglm.fit(X, y, loss=loss, penalty_factor=factors, **how)
    assert model.report_.relative_gap <= 1e-6
    assert not any(some for _, some in asked)


def test_the_last_digits_are_proved_by_a_hessian():
    """Bounds by the gradient are of first order, and end at rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 500))
    y = np.where(X[:, :10] @ rng.standard_normal(10) + rng.standard_normal(3000) > 0, 1.0, -1.0)
    report = daskglm.fit(X, y, C=0.02, l1_ratio=1.0, tol=1e-13).report_
    assert report.solver == "proximal_newton"
    assert report.converged
    assert report.relative_gap <= 1e-13


def test_rows_that_are_read_from_a_source_are_read_for_hessians(asked, monkeypatch):
    """Their passes cost more than arithmetic; copies of columns would take memory."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 500))
    y = np.where(X[:, :10] @ rng.standard_normal(10) > 0, 1.0, -1.0)
    how = {"C": 0.02, "l1_ratio": 1.0, "solver": "proximal_newton"}
    model = daskglm.fit(*lazy(X, y, 1000), out_of_core=True, **how)
    assert model.report_.passes < 12
    assert asked
    assert not any(some for _, some in asked)
    asked.clear()
    without_descents(monkeypatch)
    assert daskglm.fit(X, y, **how).report_.converged
    assert any(some for _, some in asked)


def test_products_give_way_to_hessians_once_they_have_cost_more(asked):
    """Of a squared hinge few rows have curvature, and columns depend on each other."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 600)) + 3.0 * rng.standard_normal((400, 1))
    y = np.where(X[:, :5] @ rng.standard_normal(5) > 0, 1.0, -1.0)
    report = fit(
        X, y, "squared_hinge", C=0.2, l1_ratio=1.0, tol=1e-5, solver="proximal_newton"
    ).report_
    assert report.converged
    assert report.passes < 5000
    products = Products()
    assert not products.are_dear(Workload(DataSummary(n_rows=9, n_features=9, nonzeros=81), 9))
    products.models, products.count = 1, 10**6
    assert products.are_dear(Workload(DataSummary(n_rows=9, n_features=9, nonzeros=81), 9))
    large = DataSummary(n_rows=9, n_features=9000, nonzeros=81)
    assert not products.are_dear(Workload(large, 9000)), "no such Hessian is formed"


def test_a_set_knows_how_many_values_its_columns_have():
    X = sp.random(100, 40, 0.2, format="csr", random_state=0)
    y = np.where(np.arange(100) % 3 == 0, 1.0, -1.0)
    for objective in composite(X, y, l1_ratio=1.0):
        columns = np.array([3, 7, 20])
        part = Restriction.of(objective, columns)
        assert objective.rows.meter.stored is None
        part.objective.at(np.zeros(4))
        stored = objective.rows.meter.stored
        assert stored == X[:, columns].nnz
        assert Workload.of_columns(part).summary.nonzeros == stored
        assert Workload.of_columns(part).n_features == 3


def test_a_copy_serves_a_set_whose_other_features_need_not_move():
    """Those that only come near to their strength may wait: a copy takes a pass."""
    X = sp.random(300, 40, 0.3, format="csr", random_state=0)
    y = np.where(np.arange(300) % 3 == 0, 1.0, -1.0)
    for objective in composite(X, y, l1_ratio=1.0):
        point = objective.at(np.zeros(objective.size))
        pull = np.abs(point.gradient[:40])
        moves = pull > objective.penalty.feature_kinks.strengths[0]
        some, near = np.flatnonzero(moves), np.argmax(np.where(moves, -1.0, pull))
        assert 1 < len(some) < 40
        more = np.sort(np.append(some, near))
        kept = KeptSet()
        key = kept.restriction(objective, some).key
        assert kept.restriction(objective, more, point).key == key
        assert kept.restriction(objective, more, point, last=True).key == key
        assert kept.restriction(objective, more).key != key
        kept = KeptSet()
        key = kept.restriction(objective, some[:-1]).key
        assert kept.restriction(objective, some, point).key != key, "another one is to move"


def test_a_set_that_is_solved_again_begins_with_what_is_known_there(monkeypatch):
    """Nothing is evaluated twice, and workers copy the columns of a set once."""
    rng = np.random.default_rng(0)
    X = sp.random(2000, 3000, 0.01, format="csr", random_state=0, data_rvs=rng.standard_normal)
    w = rng.standard_normal(3000) * (rng.random(3000) < 0.01)
    y = np.where(X @ w + 0.2 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    asked, total = [], Local.total

    def note(self, problem, request, view=ALL):
        if isinstance(request, Evaluate):
            key = None if view.columns is None else view.columns.key
            asked.append((key, request.w.tobytes(), request.gram))
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    how = {"fit_intercept": False, "solver": "proximal_newton", "l1_ratio": 1.0}
    C = 30.0 / np.abs(X.T @ (0.5 * y)).max()
    report = daskglm.fit(X, y, C=C, tol=1e-6, **how).report_
    assert report.converged
    assert report.relative_gap <= 1e-6
    keys = [key for key, _, _ in asked if key is not None]
    assert len(set(keys)) < len([key for key, _, _ in asked if key is None]) - 1, "one serves twice"
    assert len(asked) == len(set(asked)), "what was evaluated is known"


def test_no_hessian_is_formed_where_the_bound_is_foretold(monkeypatch):
    """The last points of a set are bounded by gradients, and one Hessian serves two steps."""
    monkeypatch.setattr(first_set, "may_be_many", lambda objective: False)
    rng = np.random.default_rng(0)
    X = sp.random(2000, 3000, 0.01, format="csr", random_state=0, data_rvs=rng.standard_normal)
    w = rng.standard_normal(3000) * (rng.random(3000) < 0.01)
    y = np.where(X @ w + 0.2 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    monkeypatch.setattr(costs, "MODEL_PRODUCTS", 1e9)
    formed, total = [], Local.total

    def note(self, problem, request, view=ALL):
        if isinstance(request, Evaluate) and view.columns is not None:
            formed.append(request.gram)
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    how = {"fit_intercept": False, "solver": "proximal_newton", "l1_ratio": 1.0}
    C = 10.0 / np.abs(X.T @ (0.5 * y)).max()
    found = [daskglm.fit(X, y, C=C, tol=1e-6, **how).report_]
    assert sum(formed) > 3
    assert not formed[-1]
    few = sum(formed)
    monkeypatch.setattr(proximal_steps, "_is_near", lambda point, before, wanted: False)
    formed.clear()
    found.append(daskglm.fit(X, y, C=C, tol=1e-6, **how).report_)
    assert few < sum(formed)
    assert all(report.relative_gap <= 1e-6 for report in found)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6)


@pytest.mark.parametrize(("share", "most"), [(0.1, 7.5), (0.001, 7.5)])
def test_dense_lassos_take_sets_or_soon_one_hessian_of_all(share, most, asked, monkeypatch):
    """Where most coefficients are not zero a first set tells, and no other is copied."""
    without_descents(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 500))
    y = X @ (rng.standard_normal(500) * (rng.random(500) < 0.1)) + 3.0 * rng.standard_normal(3000)
    alpha = share * float(np.abs(X.T @ y).max()) / 3000
    report = daskglm.Lasso(alpha, fit_intercept=False).fit(X, y).report_
    assert report.relative_gap <= 1e-6
    assert report.passes <= most
    assert report.rounds <= 8
    assert any(some for _, some in asked)
