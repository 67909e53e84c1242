"""Proved gaps of losses with corners and penalties, against optima of linear programs."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

import daskglm
from daskglm.core.requests import Problem, SDCAConfig
from daskglm.data.blocks import Place, to_block
from daskglm.duals.corrected import Corrected
from daskglm.duals.dual import Dual
from daskglm.engines.local import Local
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import objective_of
from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers import costs, kinked_steps
from tests.covering import covering, each_choice

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


def optimum(loss, X, y, C, s, intercept=True, factors=1.0, lower=-np.inf, upper=np.inf):
    """The least value, by HiGHS: w, t >= |w|, and what is above and below the corners."""
    below, above, free = LOSSES[loss]
    n, d = X.shape
    signs = np.where(y > np.median(y), 1.0, -1.0) if loss == "hinge" else np.ones(n)
    target = np.ones(n) if loss == "hinge" else y
    Z = np.hstack([X, np.ones((n, 1))]) * signs[:, None]
    eye, none = np.eye(n), np.zeros((n, d))
    A = np.hstack([Z, none, eye, -eye, eye])
    costs = [np.zeros(d + 1), factors * np.ones(d), C * s * above, C * s * below, np.zeros(n)]
    sides = np.zeros((2 * d, A.shape[1]))
    sides[:d, :d], sides[d:, :d] = np.eye(d), -np.eye(d)
    sides[:, d + 1 : 2 * d + 1] = -np.vstack([np.eye(d)] * 2)
    ends = np.broadcast_to(lower, d), np.broadcast_to(upper, d)
    constant = (None, None) if intercept else (0, 0)
    bounds = [*zip(*ends, strict=True), constant]
    bounds += [(0, None)] * (d + 2 * n) + [(-free, free)] * n
    found = scipy.optimize.linprog(
        np.concatenate(costs),
        A_eq=A,
        b_eq=target,
        A_ub=sides,
        b_ub=np.zeros(2 * d),
        bounds=bounds,
        method="highs",
    )
    assert found.success, found.message
    return found.fun


def labels(loss, y):
    return (y > np.median(y)).astype(int) if loss == "hinge" else y


def assert_gaps_are_bounds(X, y, least, stops, **how):
    """Fits that stop after so many iterations are above the least value by no more than they say; the last is solved."""
    for most in stops:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = daskglm.fit(X, labels(how["loss"], y), tol=1e-8, max_iter=most, **how)
        report = model.report_
        excess = report.objective - least
        assert excess <= report.relative_gap * least + 1e-9 * least
        assert excess >= -1e-9 * least
    assert report.relative_gap <= 1e-6
    assert report.solver == "proximal"


@each_choice
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hard", ["", "copies", "offsets", "scales", "zeros"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_gap_of_every_iteration_is_a_bound(loss, hard, seed):
    X, y, s = rows(seed, hard=hard)
    C = 10.0 ** np.random.default_rng(seed).uniform(-1.5, 0.5)
    least = optimum(loss, X, y, C, s)
    how = {"loss": loss, "l1_ratio": 1.0, "C": C, "sample_weight": s}
    assert_gaps_are_bounds(X, y, least, (1, 2, 4, None), **how)


# strengths and bounds of six features; those of "free" and after leave some without either
FREE = np.array([0.0, 1.0, 0.5, 2.0, 0.0, 1.0])
KINDS = {
    "factors": {"factors": np.array([0.3, 1.0, 0.5, 2.0, 0.1, 1.0])},
    "positive": {"lower": 0.0},
    "box": {"lower": -0.2, "upper": np.array([0.3, -0.05, 0.3, 0.3, 0.3, 0.3])},
    "box of free ones": {"factors": FREE, "lower": -0.2, "upper": 0.3},
    "free": {"factors": FREE},
    "free above a bound": {"factors": FREE, "lower": np.array([0.1, 0.0, *[-np.inf] * 4])},
    "free below a bound": {"factors": FREE, "upper": np.array([-0.3, *[np.inf] * 5])},
}
HARD = ["", "offsets", "scales"]


@covering(1, intercept=[True, False], kind=KINDS, loss=LOSSES, hard=HARD)
def test_factors_and_bounds(loss, kind, intercept, hard):
    if loss == "hinge" and kind.startswith("free"):
        pytest.skip("refused")
    seed = HARD.index(hard)
    X, y, s = rows(seed, hard=hard)
    C = 10.0 ** np.random.default_rng(seed).uniform(-1.5, 0.5)
    least = optimum(loss, X, y, C, s, intercept, **KINDS[kind])
    given = {"l1_ratio": 1.0, "C": C, "sample_weight": s, "fit_intercept": intercept}
    names = {"factors": "penalty_factor", "lower": "lower_bounds", "upper": "upper_bounds"}
    given |= {names[name]: value for name, value in KINDS[kind].items()}
    assert_gaps_are_bounds(X, y, least, (1, 3, None), loss=loss, **given)


@pytest.mark.parametrize("loss", [*list(LOSSES)[:3]])
def test_bounds_alone(loss):
    """Least absolute deviations with coefficients that are not negative, or in a box."""
    X, y, s = rows(11)
    for bounds in ({"lower": 0.0}, {"lower": -0.1, "upper": 0.2}):
        least = optimum(loss, X, y, 1.0, s, factors=0.0, **bounds)
        given = {f"{name}_bounds": value for name, value in bounds.items()}
        model = daskglm.fit(X, y, loss=loss, C=np.inf, sample_weight=s, tol=1e-8, **given)
        assert model.report_.relative_gap <= 1e-8
        assert model.report_.objective == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_quadratic_penalties_that_differ_among_features(loss):
    """They are the plain one, of columns that are multiplied by a matrix."""
    X, y, s = rows(12, n=200)
    rng = np.random.default_rng(12)
    factors, B = rng.uniform(0.1, 3.0, 6), rng.standard_normal((6, 6))
    P = B @ B.T / 6.0 + 0.01 * np.eye(6)
    how = {"loss": loss, "C": 0.3, "sample_weight": s, "tol": 1e-8}
    for root, given in (
        (np.diag(np.sqrt(factors)), {"penalty_factor": factors}),
        (np.linalg.cholesky(P).T, {"P2": P}),
    ):
        inverse = np.linalg.inv(root)
        expected = daskglm.fit(X @ inverse, labels(loss, y), **how)
        found = daskglm.fit(X, labels(loss, y), **how, **given)
        assert found.report_.relative_gap <= 1e-8
        assert found.report_.objective == pytest.approx(expected.report_.objective, rel=2e-8)
        coef = inverse @ np.ravel(expected.coef_)
        np.testing.assert_allclose(np.ravel(found.coef_), coef, atol=1e-3)


@each_choice
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize(
    "given",
    [
        {"l1_ratio": 1.0, "groups": [[0, 3], [1, 2, 5]]},
        {"l1_ratio": 0.5, "groups": [[0, 3], [1, 2, 5]], "penalty_factor": [1, 2, 2, 1, 0.5, 2]},
        {"l1_ratio": 0.5, "standardize": True},
        {"l1_ratio": 0.0, "standardize": True, "lower_bounds": -0.1, "upper_bounds": 0.2},
        {"l1_ratio": 0.5, "P2": np.eye(6) + 0.5, "lower_bounds": 0.0},
    ],
    ids=lambda given: "-".join(given),
)
def test_early_points_are_no_farther_from_the_best_than_they_say(loss, given):
    X, y, s = rows(13, hard="scales" if "standardize" in given else "")
    how = {"loss": loss, "C": 0.3, "sample_weight": s, **given}
    best = daskglm.fit(X, labels(loss, y), tol=1e-8, **how).report_
    assert best.relative_gap <= 1e-8
    for most in (1, 2, 3, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = daskglm.fit(X, labels(loss, y), tol=1e-8, max_iter=most, **how).report_
        excess = report.objective - best.objective
        assert -1e-8 * best.objective <= excess
        assert excess <= report.relative_gap * best.objective + 1e-9 * best.objective


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


def dual_of(X, y, C, **given):
    loss = "quantile(0.5)"
    settings = FitConfig(loss, C=C, penalty=PenaltyConfig(**{"l1_ratio": 1.0, **given}))
    engine = Local([to_block(X, y, place=Place(), classify=False)], 1)
    known = find(loss)
    objective = objective_of(engine, Problem(known.ref), (float(len(y)), 0.0), known, settings)
    return Dual(objective, objective.origin, SDCAConfig(), 0, corrected=Corrected(objective))


@pytest.mark.parametrize("width", [1.0, 0.01])
@pytest.mark.parametrize("kind", list(KINDS))
def test_any_point_has_a_dual_value_below_the_optimum(kind, width):
    """Wherever slopes come from, they are made feasible."""
    X, y, s = rows(5)
    least = optimum("quantile(0.5)", X, y, 0.2, np.ones(len(y)), **KINDS[kind])
    names = {"factors": "penalty_factor", "lower": "lower_bounds", "upper": "upper_bounds"}
    given = {names[name]: value for name, value in KINDS[kind].items()}
    dual, rng = dual_of(X, y, 0.2, **given), np.random.default_rng(0)
    dual.start_point()
    for size in (0.0, 0.1, 1.0, 10.0):
        w = dual.objective.penalty.kinks.clip(size * rng.standard_normal(7))
        dual.adopt(dual.smoothed(width), w)
        point = dual.certified_point(w)
        assert 0.0 <= dual.met.dual <= least * (1.0 + 1e-12)
        assert point.value >= least * (1.0 - 1e-12)


def test_columns_that_depend_on_each_other_prove_nothing_without_a_penalty():
    X, y, _ = rows(6, hard="copies")
    with pytest.warns(ConvergenceWarning, match="the duality gap falls no further"):
        model = daskglm.fit(X, y, loss="quantile(0.5)", C=np.inf, lower_bounds=0.0)
    assert model.report_.relative_gap == np.inf


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


@pytest.mark.slow
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
    two = y > np.median(y)
    free = {"l1_ratio": 1.0, "penalty_factor": [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]}
    with pytest.raises(ValueError, match="wants a penalty of each feature.* feature 1 and 1 more"):
        daskglm.fit(X, two, loss="hinge", **free)
    objective = dual_of(X, y, 1.0, penalty_factor=free["penalty_factor"]).objective
    objective.loss = find("hinge")
    with pytest.raises(ValueError, match="wants a penalty of all features, or bounds"):
        Corrected(objective)
    wide = sp.random(50, 2001, 0.1, format="csr", random_state=0)
    factors = np.ones(2001)
    factors[7] = 0.0
    with pytest.raises(ValueError, match="up to 2,000 features if some.* feature 7; X has 2,001"):
        daskglm.QuantileRegressor(penalty_factor=factors).fit(wide, y[:50])


# ---- working sets
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.slow
def test_more_features_than_rows(loss):
    X, y, s = rows(14, n=60, d=200)
    for C in (0.05, 0.3):
        least = optimum(loss, X, y, C, s)
        how = {"loss": loss, "l1_ratio": 1.0, "C": C, "sample_weight": s, "tol": 1e-7}
        report = daskglm.fit(X, labels(loss, y), **how).report_
        assert report.relative_gap <= 1e-7
        assert report.objective == pytest.approx(least, rel=2e-7)


@covering(
    1,
    most=[1, 1000],
    given=[
        {"l1_ratio": 1.0},
        {"l1_ratio": 0.7, "penalty_factor": np.linspace(0.5, 2.0, 30)},
        {"l1_ratio": 1.0, "groups": [[k, k + 1, k + 2] for k in range(0, 30, 3)]},
        {"l1_ratio": 0.0, "lower_bounds": 0.0},
        {"l1_ratio": 1.0, "upper_bounds": 0.1},
    ],
    loss=["quantile(0.3)", "hinge"],
)
def test_working_sets_find_the_same_optimum(loss, given, most, monkeypatch):
    """By Hessians of their features, or by products with them."""
    X, y, s = rows(15, n=150, d=30)
    how = {"loss": loss, "C": 0.1, "sample_weight": s, "tol": 1e-7, **given}
    expected = daskglm.fit(X, labels(loss, y), **how).report_
    monkeypatch.setattr(kinked_steps, "FIRST_SET", 3)
    monkeypatch.setattr(kinked_steps, "MOST_FORMED", most)
    found = daskglm.fit(X, labels(loss, y), **how).report_
    assert found.relative_gap <= 1e-6
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)


@pytest.mark.nightly
def test_working_sets_of_every_storage_and_place(client):
    """Workers copy the columns of a set, and the centre of a proximal step goes with them."""
    X, y, s = rows(16, n=400, d=120)
    how = {"loss": "quantile(0.7)", "l1_ratio": 1.0, "C": 0.2, "tol": 1e-7}
    expected = daskglm.fit(X, y, sample_weight=s, **how)
    assert expected.report_.relative_gap <= 1e-7
    chunks = [da.from_array(each, chunks=(100, *each.shape[1:])) for each in (X, y, s)]
    for given, more in (
        ((sp.csr_matrix(X), y, s), {}),
        (chunks, {}),
        (chunks, {"out_of_core": True}),
    ):
        model = daskglm.fit(*given[:2], sample_weight=given[2], **how, **more)
        assert model.report_.relative_gap <= 1e-7
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


def test_working_sets_begin_on_samples(monkeypatch):
    X, y, s = rows(22, n=20_000, d=60)
    how = {"loss": "quantile(0.6)", "l1_ratio": 1.0, "C": 0.01, "sample_weight": s, "tol": 1e-7}
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 10**9)
    expected = daskglm.fit(X, y, **how).report_
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 0)
    found = daskglm.fit(X, y, **how).report_
    assert found.relative_gap <= 1e-7
    assert found.passes != expected.passes
    assert found.objective == pytest.approx(expected.objective, rel=2e-7)


@pytest.mark.nightly
def test_elastic_nets_of_many_features_are_finished_by_proximal_points():
    X, y, s = rows(17, n=300, d=2100)
    how = {"loss": "quantile(0.5)", "l1_ratio": 0.9, "C": 0.1, "sample_weight": s}
    report = daskglm.fit(X, y, **how).report_
    assert report.relative_gap <= 1e-6
    alone = daskglm.fit(X, y, solver="proximal", **how).report_
    assert report.objective == pytest.approx(alone.objective, rel=2e-6)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_dual_ascent_of_an_elastic_net_is_finished_by_proximal_points(C):
    X, y, _ = rows(10, n=400)
    X[:, 0] = 2000.0 + 5.0 * X[:, 0]
    model = daskglm.LinearSVC(loss="hinge", l1_ratio=0.5, C=C).fit(X, y > np.median(y))
    assert model.report_.relative_gap <= 1e-6


@covering(1, first=[2, 50], kind=["factors", "box", "free"], loss=["quantile(0.5)", "hinge"])
def test_on_a_device(cupy, monkeypatch, loss, kind, first):
    if loss == "hinge" and kind == "free":
        pytest.skip("refused")
    X, y, _ = rows(18, n=200)
    names = {"factors": "penalty_factor", "lower": "lower_bounds", "upper": "upper_bounds"}
    given = {names[name]: value for name, value in KINDS[kind].items()}
    how = {"loss": loss, "l1_ratio": 1.0, "C": 0.1, "tol": 1e-4, **given}
    here = daskglm.fit(X, labels(loss, y), **how).report_
    monkeypatch.setattr(kinked_steps, "FIRST_SET", first)
    there = daskglm.fit(X, labels(loss, y), device="cuda", **how).report_
    assert there.device == "cuda"
    assert there.relative_gap <= 1e-4
    assert there.objective == pytest.approx(here.objective, rel=2e-4)


@pytest.mark.parametrize("family", ["quantile(0.5)", "epsilon_insensitive(0.2)"])
def test_folds_train_on_their_own_rows(family):
    """Proximal steps, too, leave out the rows of a fold."""
    X, y, _ = rows(19, n=120)
    alphas = [0.1, 0.001]
    model = daskglm.GeneralizedLinearRegressorCV(family, alphas=alphas, cv=3, tol=1e-9).fit(X, y)
    assert model.report_.converged
    for fold, (train, _) in enumerate(KFold(3).split(X)):
        for k, alpha in enumerate(model.alphas_):
            alone = daskglm.GeneralizedLinearRegressor(family, alpha=alpha, tol=1e-9)
            alone.fit(X[train], y[train])
            np.testing.assert_allclose(model.coef_path_[k, fold], alone.coef_, atol=1e-4)


def test_paths_and_folds_with_kinks_are_refused():
    X, y, _ = rows(21)
    with pytest.raises(ValueError, match="family='quantile.* has corners, and a path of an L1"):
        daskglm.GeneralizedLinearRegressorCV("quantile(0.5)", l1_ratio=0.5).fit(X, y)
