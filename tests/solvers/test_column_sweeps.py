"""L1 fits of wide sparse rows, whose models are minimised by sweeps over columns."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import daskglm
from daskglm.certificates.rounding import EXACT
from daskglm.certificates.tangent import ByTangent
from daskglm.core.column_requests import ColumnSweeps
from daskglm.core.view import ALL
from daskglm.engines.local import Local
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs, kinked_steps

TOL = 1e-7


def topics(n=4000, d=6000, *, per_row=40, count=10, seed=0):
    """Rows of words whose ranks are others in each topic, of norm one, and classes."""
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(1.0 / np.arange(3.0, d + 3.0))
    rank = np.searchsorted(popularity / popularity[-1], rng.random((n, per_row)))
    words = np.array([rng.permutation(d) for _ in range(count)])
    columns = np.where(
        rng.random((n, per_row)) < 0.5, rank, words[np.arange(n)[:, None] % count, rank]
    )
    X = sp.csr_matrix(
        (
            rng.lognormal(0.0, 0.4, n * per_row),
            columns.ravel(),
            np.arange(0, n * per_row + 1, per_row),
        ),
        shape=(n, d),
    )
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), np.diff(X.indptr))
    z = X @ (rng.standard_normal(d) * (rng.random(d) < 0.3))
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-6.0 * z / z.std())), 1.0, -1.0)


@pytest.fixture(scope="module")
def data():
    return topics()


@pytest.fixture
def swept(monkeypatch):
    """The sweeps that are asked for in this process."""
    found, total = [], Local.total

    def note(self, problem, request, view=ALL):
        if isinstance(request, ColumnSweeps):
            found.append(request)
        return total(self, problem, request, view)

    monkeypatch.setattr(Local, "total", note)
    return found


def strength(X, y, share):
    """C at which the L1 penalty is this share of the one that leaves no coefficient."""
    return 1.0 / (share * np.abs(X.T @ (0.5 * y)).max())


def fit(X, y, C, **options):
    options = {"l1_ratio": 1.0, "fit_intercept": False, "tol": TOL, **options}
    return daskglm.fit(X, y, C=C, solver="proximal_newton", **options)


@pytest.mark.parametrize("share", [0.02, 0.01])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_optimum_is_that_of_liblinear(data, swept, share, dtype):
    X, y = data
    X, C = X.astype(dtype), strength(*data, share)
    model = fit(X, y, C)
    assert swept
    assert model.report_.relative_gap <= TOL
    peer = LogisticRegression(
        C=C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-7, max_iter=1000
    ).fit(X.astype(np.float64), y)

    def value(w):
        return np.abs(w).sum() + C * np.logaddexp(0.0, -y * (X.astype(np.float64) @ w)).sum()

    found, other = np.ravel(model.coef_), np.ravel(peer.coef_)
    assert value(found) <= value(other) * (1.0 + TOL)
    assert value(other) <= value(found) * (1.0 + 1e-5), "LIBLINEAR's own tolerance"


@pytest.mark.parametrize(("share", "most"), [(0.02, 23.2), (0.01, 43.5), (0.005, 70.6)])
def test_passes_to_a_proved_1e_7(data, monkeypatch, share, most):
    X, y = data
    C = strength(X, y, share)
    ours = fit(X, y, C)
    assert ours.report_.passes <= most
    monkeypatch.setattr(Objective, "sweeps_columns", False)
    without = fit(X, y, C)
    assert ours.report_.passes < without.report_.passes
    assert ours.report_.objective == pytest.approx(without.report_.objective, rel=2 * TOL)


@pytest.mark.parametrize("seed", range(6))
def test_no_bound_is_above_the_optimum(monkeypatch, seed):
    """Of any point on the way, of drawn rows, strengths, penalties and intercepts."""
    rng = np.random.default_rng(seed)
    X, y = topics(int(rng.integers(200, 900)), int(rng.integers(600, 1500)), per_row=20, seed=seed)
    X = X.astype(rng.choice([np.float32, np.float64]))
    options = {"fit_intercept": bool(rng.integers(2)), "l1_ratio": rng.choice([0.7, 1.0])}
    C = strength(X, y, 10.0 ** rng.uniform(-2.3, -1.0))
    optimum = fit(X, y, C, **options | {"tol": 1e-9}).report_.objective
    bounds, of = [], ByTangent.of

    def note(self, point):
        found = of(self, point)
        if self.objective.n_features == X.shape[1]:
            bounds.append((point.value, found))
        return found

    monkeypatch.setattr(ByTangent, "of", note)
    report = fit(X, y, C, **options | {"tol": 1e-6}).report_
    assert report.relative_gap <= 1e-6
    assert report.objective <= optimum * (1.0 + report.relative_gap)
    values, found = np.transpose(bounds)
    assert len(values) > 2
    assert (values - found <= optimum * (1.0 + 1e-13)).all()
    assert values.min() >= optimum * (1.0 - 1e-9)


def test_each_point_of_all_features_is_bounded_at_most_twice(data, monkeypatch):
    X, y = data
    asked, by_tangent = [], ByTangent.by_tangent

    def note(self, point, error):
        if self.objective.n_features == X.shape[1]:
            asked.append((point.token, error is EXACT))
        return by_tangent(self, point, error)

    monkeypatch.setattr(ByTangent, "by_tangent", note)
    report = fit(X, y, strength(X, y, 0.01)).report_
    assert report.converged
    assert len({token for token, _ in asked}) > 2, "points of all features are bounded"
    assert len(asked) == len(set(asked)), "with roundings and without them, once each"


def test_gradients_of_long_vectors_take_the_place_of_sums(data, monkeypatch):
    X, y = data
    C = strength(X, y, 0.02)
    known = fit(X, y, C)
    monkeypatch.setattr("daskglm.penalties.penalty.AT_ONCE", 100)
    model = fit(X, y, C)
    assert model.report_.passes == known.report_.passes
    assert model.report_.objective == pytest.approx(known.report_.objective, rel=1e-12)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=1e-12)


@pytest.fixture
def narrow(monkeypatch):
    """Rows of few features are solved as wide ones, by products."""
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 0)
    monkeypatch.setattr(costs, "MODEL_PRODUCTS", 0.0)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr("daskglm.solvers.working_sets.LAST_PRODUCTS", 0.0)
    monkeypatch.setattr("daskglm.solvers.working_sets.WHOLE", 1.0)


def hostile(kind):
    X, y = topics(800, 60, per_row=6, count=3, seed=1)
    X = X.tolil()
    if kind == "zero columns":
        X[:, 5:20] = 0.0
    if kind == "copies":
        X[:, 30:] = X[:, :30]
    if kind == "one column":
        X = X[:, :1]
    return X.tocsr(), y


@pytest.mark.parametrize("kind", ["plain", "zero columns", "copies", "one column"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l1_ratio": 0.5},
        {"fit_intercept": True},
        {"fit_intercept": True, "offset": True, "weight": True},
        {"positive": True},
    ],
    ids=["lasso", "net", "intercept", "weights", "positive"],
)
def test_hard_columns_have_the_optimum_of_the_formed_hessian(
    kind, options, narrow, monkeypatch, swept
):
    X, y = hostile(kind)
    options, rng = dict(options), np.random.default_rng(0)
    if options.pop("weight", False):
        options["sample_weight"] = rng.exponential(1.0, len(y)) * (rng.random(len(y)) < 0.7)
    if options.pop("offset", False):
        options["offset"] = 0.5 * rng.standard_normal(len(y))
    C = strength(X, y, 0.05)
    model = fit(X, y, C, **options)
    assert swept
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 2000)
    formed = fit(X, y, C, **options)
    assert model.report_.relative_gap <= TOL
    assert model.report_.objective == pytest.approx(formed.report_.objective, rel=2 * TOL)
    if kind != "copies":  # which has many optima
        np.testing.assert_allclose(model.coef_, formed.coef_, atol=0.02)


def test_a_penalty_that_leaves_no_coefficient_asks_for_no_sweep(data, swept):
    X, y = data
    model = fit(X, y, 0.9 * strength(X, y, 1.0))
    assert not model.coef_.any()
    assert model.report_.converged
    assert not swept


def test_chunks_of_a_dask_array_are_swept_as_one(data, swept):
    X, y = data
    C = strength(X, y, 0.02)
    chunks = [slice(0, 1500), slice(1500, 4000)]
    lazy = da.concatenate(
        [da.from_array(X[rows].toarray(), chunks=-1).map_blocks(sp.csr_matrix) for rows in chunks]
    )
    model = fit(lazy, da.from_array(y, chunks=((1500, 2500),)), C)
    assert swept
    whole = fit(X, y, C)
    assert model.report_.objective == pytest.approx(whole.report_.objective, rel=2 * TOL)
    assert model.report_.relative_gap <= TOL


@pytest.mark.slow
def test_workers_go_by_products(client, data, swept):
    X, y = data
    C = strength(X, y, 0.02)
    lazy = da.from_array(X.toarray(), chunks=(2000, -1)).map_blocks(sp.csr_matrix)
    model = fit(lazy, da.from_array(y, chunks=2000), C, client=client)
    assert model.report_.workers == 2
    assert not swept
    assert model.report_.relative_gap <= TOL
    assert model.report_.objective == pytest.approx(fit(X, y, C).report_.objective, rel=2 * TOL)


def test_hinges_have_the_optimum_of_formed_hessians(monkeypatch, swept):
    X, y = topics(400, 300, per_row=8, count=4, seed=2)
    C = 1.0 / (0.1 * np.abs(X.T @ y).max())
    how = {"loss": "hinge", "C": C, "l1_ratio": 1.0, "solver": "proximal", "tol": 1e-6}
    formed = daskglm.fit(X, y, **how).report_
    assert not swept
    monkeypatch.setattr(kinked_steps, "MOST_FORMED", 1)
    found = daskglm.fit(X, y, **how).report_
    assert swept
    assert found.relative_gap <= 1e-6
    assert found.objective == pytest.approx(formed.objective, rel=2e-6)
