"""Proved gaps of losses with corners and an L1 penalty, against optima of linear programs."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import daskglm
from daskglm.core.requests import Problem, SDCAConfig
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import objective_of
from daskglm.losses.table import find
from daskglm.objectives.lasso_dual import LassoDual
from daskglm.objectives.proximal_step import smoothed
from daskglm.penalties.config import PenaltyConfig

# slopes of the loss below and above zero of what its rows compare, and what is free of cost
LOSSES = {
    "quantile(0.5)": (0.5, 0.5, 0.0),
    "quantile(0.9)": (0.1, 0.9, 0.0),
    "epsilon_insensitive(0.3)": (1.0, 1.0, 0.3),
    "hinge": (0.0, 1.0, 0.0),
}


def rows(seed, n=80, d=6, *, hard=""):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, : d // 2] @ rng.standard_normal(d // 2) + rng.standard_t(3, n) + 2.0
    if hard == "copies":
        X[:, -1], X[:, -2] = X[:, 0], 1.0
    if hard == "offsets":
        X += 10.0 ** rng.uniform(0, 2, d)
    if hard == "scales":
        X *= 10.0 ** rng.uniform(-2, 2, d)
    if hard == "zeros":
        X[:, 1] = 0.0
    return X, y, rng.uniform(0.2, 2.0, n)


def optimum(loss, X, y, C, s, intercept=True):
    """The least value, by HiGHS: w = p - q, and what is above and below the corners."""
    below, above, free = LOSSES[loss]
    n, d = X.shape
    signs = np.where(y > np.median(y), 1.0, -1.0) if loss == "hinge" else np.ones(n)
    target = np.ones(n) if loss == "hinge" else y
    Z = np.hstack([X, np.ones((n, int(intercept)))]) * signs[:, None]
    A = np.hstack([Z, -Z, np.eye(n), -np.eye(n), np.eye(n)])
    strength = np.append(np.ones(d), np.zeros(int(intercept)))
    costs = np.concatenate([strength, strength, C * s * above, C * s * below, np.zeros(n)])
    bounds = [(0, None)] * (len(costs) - n) + [(-free, free)] * n
    found = scipy.optimize.linprog(costs, A_eq=A, b_eq=target, bounds=bounds, method="highs")
    assert found.success
    return found.fun


def labels(loss, y):
    return (y > np.median(y)).astype(int) if loss == "hinge" else y


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hard", ["", "copies", "offsets", "scales", "zeros"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_gap_of_every_iteration_is_a_bound(loss, hard, seed):
    X, y, s = rows(seed, hard=hard)
    C = 10.0 ** np.random.default_rng(seed).uniform(-1.5, 0.5)
    least = optimum(loss, X, y, C, s)
    how = {"loss": loss, "l1_ratio": 1.0, "C": C, "sample_weight": s}
    for most in (1, 2, 4, None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = daskglm.fit(X, labels(loss, y), tol=1e-8, max_iter=most, **how)
        report = model.report_
        excess = report.objective - least
        assert excess <= report.relative_gap * least + 1e-9 * least
        assert excess >= -1e-9 * least
    assert report.relative_gap <= 1e-6
    assert report.solver == "proximal"


@pytest.mark.parametrize("loss", list(LOSSES))
def test_without_an_intercept(loss):
    X, y, s = rows(3)
    least = optimum(loss, X, y, 0.1, s, intercept=False)
    how = {"loss": loss, "l1_ratio": 1.0, "C": 0.1, "sample_weight": s, "fit_intercept": False}
    report = daskglm.fit(X, labels(loss, y), tol=1e-9, **how).report_
    assert report.objective == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("loss", ["quantile(0.7)", "epsilon_insensitive(0.2)", "hinge"])
def test_an_elastic_net_has_the_optimum_of_dual_ascent(loss):
    X, y, s = rows(4, n=300)
    how = {"loss": loss, "l1_ratio": 0.6, "C": 0.05, "sample_weight": s, "tol": 1e-7}
    found, expected = (
        daskglm.fit(X, labels(loss, y), solver=solver, **how) for solver in ("proximal", "sdca")
    )
    assert found.report_.relative_gap <= 1e-7
    assert found.report_.objective == pytest.approx(expected.report_.objective, rel=2e-7)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-3)


def dual_of(X, y, C, l1_ratio=1.0):
    loss = "quantile(0.5)"
    settings = FitConfig(loss, C=C, penalty=PenaltyConfig(l1_ratio=l1_ratio))
    engine = Local([to_block(X, y, place=Place(), classify=False)], 1)
    known = find(loss)
    objective = objective_of(engine, Problem(known.ref), (float(len(y)), 0.0), known, settings)
    return LassoDual(objective, objective.origin, SDCAConfig(), 0)


@pytest.mark.parametrize("width", [1.0, 0.01])
def test_any_point_has_a_dual_value_below_the_optimum(width):
    """Wherever slopes come from, they are balanced and scaled until they are feasible."""
    X, y, s = rows(5)
    least = optimum("quantile(0.5)", X, y, 0.2, np.ones(len(y)))
    dual, rng = dual_of(X, y, 0.2), np.random.default_rng(0)
    dual.start_point()
    for size in (0.0, 0.1, 1.0, 10.0):
        w = size * rng.standard_normal(7)
        dual.adopt(smoothed(dual, width), w)
        point = dual.certified_point(w)
        assert 0.0 <= dual.reached <= least * (1.0 + 1e-12)
        assert point.value >= least * (1.0 - 1e-12)


def test_scikit_learns_quantile_regressor_has_the_same_problem():
    from sklearn.linear_model import QuantileRegressor

    X, y, s = rows(6, n=200)
    for quantile, alpha in ((0.5, 0.1), (0.9, 0.03)):
        theirs = QuantileRegressor(quantile=quantile, alpha=alpha).fit(X, y, s)
        model = daskglm.QuantileRegressor(quantile=quantile, alpha=alpha, tol=1e-10).fit(X, y, s)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-8)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-8)
        np.testing.assert_array_equal(model.coef_ == 0.0, np.abs(theirs.coef_) < 1e-12)


def test_a_penalty_that_leaves_no_feature():
    X, y, _ = rows(7)
    model = daskglm.QuantileRegressor(alpha=100.0).fit(X, y)
    assert not model.coef_.any()
    assert model.report_.relative_gap <= 1e-7
    assert (y < model.intercept_).mean() == pytest.approx(0.5, abs=0.02)


def test_rows_of_every_storage_and_place(client):
    X, y, s = rows(8, n=800)
    how = {"quantile": 0.7, "alpha": 0.02, "tol": 1e-8}
    expected = daskglm.QuantileRegressor(**how).fit(X, y, s)
    chunks = [da.from_array(each, chunks=(200, *each.shape[1:])) for each in (X, y, s)]
    for given in ((sp.csr_matrix(X), y, s), chunks):
        model = daskglm.QuantileRegressor(**how).fit(*given)
        assert model.report_.relative_gap <= 1e-8
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-5)
    assert model.report_.workers == 2
    streamed = daskglm.fit(
        *chunks[:2],
        sample_weight=chunks[2],
        loss="quantile(0.7)",
        l1_ratio=1.0,
        alpha=None,
        C=1.0 / (0.02 * s.sum()),
        out_of_core=True,
        tol=1e-8,
    )
    np.testing.assert_allclose(streamed.coef_, expected.coef_, atol=1e-5)


def test_what_it_is_not_for_is_refused():
    X, y, _ = rows(9)
    for given in ({"penalty_factor": np.arange(6.0)}, {"positive": True}, {"standardize": True}):
        with pytest.raises(ValueError, match=r"with loss='quantile\(0.5\)' is not implemented"):
            daskglm.fit(X, y, loss="quantile(0.5)", l1_ratio=1.0, **given)
    wide = sp.random(50, 2001, 0.1, format="csr", random_state=0)
    with pytest.raises(
        ValueError, match=r"up to 2,000 features, and X has 2,001; give an l1_ratio"
    ):
        daskglm.QuantileRegressor().fit(wide, y[:50])
    with pytest.raises(ValueError, match="an L1 penalty of all features, and no other"):
        dual_of(X, y, 1.0, l1_ratio=0.5)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_dual_ascent_of_an_elastic_net_is_finished_by_proximal_points(C):
    X, y, _ = rows(10, n=400)
    X[:, 0] = 2000.0 + 5.0 * X[:, 0]
    model = daskglm.LinearSVC(loss="hinge", l1_ratio=0.5, C=C).fit(X, y > np.median(y))
    assert model.report_.relative_gap <= 1e-6
