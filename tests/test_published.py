"""The figures of tests/published.py are optima, and tests/reference.py agrees with statsmodels and glum."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

from . import published
from .reference import published_reference, reference, solve

GLM = ("binomial", "poisson", "gamma", "inverse_gaussian", "tweedie", "negative_binomial")
GLM_NAMES = [
    name
    for family in GLM
    for name in published.names(family)
    if name not in ("randhie_negative_binomial", "quine_nested", "quine_crossed")  # theta estimated
]


@pytest.fixture(scope="module")
def sm():
    return pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")


def figures(field, fit, shape):
    """The figure of a reference that a published field is compared with."""
    if field == "bse":
        return fit.bse().reshape(shape)
    if field in ("bse_robust", "bse_cluster"):
        return fit.bse({"bse_robust": "robust", "bse_cluster": "cluster_stata"}[field])
    return getattr(fit, "pearson_dispersion" if field == "dispersion" else field)


@pytest.mark.parametrize("name", published.names() + published.names(penalised=True))
def test_published_figures_are_those_of_the_optimum(name):
    case, fit = published.case(name), published_reference(name)
    assert "coef" in case.printed or "log_likelihood" in case.printed
    for field in case.printed:
        case.assert_close(field, figures(field, fit, np.shape(getattr(case, field))))


def test_other_figures_are_refused():
    case = published.case("dobson")
    case.assert_close("intercept", 3.0445221)
    with pytest.raises(AssertionError, match=r"dobson\.intercept: published 3\.044522"):
        case.assert_close("intercept", 3.0445229)
    with pytest.raises(AssertionError, match="shape"):
        case.assert_close("coef", [0.0])
    with pytest.raises(AssertionError):
        case.assert_close("deviance", np.nan)


def test_every_family_has_a_case():
    families = (*GLM, "multinomial", "ordinal", "huber", "quantile")
    assert all(published.names(family) for family in families)
    assert sorted(published.names()) == sorted(
        name for family in families for name in published.names(family)
    )
    assert [case.name for case in published.cases("ordinal")] == published.names("ordinal")
    assert len(published.names(penalised=True)) == 18


# ---- statsmodels


def statsmodels_glm(sm, X, y, family, link, *, weights=None, offset=None, power=None, theta=None):
    links = sm.families.links
    link = {
        "identity": links.Identity,
        "log": links.Log,
        "logit": links.Logit,
        "probit": links.Probit,
        "cloglog": links.CLogLog,
        "inverse": links.InversePower,
        "sqrt": links.Sqrt,
        "1/mu^2": links.InverseSquared,
    }[link]()
    family = {
        "gaussian": lambda: sm.families.Gaussian(link),
        "binomial": lambda: sm.families.Binomial(link),
        "poisson": lambda: sm.families.Poisson(link),
        "gamma": lambda: sm.families.Gamma(link),
        "inverse_gaussian": lambda: sm.families.InverseGaussian(link),
        "tweedie": lambda: sm.families.Tweedie(link, var_power=power),
        "negative_binomial": lambda: sm.families.NegativeBinomial(link, alpha=theta),
    }[family]
    with warnings.catch_warnings():  # that some links do not keep to the domain, and of weights
        warnings.simplefilter("ignore")
        return sm.GLM(y, X, family=family(), var_weights=weights, offset=offset)


def fit_statsmodels(model, **options):
    with warnings.catch_warnings():  # that covariances with weights are not fully supported
        warnings.simplefilter("ignore")
        return model.fit(tol=1e-14, maxiter=1000, tol_criterion="params", **options)


def statsmodels_model(sm, case):
    X = case.X.to_numpy()
    return statsmodels_glm(
        sm,
        np.column_stack([X, np.ones(len(X))]) if case.fit_intercept else X,
        case.y,
        case.family,
        case.link,
        weights=case.sample_weight,
        offset=case.total_offset,
        power=case.power,
        theta=case.theta,
    )


@pytest.mark.parametrize("name", GLM_NAMES)
def test_statsmodels_has_the_same_fit(name, sm):
    case, fit = published.case(name), published_reference(name)
    model = statsmodels_model(sm, case)
    other = fit_statsmodels(model)
    np.testing.assert_allclose(other.params, fit.params, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(other.bse, fit.bse(), rtol=1e-9)
    np.testing.assert_allclose(other.deviance, fit.deviance, rtol=1e-12)
    np.testing.assert_allclose(other.scale, fit.dispersion, rtol=1e-11)
    np.testing.assert_allclose(other.pearson_chi2, fit.pearson_chi2, rtol=1e-11)
    if case.fit_intercept:
        np.testing.assert_allclose(other.null_deviance, fit.null_deviance, rtol=1e-12)

    groups = np.arange(len(case.y)) % 5
    fit = dataclasses.replace(fit, groups=groups)
    for kind, options in {
        "HC0": {"cov_type": "HC0"},
        "cluster": {"cov_type": "cluster", "cov_kwds": {"groups": groups}},
        "cluster0": {
            "cov_type": "cluster",
            "cov_kwds": {"groups": groups, "use_correction": False},
        },
    }.items():  # the bread of statsmodels is the observed information
        robust = fit_statsmodels(model, **options)
        np.testing.assert_allclose(robust.bse, fit.bse(kind, "observed"), rtol=1e-7)


LINKS = [
    ("gaussian", "identity"),
    ("gaussian", "log"),
    ("binomial", "probit"),
    ("binomial", "cloglog"),
    ("poisson", "identity"),
    ("poisson", "sqrt"),
    ("gamma", "log"),
    ("gamma", "identity"),
    ("gamma", "inverse"),
    ("inverse_gaussian", "log"),
    ("inverse_gaussian", "1/mu^2"),
    ("tweedie", "log"),
    ("negative_binomial", "log"),
]


def made(family, n=400):
    """Rows with means from 1 to 4, weights and an offset."""
    rng = np.random.default_rng(len(family))
    X = rng.uniform(0, 1, (n, 3))
    mean = 1 + X @ [0.5, 1.0, 1.5]
    y = {
        "gaussian": lambda: mean + 0.2 * rng.standard_normal(n),
        "binomial": lambda: rng.binomial(1, mean / 5) * 1.0,
        "inverse_gaussian": lambda: rng.wald(mean, 20),
        "gamma": lambda: rng.gamma(5, mean / 5),
        "tweedie": lambda: rng.gamma(5, mean / 5) * (rng.random(n) < 0.8),
    }.get(family, lambda: rng.poisson(mean) * 1.0)()
    return X, y, rng.integers(1, 4, n) * 1.0, rng.uniform(0, 0.1, n)


@pytest.mark.parametrize(("family", "link"), LINKS)
def test_every_link_with_weights_and_offset(family, link, sm):
    X, y, weights, offset = made(family)
    options = {"tweedie": {"power": 1.5}, "negative_binomial": {"theta": 0.3}}.get(family, {})
    fit = solve(X, y, family, link, sample_weight=weights, offset=offset, **options)
    model = statsmodels_glm(
        sm,
        np.column_stack([X, np.ones(len(X))]),
        y,
        family,
        link,
        weights=weights,
        offset=offset,
        **options,
    )
    start = 0.99 * fit.params  # from its own start statsmodels leaves the domain of 1/mu^2
    other = fit_statsmodels(model, start_params=start)
    np.testing.assert_allclose(other.params, fit.params, rtol=1e-10)
    np.testing.assert_allclose(other.deviance, fit.deviance, rtol=1e-12)
    np.testing.assert_allclose(other.bse, fit.bse(), rtol=1e-10)
    np.testing.assert_allclose(
        fit_statsmodels(model, start_params=start, cov_type="HC0").bse,
        fit.bse("HC0", "observed"),
        rtol=1e-9,
    )


def test_multinomial_of_statsmodels(sm):
    case, fit = published.case("anes96"), published_reference("anes96")
    other = sm.MNLogit(case.y, sm.add_constant(case.X, prepend=False)).fit(
        method="newton", disp=0, tol=1e-14, maxiter=100
    )
    np.testing.assert_allclose(
        other.params.to_numpy().T, np.column_stack([fit.coef, fit.intercept]), rtol=1e-9
    )
    np.testing.assert_allclose(other.bse.to_numpy().T.ravel(), fit.bse(), rtol=1e-9)
    np.testing.assert_allclose(other.llf, fit.log_likelihood, rtol=1e-13)
    np.testing.assert_allclose(other.llnull, fit.null_log_likelihood, rtol=1e-9)


def test_ordinal_of_statsmodels(sm):
    """OrderedModel stops at 1e-5 of the coefficients, so the gradient says that ours are better."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    case, fit = published.case("housing_ordinal"), published_reference("housing_ordinal")
    rows = np.repeat(np.arange(len(case.y)), case.sample_weight.astype(int))
    other = OrderedModel(case.y[rows].astype(int), case.X.to_numpy()[rows], distr="logit")
    gaps = np.diff(fit.thresholds)
    params = np.concatenate([fit.coef, fit.thresholds[:1], np.log(gaps)])
    np.testing.assert_allclose(other.loglike(params), fit.log_likelihood, rtol=1e-13)
    np.testing.assert_allclose(fit.scores.sum(0), 0, atol=1e-10)
    moved = other.fit(start_params=params, method="bfgs", disp=0, gtol=1e-6)
    np.testing.assert_allclose(moved.params[: len(fit.coef)], fit.coef, atol=1e-6)
    np.testing.assert_allclose(moved.bse[: len(fit.coef)], fit.bse()[: len(fit.coef)], rtol=1e-4)


def test_estimated_theta_of_statsmodels(sm):
    case, fit = published.case("quine_nested"), published_reference("quine_nested")
    model = sm.NegativeBinomial(case.y, sm.add_constant(case.X.to_numpy(), prepend=False))
    other = model.fit(
        start_params=np.append(fit.params, fit.theta), method="bfgs", disp=0, gtol=1e-8
    )
    np.testing.assert_allclose(other.params, np.append(fit.params, fit.theta), rtol=1e-5)
    np.testing.assert_allclose(other.llf, fit.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(model.score(np.append(fit.params, fit.theta)), 0, atol=1e-6)


def test_huber_solves_its_equations():
    case, fit = published.case("stackloss_huber"), published_reference("stackloss_huber")
    X = np.column_stack([case.X, np.ones(len(case.y))])
    r = case.y - X @ fit.params
    assert (np.abs(r) > case.delta).sum() == 3
    assert round(np.median(np.abs(r)) / 0.6745, 4) == 2.4405  # the scale of rlm at its own fit
    np.testing.assert_allclose(X.T @ np.clip(r, -case.delta, case.delta), 0, atol=1e-9)


@pytest.mark.parametrize("name", published.names("quantile"))
def test_quantile_solves_its_linear_programme(name):
    """The rows that the fit goes through have multipliers between -quantile and 1 - quantile."""
    case, fit = published.case(name), published_reference(name)
    X = np.column_stack([case.X, np.ones(len(case.y))])
    r = case.y - X @ fit.params
    on = np.abs(r) < 1e-9 * np.abs(case.y).max()
    assert on.sum() >= X.shape[1]
    slope = np.where(r[~on] > 0, case.quantile, case.quantile - 1)
    multipliers = np.linalg.lstsq(X[on].T, -X[~on].T @ slope, rcond=None)[0]
    np.testing.assert_allclose(X[on].T @ multipliers, -X[~on].T @ slope, atol=1e-7)
    assert np.all(multipliers > case.quantile - 1 - 1e-9)
    assert np.all(multipliers < case.quantile + 1e-9)


# ---- glum


def fit_glum(case):
    """glum's fit, and what its methods take beside X and y."""
    glum = pytest.importorskip("glum", reason="glum is not installed")
    family = {
        "gamma": "gamma",
        "poisson": "poisson",
        "binomial": "binomial",
        "tweedie": glum.TweedieDistribution(1.5),
        "inverse_gaussian": "inverse.gaussian",
    }[case.family]
    model = glum.GeneralizedLinearRegressor(
        family=family,
        link=case.link,
        alpha=case.alpha,
        l1_ratio=case.l1_ratio,
        fit_intercept=case.fit_intercept,
        gradient_tol=1e-12,
        max_iter=60,
    )
    arguments = {"sample_weight": case.sample_weight, "offset": case.total_offset}
    with warnings.catch_warnings():  # that at 1e-12 no step descends any more
        warnings.simplefilter("ignore")
        model.fit(case.X, case.y, **arguments)
    return model, arguments


@pytest.mark.parametrize("name", ["insurance", "cancer_log", "star98", "medpar_log"])
def test_standard_errors_of_glum(name):
    """It estimates a dispersion for every family, and has a factor n / (n - p); n is the sum of weights."""
    case, fit = published.case(name), published_reference(name)
    model, arguments = fit_glum(case)
    np.testing.assert_allclose(model.coef_, fit.coef, rtol=1e-8)
    rows = len(case.y) if case.sample_weight is None else case.sample_weight.sum()
    p = len(fit.params)
    factor = np.sqrt(rows / (rows - p))

    def errors(**options):
        found = model.std_errors(case.X, case.y, **arguments, **options)
        return np.roll(found, -1) if case.fit_intercept else found

    classical = fit.bse() / np.sqrt(fit.dispersion)  # at dispersion 1
    estimated = np.sqrt(fit.pearson_chi2 / (rows - p))
    np.testing.assert_allclose(errors(robust=False), factor * estimated * classical, rtol=1e-7)
    np.testing.assert_allclose(errors(robust=False, dispersion=1.0), factor * classical, rtol=1e-7)
    for expected, bread in ((True, "expected"), (False, "observed")):
        np.testing.assert_allclose(
            errors(robust=True, expected_information=expected),
            factor * fit.bse("HC0", bread),
            rtol=1e-7,
        )


@pytest.mark.parametrize("name", published.names(penalised=True))
def test_glum_has_the_same_elastic_net(name):
    case, fit = published.case(name), published_reference(name)
    model, _ = fit_glum(case)
    np.testing.assert_allclose(model.coef_, fit.coef, rtol=0, atol=1e-9)
    assert np.array_equal(np.abs(model.coef_) < 1e-9, fit.coef == 0)


# ---- where packages and definitions differ


def test_hc1_of_statsmodels_glm_is_hc0(sm):
    case = published.case("insurance")
    model = statsmodels_model(sm, case)
    hc0, hc1 = (fit_statsmodels(model, cov_type=kind).bse for kind in ("HC0", "HC1"))
    np.testing.assert_array_equal(hc0, hc1)
    n, p = len(case.y), len(hc0)
    fit = published_reference("insurance")
    np.testing.assert_allclose(fit.bse("HC1"), hc0 * np.sqrt(n / (n - p)), rtol=1e-10)


def test_statsmodels_puts_pearsons_dispersion_in_the_likelihood_of_gamma(sm):
    case, fit = published.case("clotting_lot1"), published_reference("clotting_lot1")
    other = fit_statsmodels(statsmodels_model(sm, case))
    assert round(fit.aic, 2) == 37.99
    assert round(other.aic, 2) == 36.30


def test_statsmodels_likelihood_of_proportions_with_weights_is_none(sm):
    """Trials as `var_weights` multiply likelihoods of single trials: only the fit is right."""
    case, fit = published.case("star98"), published_reference("star98")
    other = fit_statsmodels(statsmodels_model(sm, case))
    np.testing.assert_allclose(other.deviance, fit.deviance, rtol=1e-12)
    assert abs(other.llf - fit.log_likelihood) > 1e5


def test_null_deviance_without_intercept_is_that_of_no_parameter(sm):
    """R has the mean at the offset there, statsmodels a constant."""
    case, fit = published.case("fair"), published_reference("fair")
    other = fit_statsmodels(statsmodels_model(sm, case))
    constant = dataclasses.replace(case, X=case.X[[]], fit_intercept=True)
    np.testing.assert_allclose(other.null_deviance, reference(constant).deviance, rtol=1e-12)
    assert fit.null_deviance > 1.02 * other.null_deviance


ROUNDED = {
    "spector_logit": "coef",
    "spector_probit": "log_likelihood",
    "randhie": "log_likelihood",
    "anes96": "log_likelihood",
}


@pytest.mark.parametrize("name", ROUNDED)
def test_stata_rounded_the_columns_to_single_precision(name):
    """With the columns in double precision the published figure is missed."""
    case = published.case(name)
    data = published._statsmodels(name.partition("_")[0])
    double = dataclasses.replace(case, X=data[list(case.X)])
    assert not double.X.equals(case.X)
    fit = reference(double)
    with pytest.raises(AssertionError, match=name):
        case.assert_close(ROUNDED[name], getattr(fit, ROUNDED[name]))


def test_exposure_as_offset_and_as_weight_differ_for_gamma_but_not_for_poisson():
    X, y, weights, _ = made("gamma")
    for family in ("poisson", "gamma"):
        offset = solve(X, y, family, "log", exposure=weights)
        weight = solve(X, y / weights, family, "log", sample_weight=weights)
        assert np.allclose(offset.params, weight.params, rtol=1e-12) == (family == "poisson")


# ---- the designs


def test_polynomial_contrasts_are_those_of_r():
    found = published.polynomials(["a", "b", "c", "d"], ["a", "b", "c", "d"], "x")
    wanted = pd.DataFrame(
        {
            "x.L": np.array([-3, -1, 1, 3]) / np.sqrt(20),
            "x.Q": [0.5, -0.5, -0.5, 0.5],
            "x.C": np.array([-1, 3, -3, 1]) / np.sqrt(20),
        }
    )
    pd.testing.assert_frame_equal(found, wanted)


def test_aliased_columns_are_dropped_from_the_right():
    X = pd.DataFrame({"a": [1.0, 0, 0, 2], "b": [0.0, 1, 0, 0], "c": [1.0, 1, 0, 2]})
    assert list(published.without_aliased(X)) == ["a", "b"]
    assert published.case("quine_crossed").X.shape == (146, 27)  # 4 cells are empty
