"""Regressions of families: against scikit-learn and statsmodels, in all containers and places."""

import pickle
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.losses.table import find
from tests.covering import each_choice
from tests.glm import CASES, COEF, NAMES, containers, sample

X, y, WEIGHT, OFFSET = sample()
EXPOSURE = np.random.default_rng(5).uniform(0.5, 3.0, len(y))
TIGHT = {"tol": 1e-14, "alpha": 0.1}
MODEL = daskglm.PoissonRegressor(**TIGHT).fit(X, y, WEIGHT, OFFSET, EXPOSURE)


def coefficients(model):
    return np.r_[model.intercept_, model.coef_]


# ---- other packages
@each_choice
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "family", "params"),
    [
        ("PoissonRegressor", "poisson", {}),
        ("GammaRegressor", "gamma", {}),
        ("TweedieRegressor", "gaussian", {"power": 0}),
        ("TweedieRegressor", "poisson", {"power": 1}),
        ("TweedieRegressor", "tweedie", {"power": 1.5}),
        ("TweedieRegressor", "gamma", {"power": 2}),
        ("TweedieRegressor", "inverse_gaussian", {"power": 3}),
        ("TweedieRegressor", "gamma", {"power": 0, "link": "log"}),
    ],
)
def test_scikit_learns_regressors_agree(name, family, params, weighted, fit_intercept, alpha):
    rows, target, weight, _ = sample(family)
    weight = weight if weighted else None
    params = params | {"alpha": alpha, "fit_intercept": fit_intercept}
    theirs = getattr(sklearn.linear_model, name)(
        **params, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(rows, target, weight)
    ours = getattr(daskglm, name)(**params, tol=1e-12).fit(rows, target, weight)
    np.testing.assert_allclose(coefficients(ours), coefficients(theirs), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), rtol=1e-7)
    assert ours.score(rows, target, weight) == pytest.approx(
        theirs.score(rows, target, weight), abs=1e-10
    )
    assert ours.n_features_in_ == 3
    assert isinstance(ours.intercept_, float)


def by_statsmodels(family, link, rows, target, **given):
    """The fit of statsmodels, to rounding."""
    sm = pytest.importorskip("statsmodels.api")
    links = {
        "identity": "Identity",
        "log": "Log",
        "logit": "Logit",
        "probit": "Probit",
        "cloglog": "CLogLog",
        "sqrt": "Sqrt",
        "inverse": "InversePower",
        "1/mu^2": "InverseSquared",
    }
    families = {
        "gaussian": (sm.families.Gaussian, {}),
        "binomial": (sm.families.Binomial, {}),
        "poisson": (sm.families.Poisson, {}),
        "gamma": (sm.families.Gamma, {}),
        "inverse_gaussian": (sm.families.InverseGaussian, {}),
        "tweedie(1.5)": (sm.families.Tweedie, {"var_power": 1.5}),
        "negative_binomial(0.7)": (sm.families.NegativeBinomial, {"alpha": 0.7}),
    }
    kind, params = families[family]
    if link.startswith("power"):
        known = sm.families.links.Power(float(link[6:-1]) if "(" in link else -0.5)
    else:
        known = getattr(sm.families.links, links[link])()
    of = kind(known, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # links that are not the family's own
        model = sm.GLM(target, sm.add_constant(rows), of, **given)
        return model.fit(tol=1e-14, maxiter=200)


@each_choice
@pytest.mark.parametrize("how", ["plain", "offset and weights"])
@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_statsmodels_agrees_for_every_family_and_link(family, link, centre, how):
    rows, target, weight, offset = sample(family, link, centre)
    given = {} if how == "plain" else {"offset": offset, "var_weights": weight}
    theirs = by_statsmodels(family, link, rows, target, **given)
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, tol=1e-15)
    model.fit(rows, target, given.get("var_weights"), offset=given.get("offset"))
    # a gap of 1e-15 leaves coefficients an error of about its root
    np.testing.assert_allclose(coefficients(model), theirs.params, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        model.predict(rows, offset=given.get("offset")), theirs.fittedvalues, rtol=1e-7
    )
    assert model.deviance_ == pytest.approx(theirs.deviance, rel=1e-10)
    assert model.null_deviance_ == pytest.approx(theirs.null_deviance, rel=1e-10)
    dispersion = theirs.pearson_chi2 / theirs.df_resid
    assert model.dispersion_ == pytest.approx(dispersion, rel=1e-7)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("family", "link", "ends"),
    [
        ("binomial", "log", (-1.6, -0.2)),
        ("binomial", "identity", (0.1, 0.9)),
        ("gaussian", "inverse", (0.5, 2.0)),
        ("inverse_gaussian", "identity", (0.5, 2.0)),
        ("tweedie(1.5)", "identity", (0.5, 2.0)),
        ("tweedie(1.5)", "power", (0.5, 2.0)),
        ("tweedie(1.5)", "power(0.3)", (0.5, 2.0)),
    ],
)
def test_links_with_ends_agree_with_statsmodels(family, link, ends, beside):
    """Coefficients, deviance and standard errors; steps from the start lead beyond the ends."""
    rng = np.random.default_rng(8)
    n, middle = 500, sum(ends) / 2
    rows, spread = rng.uniform(-1, 1, (n, 3)), (ends[1] - ends[0]) / 2
    offset = 0.1 * spread * rng.uniform(-1, 1, n) if beside else np.zeros(n)
    weight = rng.integers(1, 6, n).astype(float)
    z = middle + spread * rows @ [0.5, -0.3, 0.1] + offset
    if family == "binomial":
        y = rng.binomial(weight.astype(int), np.exp(z) if link == "log" else z) / weight
    else:
        powers = {"inverse": -1.0, "power": -2.0, "power(0.3)": 1 / 0.3, "identity": 1.0}
        mean = z ** powers[link]
        y = {
            "gaussian": lambda: mean + 0.2 * rng.standard_normal(n),
            "inverse_gaussian": lambda: rng.wald(mean, 5.0),
            "tweedie(1.5)": lambda: rng.poisson(2.0, n) * rng.gamma(2.0, mean / 4.0),
        }[family]()
    given = {"var_weights": weight} | ({"offset": offset} if beside else {})
    theirs = by_statsmodels(family, link, rows, y, **given)
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, tol=1e-14)
    moved = offset if beside else None
    model.fit(rows, y, weight, moved)
    assert model.report_.converged
    assert np.isnan(model.report_.relative_gap) == (family != "binomial")
    np.testing.assert_allclose(coefficients(model), theirs.params, rtol=1e-6, atol=1e-7)
    assert model.deviance_ == pytest.approx(theirs.deviance, rel=1e-9)
    errors = np.asarray(model.inference(rows, y, weight, offset=moved, use_t=False).bse)
    np.testing.assert_allclose(np.roll(errors, 1), theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(model.predict(rows, offset=moved), theirs.fittedvalues, rtol=1e-6)


def cells(family, link):
    """Groups with a target each; that of one is the end of what the family has."""
    rng = np.random.default_rng(7)
    g = rng.integers(0, 6, 240)
    if family == "poisson":
        y = rng.poisson(2.0, 240).astype(float)
        y[g == 3] = 0.0
    else:
        y = (rng.random(240) < 0.5).astype(float)
        y[g == 3] = 1.0
    mean = np.array([y[g == k].mean() for k in range(6)])[g]
    loss = find(daskglm.GeneralizedLinearRegressor(family, link=link)._loss)
    margins = np.array([loss.link.of_mean(m) for m in mean])
    inside = g != 3
    values = [loss.row(t, z, 0.0, 0.0)[0] for t, z in zip(y[inside], margins[inside], strict=True)]
    return np.eye(6)[g][:, 1:], y, 2.0 * sum(values)


@pytest.mark.parametrize(
    ("family", "link"), [("poisson", "identity"), ("binomial", "log"), ("binomial", "identity")]
)
def test_an_optimum_at_an_end_of_margins_is_come_near(family, link):
    """The means of the cells, one of them at the end; nothing is proved, and nothing too large."""
    rows, target, least = cells(family, link)
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, solver="newton")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, target)
    assert abs(model.deviance_ - least) <= 1e-8 * least
    assert not any("too large" in str(one.message) for one in caught)
    for solver in ("lbfgs", "tron", "gd"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, solver=solver).fit(
                rows, target
            )
        assert not any("too large" in str(one.message) for one in caught)


def test_what_links_with_ends_refuse():
    X, y = np.ones((4, 1)), np.array([-3.0, 1.0, 0.5, 0.5])
    inverse = daskglm.GeneralizedLinearRegressor("gaussian", link="inverse")
    with pytest.raises(ValueError, match=r"mean target is -0\.25, and the link 'inverse'"):
        inverse.fit(X, y)
    away = np.array([[-1.0], [1.0], [2.0], [-1.0]])  # no multiple of it is inside
    for link, where in (("log", "below 0"), ("identity", r"in \(0, 1\)")):
        model = daskglm.GeneralizedLinearRegressor("binomial", link=link, fit_intercept=False)
        with pytest.raises(ValueError, match=f"wants margins {where}, and without an intercept"):
            model.fit(away, np.array([0.0, 1.0, 0.0, 1.0]))
        with pytest.raises(ValueError, match=f"wants margins {where}, and fit_intercept=False"):
            daskglm.GeneralizedLinearRegressorCV(
                "binomial", link=link, fit_intercept=False, alphas=[0.1]
            ).fit(X, np.array([0.0, 1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="link='identity': .* with the log link only"):
        daskglm.GeneralizedLinearRegressor("tweedie(estimate)", link="identity").fit(X, y + 4)
    with pytest.raises(ValueError, match="with the log link only"):
        daskglm.TweedieRegressor(power="estimate", link="identity").fit(X, y + 4)


def test_exposures_are_offsets_by_their_logarithm_and_add_to_them():
    theirs = by_statsmodels(
        "poisson", "log", X, y, exposure=EXPOSURE, offset=OFFSET, var_weights=WEIGHT
    )
    model = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-14)
    model.fit(X, y, WEIGHT, OFFSET, EXPOSURE)
    np.testing.assert_allclose(coefficients(model), theirs.params, rtol=1e-8)
    # a rate with the exposure as its weight is the same for Poisson
    rate = daskglm.PoissonRegressor(alpha=0, tol=1e-14).fit(X, y / EXPOSURE, EXPOSURE)
    exposed = daskglm.PoissonRegressor(alpha=0, tol=1e-14).fit(X, y, exposure=EXPOSURE)
    np.testing.assert_allclose(coefficients(rate), coefficients(exposed), rtol=1e-8)


def test_weights_are_repeated_rows_and_shares_are_trials():
    rng = np.random.default_rng(3)
    times = rng.integers(0, 4, len(y))
    weighted = daskglm.PoissonRegressor(alpha=0.1, tol=1e-14).fit(X, y, times)
    repeated = daskglm.PoissonRegressor(alpha=0.1, tol=1e-14)
    repeated.fit(np.repeat(X, times, 0), np.repeat(y, times))
    np.testing.assert_allclose(coefficients(weighted), coefficients(repeated), rtol=1e-9)

    trials = rng.integers(1, 9, len(y))
    hits = rng.binomial(trials, 1 / (1 + np.exp(-X @ COEF)))
    shares = daskglm.GeneralizedLinearRegressor("binomial", alpha=0, tol=1e-14)
    shares.fit(X, hits / trials, trials)
    each = np.concatenate([np.arange(n) < k for n, k in zip(trials, hits, strict=True)])
    single = daskglm.LogisticRegression(C=np.inf, tol=1e-13).fit(np.repeat(X, trials, 0), each)
    np.testing.assert_allclose(shares.coef_, single.coef_[0], rtol=1e-7)


def test_rows_without_weight_may_lie_outside_of_a_links_domain():
    rows, target, _, _ = sample("poisson", "identity", 3.0)
    far = np.vstack([rows, np.full((2, 3), -50.0)])
    weight = np.r_[np.ones(len(target)), 0.0, 0.0]
    params = {"link": "identity", "alpha": 0, "tol": 1e-10}
    model, only = (daskglm.GeneralizedLinearRegressor("poisson", **params) for _ in range(2))
    model.fit(far, np.r_[target, 1.0, 1.0], weight)
    only.fit(rows, target)
    np.testing.assert_allclose(coefficients(model), coefficients(only), rtol=1e-8)
    assert model.deviance_ == pytest.approx(only.deviance_, rel=1e-9)


# ---- containers and places
@pytest.fixture(params=["in process", "cluster"])
def place(request):
    """Whether a client is the current one."""
    if request.param == "cluster":
        request.getfixturevalue("client")
    return request.param


ALL = containers(X, y, WEIGHT, OFFSET, EXPOSURE)


@each_choice
@pytest.mark.parametrize("kind", list(ALL))
def test_all_containers_fit_and_score_alike(kind, place):
    rows, *beside = ALL[kind]
    fitted = daskglm.PoissonRegressor(**TIGHT).fit(rows, *beside)
    np.testing.assert_allclose(coefficients(fitted), coefficients(MODEL), rtol=1e-8)
    assert fitted.deviance_ == pytest.approx(MODEL.deviance_, rel=1e-10)
    assert fitted.null_deviance_ == pytest.approx(MODEL.null_deviance_, rel=1e-10)
    assert fitted.log_likelihood_ == pytest.approx(MODEL.log_likelihood_, rel=1e-10)
    wanted = MODEL.score(X, y, WEIGHT, OFFSET, EXPOSURE)
    assert fitted.score(rows, *beside) == pytest.approx(wanted, abs=1e-10)
    if "names" in kind:
        assert fitted.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("kind", list(ALL))
def test_all_containers_predict_alike_with_offset_and_exposure(kind):
    rows, _, _, offset, exposure = ALL[kind]
    if "names" in kind:
        rows = rows[[*NAMES, "o", "e"]]
    fitted = clone(MODEL).fit(pd.DataFrame(X, columns=NAMES), y, WEIGHT, OFFSET, EXPOSURE)
    model = MODEL if not hasattr(rows, "columns") else fitted
    for given in ({}, {"offset": offset}, {"exposure": exposure, "offset": offset}):
        margins = X @ MODEL.coef_ + MODEL.intercept_
        margins = margins + (OFFSET if "offset" in given else 0.0)
        margins = margins + (np.log(EXPOSURE) if "exposure" in given else 0.0)
        at = rows
        if "names" in kind:
            at = rows[[*NAMES, *(value for value in given.values())]]
        for type_, wanted in (("link", margins), ("response", np.exp(margins))):
            found = model.predict(at, **given, type=type_)
            if isinstance(found, list):
                found = np.concatenate([part.compute() for part in found])
            elif hasattr(found, "compute"):
                assert isinstance(found, dd.Series if hasattr(rows, "columns") else da.Array)
                found = found.compute()
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["dask array", "dask frame, names", "delayed"])
def test_rows_are_read_from_their_source_at_every_pass(kind, place):
    rows, target, weight, offset, exposure = ALL[kind]
    fitted = daskglm.fit(
        *(rows, target),
        sample_weight=weight,
        family="poisson",
        offset=offset,
        exposure=exposure,
        out_of_core=True,
        **TIGHT,
    )
    np.testing.assert_allclose(coefficients(fitted), coefficients(MODEL), rtol=1e-8)


@each_choice
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd"])
@pytest.mark.parametrize("family", ["poisson", "gamma", "tweedie(1.5)", "inverse_gaussian"])
def test_solvers_agree(solver, family):
    rows, target, weight, offset = sample(family)
    params = {"alpha": 0.1, "tol": 1e-10 if solver != "gd" else 1e-6}
    wanted, found = (
        daskglm.GeneralizedLinearRegressor(family, solver=each, **params).fit(
            rows, target, weight, offset
        )
        for each in ("newton", solver)
    )
    assert found.solver_ == solver
    close = 1e-5 if solver != "gd" else 3e-3
    np.testing.assert_allclose(coefficients(found), coefficients(wanted), rtol=close, atol=close)


@each_choice
@pytest.mark.parametrize("out_of_core", [False, True], ids=["loaded", "out of core"])
@pytest.mark.parametrize("family", ["poisson", "gamma", "negative_binomial(0.5)", "binomial"])
def test_dual_ascent_proves_its_answer(family, out_of_core, place):
    rows, target, weight, _ = sample(family)
    wanted = daskglm.GeneralizedLinearRegressor(family, alpha=0.1, tol=1e-12)
    wanted.fit(rows, target, weight)
    found = daskglm.fit(
        da.from_array(rows, chunks=(100, 3)),
        da.from_array(target, chunks=100),
        sample_weight=da.from_array(weight, chunks=100),
        family=family,
        alpha=0.1,
        tol=1e-8,
        solver="sdca",
        solver_options={"polish": False},
        random_state=0,
        out_of_core=out_of_core,
    )
    assert found.solver_ == "sdca"
    excess = found.report_.objective / wanted.report_.objective - 1.0
    assert -1e-11 <= excess <= found.report_.relative_gap <= 1e-8
    np.testing.assert_allclose(coefficients(found), coefficients(wanted), rtol=1e-3, atol=1e-4)


# ---- models as objects
def test_warm_starts_begin_where_the_last_fit_ended():
    model = daskglm.PoissonRegressor(warm_start=True, **TIGHT).fit(X, y, WEIGHT, OFFSET)
    once = coefficients(model)
    assert model.fit(X, y, WEIGHT, OFFSET).n_iter_ <= 1
    np.testing.assert_allclose(coefficients(model), once, rtol=1e-12)
    again = daskglm.fit(X, y, family="poisson", warm_start=model, offset=OFFSET, alpha=0.2)
    assert again.report_.converged


def test_a_checkpoint_resumes_with_its_offsets(tmp_path):
    how = {"family": "poisson", "solver": "lbfgs", "sample_weight": WEIGHT, **TIGHT, "tol": 1e-12}
    whole = daskglm.fit(X, y, **how, offset=OFFSET)
    with pytest.warns(Warning, match="max_iter"):
        daskglm.fit(
            *(X, y),
            **how,
            offset=OFFSET,
            max_iter=3,
            checkpoint=tmp_path / "c",
            checkpoint_every=1,
        )
    resumed = daskglm.fit(X, y, **how, offset=OFFSET, resume=tmp_path / "c")
    assert resumed.report_.resumed == 3
    np.testing.assert_allclose(coefficients(resumed), coefficients(whole), rtol=1e-5)
    with pytest.raises(ValueError, match="of other data"):
        daskglm.fit(X, y, **how, offset=2 * OFFSET, resume=tmp_path / "c")


@pytest.mark.parametrize(
    "model",
    [
        daskglm.GeneralizedLinearRegressor("negative_binomial(0.5)"),
        daskglm.PoissonRegressor(alpha=0),
        daskglm.GammaRegressor(),
        daskglm.TweedieRegressor(power=1.3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_are_saved_pickled_and_cloned(model, tmp_path):
    model.fit(X, y + 0.5, WEIGHT)
    daskglm.save(model, tmp_path / "model.json")
    for again in (daskglm.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.score(X, y + 0.5) == model.score(X, y + 0.5)
        assert repr(again.report_) == repr(model.report_)
        assert again.deviance_ == model.deviance_
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")
    assert "null deviance" in repr(model.report_)
    assert "deviance" in model.report_._repr_html_()


def test_statistics_are_not_there_before_a_fit_and_criteria_not_with_a_penalty():
    with pytest.raises(Exception, match="not fitted yet"):
        daskglm.PoissonRegressor().deviance_  # noqa: B018
    penalised = daskglm.PoissonRegressor(alpha=1.0).fit(X, y)
    assert np.isnan(penalised.aic_)
    assert np.isnan(penalised.bic_)
    assert np.isfinite(penalised.log_likelihood_)


# ---- what is refused
@pytest.mark.parametrize(
    ("params", "fitted", "message"),
    [
        ({"family": "gamma", "link": "inverse"}, {"exposure": EXPOSURE}, "no log link"),
        (
            {"family": "poisson"},
            {"exposure": -EXPOSURE},
            r"row 296: exposure is -2.99835.*not above 0",
        ),
        ({"family": "poisson"}, {"offset": OFFSET[1:]}, "numbers of samples: X 300, offset 299"),
        ({"family": "poisson"}, {"offset": np.where(X[:, 0] > 1, np.nan, 0.0)}, "offset contains"),
        ({"family": "poisson"}, {"offset": "o"}, "offset='o' would name a column"),
        ({"family": "tweedie(1.5)", "solver": "sdca"}, {}, "no dual"),
        ({"family": "poisson", "solver": "sdca"}, {"offset": OFFSET}, "takes no offset"),
        ({"family": "gaussian", "solver": "sdca", "alpha": 0}, {"offset": OFFSET}, "no dual"),
        ({"family": "poisson", "link": "cube"}, {}, "link of family='poisson'"),
        ({"family": "poisson", "link": "logit"}, {}, "link of family='poisson'"),
        ({"family": "poissson"}, {}, "family"),
        ({"family": "tweedie(0.5)"}, {}, r"power=0.5 must be in \(1, inf\)"),
        ({"family": "tweedie(x)"}, {}, "not a number"),
        ({"family": "negative_binomial(0)"}, {}, "theta=0 must be"),
        ({"family": "poisson", "alpha": -1.0}, {}, "alpha=-1.0"),
        ({"family": "poisson", "link": "identity", "fit_intercept": False}, {}, "margins above"),
    ],
)
def test_what_cannot_be_fitted_is_refused(params, fitted, message):
    with pytest.raises(ValueError, match=message):
        daskglm.GeneralizedLinearRegressor(**params).fit(X, y, **fitted)


@pytest.mark.parametrize(
    ("model", "bad", "message"),
    [
        (daskglm.PoissonRegressor(), -1.0, "y is -1, but poisson has targets at least 0"),
        (daskglm.GammaRegressor(), 0.0, "y is 0, but gamma has targets above 0"),
        (daskglm.TweedieRegressor(power=3), 0.0, "has targets above 0"),
        (daskglm.GeneralizedLinearRegressor("binomial"), 1.5, "has targets from 0 to 1"),
    ],
    ids=str,
)
def test_targets_out_of_the_domain_are_named_with_partition_and_row(model, bad, message):
    target = np.full(len(y), 0.5)
    target[117] = bad
    with pytest.raises(ValueError, match=f"row 117.*{message}"):
        model.fit(X, target)
    lazy = da.from_array(X, chunks=(100, 3)), da.from_array(target, chunks=100)
    with pytest.raises(ValueError, match=f"partition 1, row 17.*{message}"):
        model.fit(*lazy)
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.full(len(y), 0.5)).score(X, target)


def test_arguments_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match=r"family='poisson' with C"):
        daskglm.fit(X, y, family="poisson", C=2.0)
    with pytest.raises(ValueError, match=r"family='poisson' with loss"):
        daskglm.fit(X, y, family="poisson", loss="squared")
    with pytest.raises(ValueError, match="alpha is given without a family"):
        daskglm.fit(X, y, alpha=1.0)
    with pytest.raises(ValueError, match="class_weight has no meaning"):
        daskglm.fit(X, y, family="poisson", class_weight="balanced")
    with pytest.raises(ValueError, match="takes no offset"):
        daskglm.fit(X, y > 1, loss="logistic", solver="sdca", offset=OFFSET)
    with pytest.raises(ValueError, match="power=0.5"):
        daskglm.TweedieRegressor(power=0.5).fit(X, y)
    with pytest.raises(ValueError, match="power='x' must be a number"):
        daskglm.TweedieRegressor(power="x").fit(X, y)
    with pytest.raises(ValueError, match="link='logit'"):
        daskglm.TweedieRegressor(power=1, link="logit").fit(X, y)


def test_predictions_refuse_offsets_that_do_not_fit():
    with pytest.raises(ValueError, match="X has 300 rows but offset has 299"):
        MODEL.predict(X, offset=OFFSET[1:])
    rows = da.from_array(X, chunks=(100, 3))
    for short in (OFFSET[1:], da.from_array(OFFSET[1:], chunks=100)):
        with pytest.raises(ValueError, match="X 300, offset 299"):
            MODEL.predict(rows, offset=short)
    parts = [dask.delayed(values) for values in (X, OFFSET[1:])]
    with pytest.raises(ValueError, match="X has 300 rows but offset has 299"):
        dask.compute(MODEL.predict([parts[0]], offset=[parts[1]]))
    with pytest.raises(ValueError, match="row 0: exposure is 0"):
        MODEL.predict(rows, exposure=da.zeros(300, chunks=50)).compute()
    with pytest.raises(ValueError, match="'o' would name a column"):
        MODEL.predict(X, offset="o")
    with pytest.raises(ValueError, match="give offset as a dask collection"):
        MODEL.predict(dd.from_pandas(pd.DataFrame(X), npartitions=2), offset=OFFSET)
    with pytest.raises(ValueError, match="exposure is -1, which is not above 0"):
        MODEL.predict(X, exposure=np.where(X[:, 0] > 1, -1.0, 1.0))
    with pytest.raises(ValueError, match="offset contains NaN"):
        MODEL.predict(X, offset=np.where(X[:, 0] > 1, np.nan, 1.0))
    with pytest.raises(ValueError, match="type='mean'"):
        MODEL.predict(X, type="mean")


@pytest.mark.parametrize("way", ["dense", "blocks", "csr"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("columns", [3, 9])  # of nine columns kernels sum one triangle of products
def test_links_with_ends_take_a_constant_column_in_place_of_an_intercept(columns, solver, way):
    rng = np.random.default_rng(8)
    rows = rng.uniform(size=(300, columns))
    level = rng.integers(0, 2, 300)
    rows[:, 0], rows[:, 1] = level, 1 - level  # together a constant
    y = rng.poisson(rows @ np.r_[2.0, 1.0, np.full(columns - 2, 3.0)]).astype(float)
    how = {"link": "identity", "alpha": 0, "solver": solver, "tol": 1e-10}
    with_one = daskglm.GeneralizedLinearRegressor("poisson", **how).fit(rows[:, 1:], y)
    given = {
        "dense": (rows, y),
        "blocks": (da.from_array(rows, chunks=(100, columns)), da.from_array(y, chunks=100)),
        "csr": (sp.csr_matrix(rows), y),
    }[way]
    model = daskglm.GeneralizedLinearRegressor("poisson", fit_intercept=False, **how)
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=0).fit(*given)
    np.testing.assert_allclose(model.predict(rows), y.mean(), rtol=1e-9)  # where it starts
    model.set_params(max_iter=None).fit(*given)
    np.testing.assert_allclose(model.predict(rows), with_one.predict(rows[:, 1:]), rtol=1e-6)
    assert model.report_.converged
    assert model.intercept_ == 0.0


def test_offsets_of_unlike_signs_leave_a_start_inside():
    rng = np.random.default_rng(3)
    rows, offset = rng.uniform(-0.01, 0.01, (200, 1)), rng.uniform(-0.57, 0.4, 200)
    y = rng.binomial(1, 0.58 + offset)
    model = daskglm.GeneralizedLinearRegressor("binomial", link="identity", alpha=0)
    model.fit(rows, y, offset=offset)
    assert model.report_.converged
    assert (
        0.0
        < model.predict(rows, offset=offset).min()
        < model.predict(rows, offset=offset).max()
        < 1.0
    )


def test_offsets_that_spread_beyond_the_domain_start_near_the_targets_or_are_refused():
    rng = np.random.default_rng(0)
    away = rng.uniform(-0.9, 0.9, 500)  # no intercept brings all of it into (0, 1)
    y = rng.binomial(1, np.full(500, 0.5))
    model = daskglm.GeneralizedLinearRegressor("binomial", link="identity", alpha=0)
    model.fit(away[:, None], y, offset=away)
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_, -1.0, atol=0.1)
    with pytest.raises(ValueError, match="offsets go from -0.8.* to 0.8"):
        model.fit(rng.standard_normal((500, 1)), y, offset=away)


@pytest.mark.parametrize("way", ["dense", "blocks", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("link", ["identity", "log"])
def test_offsets_of_any_width_are_fitted_if_coefficients_are_inside(link, intercept, way):
    rng = np.random.default_rng(5)
    low, high = (0.05, 0.95) if link == "identity" else (-4.0, -0.05)
    for seed in range(4):
        rows = rng.standard_normal((120, 3)) * [1.0, 1e3, 1e-3]
        # most margins are near one end, so that those nearest to the targets are not inside
        part = np.where(rng.random(120) < 0.9, 0.02, 1.0) * rng.random(120)
        margin = low + (high - low) * (part if seed % 2 else 1.0 - part)
        offset = margin - rows @ (rng.standard_normal(3) / [1.0, 1e3, 1e-3]) - 0.3 * intercept
        y = rng.binomial(1, margin if link == "identity" else np.exp(margin)).astype(float)
        model = daskglm.GeneralizedLinearRegressor(
            "binomial", link=link, alpha=0, fit_intercept=intercept
        )
        given = {
            "dense": (rows, y, offset),
            "blocks": tuple(
                da.from_array(part, chunks=((50, 70), *part.shape[1:]))
                for part in (rows, y, offset)
            ),
            "csr": (sp.csr_matrix(rows), y, offset),
        }[way]
        model.fit(*given[:2], offset=given[2])
        assert model.report_.converged
        means = model.predict(rows, offset=offset)
        assert 0.0 < means.min() < means.max() < 1.0
