"""`OrdinalRegression` with probit and complementary log-log links: other packages, data, files."""

import math
import re

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm import GeneralizedLinearRegressor
from daskglm.core.decisions import ordinal_log_probabilities
from tests.covering import each_choice
from tests.estimators.test_ordinal import housing
from tests.objectives.ordinal_objectives import rows

LINKS = ["probit", "cloglog"]
DISTRIBUTIONS = {"probit": scipy.stats.norm, "cloglog": scipy.stats.gumbel_l}


def model_of(link, C=np.inf, tol=1e-12, **more):
    return daskglm.OrdinalRegression(C=C, link=link, tol=tol, **more)


def value_of(X, y, link, params, s=1.0, C=1.0, strength=0.0, offset=0.0):
    """The objective from the probabilities of predictions."""
    d = X.shape[1]
    log = ordinal_log_probabilities(params[d:], X @ params[:d] + offset, link)
    return 0.5 * strength * params[:d] @ params[:d] - C * np.sum(s * log[np.arange(len(y)), y])


def information(f, at, h=1e-4):
    """The Hessian of f by differences."""
    E = h * np.eye(len(at))
    return np.array(
        [
            [
                (f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (4 * h * h)
                for b in E
            ]
            for a in E
        ]
    )


# ---- what others have published, and compute
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_housing_is_polr_s_probit(solver):
    X, y, freq = housing()
    model = model_of("probit", tol=1e-9, solver=solver).fit(X, y, freq)
    # update(house.plr, method = "probit"), help(polr) of MASS
    published = [0.3464, 0.7829, -0.3475, -0.2179, -0.6642, 0.2224]
    np.testing.assert_allclose(model.coef_, published, atol=6e-5)
    np.testing.assert_allclose(model.thresholds_, [-0.2998, 0.4267], atol=6e-5)
    assert model.report_.deviance == pytest.approx(3479.689, abs=6e-4)
    assert model.report_.aic == pytest.approx(3495.689, abs=6e-4)
    assert math.isnan(model.report_.relative_gap)
    assert model.report_.converged


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_statsmodels_finds_the_same(link, moved):
    miscmodels = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    X, y = rows(3, n=500)
    offset = 0.5 * np.random.default_rng(0).standard_normal(len(y)) if moved else None
    theirs = miscmodels.OrderedModel(y, X, distr=DISTRIBUTIONS[link], offset=offset)
    found = theirs.fit(method="newton", disp=False, maxiter=100)
    model = model_of(link).fit(X, y, offset=offset)
    np.testing.assert_allclose(model.coef_, found.params[:4], rtol=1e-6, atol=1e-7)
    thresholds = theirs.transform_threshold_params(found.params)[1:-1]
    np.testing.assert_allclose(model.thresholds_, thresholds, rtol=1e-6, atol=1e-7)
    assert model.report_.log_likelihood == pytest.approx(found.llf, rel=1e-10)
    assert model.report_.aic == pytest.approx(found.aic, rel=1e-10)
    p = model.predict_proba(X, offset=offset)
    np.testing.assert_allclose(p, found.predict(X, offset=offset), atol=1e-7)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    inference = model.inference(X, y, offset=offset)
    np.testing.assert_allclose(inference.bse[:4], found.bse[:4], rtol=1e-5)


@pytest.mark.parametrize("link", LINKS)
def test_standard_errors_are_those_of_the_likelihood(link):
    X, y = rows(4, n=400)
    s = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = model_of(link).fit(X, y, s)
    found = model.inference(X, y, s)
    at = found.params.to_numpy()
    hessian = information(lambda v: value_of(X, y, link, v, s), at)
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(np.linalg.inv(hessian))), rtol=1e-5)
    name = {"probit": r"Phi\(t - x.w\)", "cloglog": r"1 - exp\(-exp\(t - x.w\)\)"}[link]

    assert re.search(f"= {name}[.]", str(found.summary()))
    robust = model.inference(X, y, s, covariance="HC0")
    h, p = 1e-5, len(at)
    each = np.stack(
        [
            (_losses(X, y, link, at + h * e) - _losses(X, y, link, at - h * e)) / (2 * h)
            for e in np.eye(p)
        ],
        axis=1,
    )
    meat = (s[:, None] * each).T @ (s[:, None] * each)
    inverse = np.linalg.inv(hessian)
    expected = np.sqrt(np.diag(inverse @ meat @ inverse))
    np.testing.assert_allclose(robust.bse, expected, rtol=1e-5)


def _losses(X, y, link, params):
    d = X.shape[1]
    log = ordinal_log_probabilities(params[d:], X @ params[:d], link)
    return -log[np.arange(len(y)), y]


@pytest.mark.parametrize("C", [0.3, np.inf])
@pytest.mark.parametrize("link", LINKS)
def test_two_classes_are_a_binomial_regression(link, C):
    X, y = rows(4, K=2)
    model = model_of(link, C).fit(X, y)
    # the probability of the first class is F(t - x.w), of the second one by the probit Phi(x.w - t)
    sign, targets = (1.0, y) if link == "probit" else (-1.0, 1 - y)
    alpha = 0.0 if np.isinf(C) else 1.0 / (C * len(y))
    binomial = GeneralizedLinearRegressor("binomial", link=link, alpha=alpha, tol=1e-13)
    binomial.fit(X, targets.astype(float))
    np.testing.assert_allclose(model.coef_, sign * binomial.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.thresholds_, -sign * binomial.intercept_, rtol=1e-6)
    second = binomial.predict(X) if link == "probit" else 1.0 - binomial.predict(X)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], second, atol=1e-7)


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd"])
@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("link", LINKS)
def test_every_solver_reaches_the_penalised_optimum(link, C, solver):
    X, y = rows(5, K=5)
    model = model_of(link, C, tol=1e-10, solver=solver).fit(X, y)
    assert model.report_.converged
    assert math.isnan(model.report_.relative_gap)
    best = model_of(link, C, tol=1e-14, solver="newton").fit(X, y)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-4)
    at = np.append(best.coef_, best.thresholds_)
    value = value_of(X, y, link, at, C=C, strength=1.0)
    assert best.report_.objective == pytest.approx(value, rel=1e-12)
    for e in 1e-3 * np.vstack([np.eye(len(at)), -np.eye(len(at))]):
        assert value_of(X, y, link, at + e, C=C, strength=1.0) > value


@pytest.mark.parametrize("penalty", [{"l1_ratio": 1.0}, {"l1_ratio": 0.5, "upper_bounds": 0.3}])
@pytest.mark.parametrize("link", LINKS)
def test_lasso_and_bounds(link, penalty):
    X, y = rows(6, n=300, d=6)
    C, r = 0.05, penalty["l1_ratio"]
    found = {
        solver: model_of(link, C, tol=1e-11, solver=solver, **penalty).fit(X, y)
        for solver in ("auto", "proximal_newton", "owlqn")
        if solver != "owlqn" or len(penalty) == 1
    }
    w = found["auto"].coef_
    t = found["auto"].thresholds_
    for model in found.values():
        assert model.report_.converged
        np.testing.assert_allclose(model.coef_, w, atol=1e-4)
    h = 1e-6
    slopes = np.array(
        [
            np.diff([value_of(X, y, link, np.append(w + s * e, t), C=C) for s in (-h, h)])[0]
            / (2 * h)
            for e in np.eye(6)
        ]
    )
    slopes += (1 - r) * w
    free = (w != 0.0) & (w < penalty.get("upper_bounds", np.inf))
    np.testing.assert_allclose(slopes[free], -r * np.sign(w[free]), atol=1e-4)
    assert (np.abs(slopes[w == 0.0]) <= r + 1e-6).all()
    assert (w == 0.0).any()


def test_weights_are_repeated_rows_and_weightless_classes_have_no_probability():
    X, y = rows(5, K=4)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = model_of("probit", 1.0).fit(X, y, times.astype(float))
    repeated = model_of("probit", 1.0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    for link in LINKS:
        for empty in (0, 1, 3):
            model = model_of(link, 1.0).fit(X, y, (y != empty).astype(float))
            assert model.predict_proba(X)[:, empty].max() < 1e-12
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_an_offset_moves_thresholds_and_a_probit_reverses():
    X, y = rows(7)
    for link in LINKS:
        plain = model_of(link, 1.0).fit(X, y)
        moved = model_of(link, 1.0).fit(X, y, offset=np.full(len(y), 3.5))
        np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6)
        np.testing.assert_allclose(moved.thresholds_, plain.thresholds_ + 3.5, rtol=1e-6)
    plain, other = (model_of("probit", 1.0).fit(X, sign * y) for sign in (1, -1))
    np.testing.assert_allclose(other.coef_, -plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.thresholds_, -plain.thresholds_[::-1], rtol=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_extreme_margins_are_fitted_and_predicted(link):
    X, y = rows(8)
    X = X.copy()
    X[:5] *= 1e3
    model = model_of(link, 1e3, tol=1e-6).fit(X, y)
    assert model.report_.converged
    far = model.predict_proba(1e8 * X)
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    assert not np.isnan(model.predict_log_proba(1e200 * X)).any()
    log = model.predict_log_proba(X[5:])
    np.testing.assert_allclose(log, np.log(model.predict_proba(X[5:])), rtol=1e-9)
    assert (model.classes_[log.argmax(axis=1)] == model.predict(X[5:])).all()
    assert model.score(X, y) == (model.predict(X) == y).mean()


# ---- data
@pytest.mark.parametrize("link", LINKS)
def test_containers_and_float32(link):
    X, y = rows(10, n=600)
    X32 = X.astype(np.float32)
    expected = model_of(link, 1.0).fit(X32.astype(float), y)
    lazy = da.from_array(X32, chunks=(170, 4)), da.from_array(y, chunks=170)
    for data in ((X32, y), (sp.csr_matrix(X32), y), lazy):
        for solver in ("newton", "lbfgs"):
            model = model_of(link, 1.0, tol=1e-11, solver=solver).fit(*data)
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-5)
            p = np.asarray(model.predict_proba(data[0]))
            np.testing.assert_allclose(p, expected.predict_proba(X), atol=1e-5)


@each_choice
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
@pytest.mark.parametrize("out_of_core", [False, True])
def test_a_cluster_finds_what_one_process_finds(client, solver, out_of_core):
    X, y = rows(10, n=600)
    lazy = da.from_array(X, chunks=(170, 4)), da.from_array(y, chunks=170)
    how = {"family": "ordinal", "link": "probit", "C": 1.0, "tol": 1e-11, "solver": solver}
    expected = model_of("probit", 1.0).fit(X, y)
    model = daskglm.fit(*lazy, out_of_core=out_of_core, **how)
    assert model.report_.workers == 2
    assert model.link == "probit"
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, atol=1e-5)
    unpenalised = model_of("probit").fit(*lazy)
    found = unpenalised.inference(*lazy)
    here = model_of("probit").fit(X, y).inference(X, y)
    np.testing.assert_allclose(found.bse, here.bse, rtol=1e-7)
    assert unpenalised.score(*lazy) == pytest.approx(unpenalised.score(X, y))


def test_a_file_holds_link_and_record(tmp_path):
    X, y = rows(11)
    model = model_of("cloglog", 1.0).fit(X, y)
    assert model.record_.loss == "ordinal_cloglog"
    # parameters set after a fit change nothing
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.set_params(link="probit").predict_proba(X), p)
    model.set_params(link="cloglog")
    daskglm.save(model, tmp_path / "m.json")
    again = daskglm.load(tmp_path / "m.json")
    assert (again.link, again.record_.loss) == ("cloglog", "ordinal_cloglog")
    np.testing.assert_array_equal(again.predict_proba(X), p)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_warm_starts_and_checkpoints(tmp_path):
    X, y = rows(12)
    model = model_of("probit", 1.0, tol=1e-9, warm_start=True, solver="lbfgs").fit(X, y)
    steps = model.report_.n_iter
    assert model.fit(X, y).report_.n_iter < steps
    how = {"loss": "ordinal_probit", "solver": "lbfgs", "tol": 1e-10}
    whole = daskglm.fit(X, y, **how)
    with pytest.warns(ConvergenceWarning, match="stopped before tol"):
        daskglm.fit(X, y, checkpoint=tmp_path, max_iter=3, **how)
    resumed = daskglm.fit(X, y, resume=tmp_path, **how)
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="loss"):
        daskglm.fit(X, y, resume=tmp_path, **(how | {"loss": "ordinal"}))


def test_likelihood_ratios():
    X, y = rows(13)
    large = model_of("probit").fit(X, y)
    small = model_of("probit").fit(X[:, :3], y)
    test = daskglm.likelihood_ratio_test(small, large)
    fallen = 2.0 * (large.report_.log_likelihood - small.report_.log_likelihood)
    assert test.statistic == pytest.approx(fallen)
    assert test.df == 1
    other = model_of("logit").fit(X[:, :3], y)
    with pytest.raises(ValueError, match="m0 has the loss 'ordinal' and m1 'ordinal_probit'"):
        daskglm.likelihood_ratio_test(other, large)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
def test_separable_classes_are_told_without_a_penalty(link, solver):
    X = np.linspace(-1, 1, 60)[:, None]
    y = np.digitize(X[:, 0], [-0.3, 0.4])
    with pytest.warns(ConvergenceWarning, match="separable|falls along column 0"):
        assert not model_of(link, tol=1e-8, solver=solver).fit(X, y).report_.converged
    assert model_of(link, 1e4, tol=1e-8, solver=solver).fit(X, y).report_.converged


# ---- what is refused
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"link": "cauchit"}, "link='cauchit' is not one of 'logit', 'probit', 'cloglog'"),
        ({"solver": "sdca"}, "'ordinal_probit' has no dual; use 'newton', 'tron', 'lbfgs'"),
        ({"stop": "coefficients"}, "wants a bound on their error, which is not known"),
        ({"device": "cuda"}, "link='probit': OrdinalRegression on a GPU wants link='logit'"),
        ({"l1_ratio": 1.0, "solver": "newton"}, "use 'auto', 'proximal_newton', 'owlqn'"),
    ],
)
def test_what_is_refused_before_any_work(given, message):
    with pytest.raises(ValueError, match=message):
        daskglm.OrdinalRegression(**({"link": "probit"} | given)).fit(None, [0, 1])


def test_a_path_of_C_is_refused():
    X, y = rows(9)
    with pytest.raises(ValueError, match="not implemented for loss='ordinal_probit'"):
        daskglm.fit(X, y, family="ordinal", link="probit", C=[0.1, 1.0])
    with pytest.raises(ValueError, match="link='log' is not one of"):
        daskglm.fit(X, y, family="ordinal", link="log")


def test_rows_on_a_gpu_want_the_logit(cupy):
    X, y = rows(13)
    with pytest.raises(ValueError, match="on a GPU wants link='logit'"):
        model_of("probit").fit(cupy.asarray(X), y)
