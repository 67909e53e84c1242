"""Standard errors, likelihoods and tests against statsmodels, and against published ones."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.covering import each_choice
from tests.estimators.inference_cases import CASES, data_of, fitted

NONCONVEX = ("gamma_identity", "inverse_gaussian", "gaussian_log")
# of losses whose likelihood is not at another dispersion in statsmodels, Pearson's
LIKELY = [
    name for name in CASES if CASES[name].family not in ("Gamma", "InverseGaussian", "Tweedie")
]


@pytest.fixture
def sm():
    return pytest.importorskip("statsmodels.api")


def glm(sm, case, data, **more):
    offset = {} if data.offset is None else {"offset": data.offset}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of links that do not keep means positive
        family = case.family_of(sm)
        return sm.GLM(data.y, data.with_constant, family=family, **offset, **more)


def theirs(model, ours, **more):
    """The fit of statsmodels, from our coefficients on."""
    start = ours.params.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of robust covariances with weights
        return model.fit(start_params=start, tol=1e-15, tol_criterion="params", maxiter=300, **more)


def beside(data):
    return {} if data.offset is None else {"offset": data.offset}


def inferred(name, data, weight=None, model=None, **more):
    model = model or fitted(name, data.X, data.y, weight, **beside(data))
    return model.inference(data.X, data.y, weight, **beside(data), **more)


def close(found, wanted, rtol=1e-8):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=rtol, atol=1e-12)


@each_choice
@pytest.mark.parametrize("kind", [None, "precision", "frequency"])
@pytest.mark.parametrize("name", list(CASES))
def test_classical_errors_are_those_of_statsmodels(sm, name, kind):
    case, data = CASES[name], data_of(CASES[name])
    weight = None if kind is None else data.weight
    more = (
        {} if kind is None else {"var_weights" if kind == "precision" else "freq_weights": weight}
    )
    found = inferred(name, data, weight, weights=kind or "precision", use_t=False)
    wanted = theirs(glm(sm, case, data, **more), found)
    close(found.params, wanted.params)
    close(found.bse, wanted.bse)
    close(found.tvalues, wanted.tvalues)
    close(found.pvalues, wanted.pvalues)
    close(found.conf_int(0.9), wanted.conf_int(0.1))
    close(found.cov_params(), wanted.cov_params(), rtol=1e-7)
    close(found.scale, wanted.scale)
    close(found.deviance, wanted.deviance)
    close(found.pearson_chi2, wanted.pearson_chi2)
    assert found.nobs == wanted.df_resid + 4
    assert found.df_resid == wanted.df_resid
    if name in LIKELY and name != "gaussian_log":
        close(found.llf, wanted.llf)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("logistic", "squared")])
def test_likelihoods_are_those_of_the_report(name, weighted):
    data = data_of(CASES[name])
    weight = data.weight if weighted else None
    model = fitted(name, data.X, data.y, weight, **beside(data))
    found = inferred(name, data, weight, model)
    close(found.llf, model.report_.log_likelihood)
    close(found.deviance, model.report_.deviance)
    close(found.aic, model.report_.aic)
    close(found.bic, model.report_.bic)


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie(1.5)", "squared", "logistic"])
def test_criteria_of_frequencies_are_those_of_repeated_rows(name):
    data = data_of(CASES[name])
    model = fitted(name, data.X, data.y, data.weight, **beside(data))
    found = inferred(name, data, data.weight, model, weights="frequency")
    again = np.repeat(np.arange(len(data.y)), data.weight.astype(int))
    offset = None if data.offset is None else data.offset[again]
    repeated = data._replace(X=data.X[again], y=data.y[again], offset=offset)
    wanted = inferred(name, repeated)
    close(found.llf, wanted.llf)
    close(found.aic, wanted.aic)
    close(found.bic, wanted.bic)
    assert found.bic > found.aic


def test_penalised_fits_have_no_criteria():
    data = data_of(CASES["poisson"])
    model = daskglm.PoissonRegressor(alpha=0.1, tol=1e-10).fit(data.X, data.y)
    found = model.inference(data.X, data.y, penalized="effective")
    assert np.isnan([found.aic, found.bic]).all()


def test_likelihoods_of_least_squares_are_those_of_the_report():
    data = data_of(CASES["squared"])
    model = daskglm.GeneralizedLinearRegressor("gaussian", alpha=0, tol=1e-12)
    model.fit(data.X, data.y, data.weight, offset=data.offset)
    found = inferred("squared", data, data.weight, model)
    close(found.llf, model.log_likelihood_)
    close(found.scale, model.dispersion_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if name not in NONCONVEX])
def test_robust_errors_are_those_of_statsmodels_with_observed_hessians(sm, name, weighted):
    case, data = CASES[name], data_of(CASES[name])
    weight = data.weight if weighted else None
    model = fitted(name, data.X, data.y, weight, **beside(data))
    more = {"var_weights": weight} if weighted else {}
    hc0 = inferred(name, data, weight, model, covariance="HC0", observed=True)
    close(hc0.bse, theirs(glm(sm, case, data, **more), hc0, cov_type="HC0").bse)
    hc1 = inferred(name, data, weight, model, covariance="HC1", observed=True)
    close(hc1.bse, hc0.bse * np.sqrt(400 / 396), rtol=1e-13)  # which statsmodels' GLM leaves out
    groups = {"groups": data.clusters}
    of = inferred(
        name, data, weight, model, covariance="cluster", clusters=data.clusters, observed=True
    )
    close(of.bse, theirs(glm(sm, case, data, **more), of, cov_type="cluster", cov_kwds=groups).bse)


@pytest.mark.parametrize("name", list(CASES))
def test_robust_errors_have_fishers_hessian_by_default(sm, name):
    case, data = CASES[name], data_of(CASES[name])
    found = inferred(name, data, covariance="HC0")
    fit = theirs(glm(sm, case, data), found)
    scores = fit.model.score_obs(fit.params)
    bread = np.linalg.inv(-fit.model.hessian(fit.params, observed=False))
    close(found.cov_params(), bread @ scores.T @ scores @ bread, rtol=1e-7)


def test_least_squares_as_statsmodels_ols(sm):
    data = data_of(CASES["squared"])._replace(offset=None)
    ours = inferred("squared", data)
    wanted = sm.OLS(data.y, data.with_constant).fit()
    close(ours.tvalues, wanted.tvalues)
    close(ours.pvalues, wanted.pvalues)
    close(ours.conf_int(), wanted.conf_int())
    close(ours.llf, wanted.llf)
    assert ours.use_t
    for covariance in ("HC0", "HC1"):
        close(
            inferred("squared", data, covariance=covariance).bse,
            wanted.get_robustcov_results(covariance).bse,
        )
    groups = {"groups": data.clusters, "use_t": True}
    wanted = wanted.get_robustcov_results("cluster", **groups)
    ours = inferred("squared", data, covariance="cluster", clusters=data.clusters, use_t=True)
    close(ours.bse, wanted.bse)
    close(ours.pvalues, wanted.pvalues)  # t of clusters less one
    weighted = sm.WLS(data.y, data.with_constant, weights=data.weight).fit()
    close(inferred("squared", data, data.weight).bse, weighted.bse)
    close(
        inferred("squared", data, data.weight, covariance="HC1").bse,
        weighted.get_robustcov_results("HC1").bse,
    )


def test_shares_of_trials_as_two_columns_of_counts(sm):
    data = data_of(CASES["binomial"])
    trials = data.weight + 4.0
    good = np.random.default_rng(1).binomial(trials.astype(int), 0.3 + 0.2 * data.y)
    data = data._replace(y=good / trials)
    found = inferred("binomial", data, trials)
    both = np.column_stack([good, trials - good])
    wanted = sm.GLM(both, data.with_constant, family=sm.families.Binomial()).fit(tol=1e-14)
    close(found.bse, wanted.bse)
    close(found.llf, wanted.llf)
    close(found.deviance, wanted.deviance)
    assert found.df_resid == wanted.df_resid


@pytest.mark.parametrize("covariance", ["classical", "HC0", "HC1", "cluster"])
@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma", "squared"])
def test_frequencies_are_repeated_rows(name, covariance):
    data = data_of(CASES[name])
    rows = np.repeat(np.arange(400), data.weight.astype(int))
    more = data._replace(
        **{f: None if getattr(data, f) is None else getattr(data, f)[rows] for f in data._fields}
    )
    of = {"covariance": covariance}
    once = inferred(
        name, data, data.weight, weights="frequency", **of, **clusters_of(data, covariance)
    )
    again = inferred(name, more, **of, **clusters_of(more, covariance))
    close(once.cov_params(), again.cov_params(), rtol=1e-9)
    close(once.llf, again.llf, rtol=1e-10)
    assert once.nobs == again.nobs == len(rows)


def clusters_of(data, covariance):
    return {"clusters": data.clusters} if covariance == "cluster" else {}


def test_clusters_of_one_row_each_are_hc1_but_for_the_factor():
    data = data_of(CASES["poisson"])
    one = inferred("poisson", data, covariance="cluster", clusters=np.arange(400)[::-1])
    hc1 = inferred("poisson", data, covariance="HC1")
    # G / (G - 1) (n - 1) / (n - p) with G = n
    close(one.cov_params(), hc1.cov_params(), rtol=1e-11)


def test_rows_of_no_weight_are_not_there():
    data = data_of(CASES["gamma"])
    weight = data.weight * (np.arange(400) % 4 > 0)
    kept = weight > 0
    less = data._replace(
        X=data.X[kept], y=data.y[kept], offset=data.offset[kept], clusters=data.clusters[kept]
    )
    for covariance in ("classical", "HC1", "cluster"):
        of = {"covariance": covariance}
        all_rows = inferred("gamma", data, weight, **of, **clusters_of(data, covariance))
        some = inferred("gamma", less, weight[kept], **of, **clusters_of(less, covariance))
        close(all_rows.cov_params(), some.cov_params(), rtol=1e-9)
        close(all_rows.llf, some.llf)


def test_exposures_are_offsets():
    data = data_of(CASES["poisson"])
    exposure = np.exp(data.offset)
    model = fitted("poisson", data.X, data.y, offset=np.log(exposure))
    found = model.inference(data.X, data.y, exposure=exposure)
    close(found.bse, inferred("poisson", data).bse)


# ---- dispersions, leverages, null models
@each_choice
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(CASES))
def test_dispersions_by_choice_are_those_of_statsmodels(sm, name, weighted):
    case, data = CASES[name], data_of(CASES[name])
    weight = data.weight if weighted else None
    model = fitted(name, data.X, data.y, weight, **beside(data))
    more = {"var_weights": weight} if weighted else {}
    for ours, scale in (("pearson", "X2"), ("deviance", "dev"), (1.7, 1.7)):
        found = inferred(name, data, weight, model, dispersion=ours)
        of = glm(sm, case, data, **more)
        wanted = of.fit(scale=scale, start_params=found.params.to_numpy(), tol=1e-14)
        close(found.scale, wanted.scale)
        close(found.bse, wanted.bse, rtol=1e-7)
        own = inferred(name, data, weight, model)
        assert found.llf == own.llf or np.isnan(found.llf)
        robust = inferred(name, data, weight, model, dispersion=ours, covariance="HC1")
        np.testing.assert_array_equal(
            robust.bse, inferred(name, data, weight, model, covariance="HC1").bse
        )


def test_quasi_likelihood_ratios_are_those_of_r():
    """anova(test = "LRT") of quasi-Poisson: the fall of the deviance over the dispersion."""
    data = data_of(CASES["poisson"])._replace(offset=None)
    small, large = (
        fitted("poisson", X, data.y).inference(X, data.y, dispersion="pearson")
        for X in (data.X[:, :2], data.X)
    )
    test = daskglm.likelihood_ratio_test(small, large)
    close(test.statistic, (small.deviance - large.deviance) / large.scale)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance", ["HC2", "HC3"])
def test_leverages_in_robust_errors_are_those_of_ols(sm, covariance, weighted):
    data = data_of(CASES["squared"])._replace(offset=None)
    weight = data.weight if weighted else None
    of = sm.OLS(data.y, data.with_constant)
    if weighted:
        of = sm.WLS(data.y, data.with_constant, weights=weight)
    wanted = of.fit().get_robustcov_results(covariance)
    model = fitted("squared", data.X, data.y, weight)
    found = inferred("squared", data, weight, model, covariance=covariance)
    close(found.bse, wanted.bse)
    close(found.cov_params(), wanted.cov_params())
    rows = sp.csr_matrix(data.X)
    sparse = fitted("squared", rows, data.y, weight)
    close(sparse.inference(rows, data.y, weight, covariance=covariance).bse, wanted.bse)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if name not in NONCONVEX])
def test_leverages_in_robust_errors_of_families(sm, name, observed):
    """vcovHC(type = "HC3") of R's sandwich, with the hat matrix of statsmodels."""
    case, data = CASES[name], data_of(CASES[name])
    weight = data.weight
    model = fitted(name, data.X, data.y, weight, **beside(data))
    of = theirs(glm(sm, case, data, var_weights=weight), inferred(name, data, weight, model))
    h = of.get_hat_matrix_diag(observed=observed)
    scores = of.model.score_obs(of.params, scale=1.0)
    bread = np.linalg.inv(-of.model.hessian(of.params, scale=1.0, observed=observed))
    for covariance, power in (("HC2", 0.5), ("HC3", 1.0)):
        found = inferred(name, data, weight, model, covariance=covariance, observed=observed)
        part = scores / (1.0 - h[:, None]) ** power
        close(found.cov_params(), bread @ part.T @ part @ bread, rtol=1e-7)
    leverages = found.leverage(data.X, data.y, weight, **beside(data))
    close(leverages, h)
    close(leverages.sum(), 4.0)


def test_leverages_of_frequencies_are_those_of_one_row():
    data = data_of(CASES["poisson"])
    rows = np.repeat(np.arange(400), data.weight.astype(int))
    more = data._replace(
        **{f: None if getattr(data, f) is None else getattr(data, f)[rows] for f in data._fields}
    )
    for covariance in ("HC2", "HC3"):
        once = inferred("poisson", data, data.weight, weights="frequency", covariance=covariance)
        again = inferred("poisson", more, covariance=covariance)
        close(once.cov_params(), again.cov_params(), rtol=1e-9)


def test_leverages_around_a_penalised_optimum_are_those_of_the_smoother():
    data = data_of(CASES["squared"])._replace(offset=None)
    model = daskglm.Ridge(alpha=5.0, tol=1e-14).fit(data.X, data.y)
    more = {"penalized": "effective"}
    found = model.inference(data.X, data.y, covariance="HC3", **more)
    x, P = data.with_constant, np.diag([5.0, 5.0, 5.0, 0.0])
    P = np.linalg.inv(x.T @ x + P)
    h = np.einsum("ij,jk,ik->i", x, P, x)
    close(found.leverage(data.X, data.y), h)
    close(h.sum(), 400 - found.df_resid)
    part = x * ((data.y - x @ found.params) / (1 - h))[:, None]
    close(found.cov_params(), P @ part.T @ part @ P, rtol=1e-7)


@pytest.mark.parametrize("covariance", ["HC2", "HC3"])
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
def test_rows_that_the_fit_follows_have_no_leverage_to_divide_by(covariance, rows):
    data = data_of(CASES["squared"])._replace(offset=None)
    X = rows(np.column_stack([data.X, np.arange(400) == 7]) * 1.0)
    model = daskglm.Ridge(alpha=0, tol=1e-14).fit(X, data.y)
    with pytest.raises(ValueError, match=r"1 row\(s\) have the leverage h = 1"):
        model.inference(X, data.y, covariance=covariance)
    weight = (np.arange(400) != 8) * 1.0
    X = rows(np.column_stack([data.X, (np.arange(400) == 8) | (np.arange(400) < 3)]) * 1.0)
    model = daskglm.Ridge(alpha=0, tol=1e-14).fit(X, data.y, weight)
    assert np.isfinite(model.inference(X, data.y, weight, covariance=covariance).bse).all()


@pytest.mark.parametrize("name", [name for name in LIKELY if not name.startswith(("sq", "gaus"))])
def test_pseudo_r_squared_are_those_of_statsmodels(sm, name):
    case, data = CASES[name], data_of(CASES[name])
    found = inferred(name, data, data.weight)
    wanted = theirs(glm(sm, case, data, var_weights=data.weight), found)
    for kind in ("cs", "mcf"):
        close(found.pseudo_rsquared(kind), wanted.pseudo_rsquared(kind))
    close(found.llnull, wanted.llnull)


@pytest.mark.parametrize("name", list(CASES))
def test_null_deviances_are_those_of_statsmodels(sm, name):
    case, data = CASES[name], data_of(CASES[name])
    found = inferred(name, data, data.weight)
    wanted = theirs(glm(sm, case, data, var_weights=data.weight), found)
    close(found.null_deviance, wanted.null_deviance)


@pytest.mark.parametrize("name", ["gamma", "inverse_gaussian", "squared", "gaussian_log"])
def test_null_likelihoods_are_those_of_a_fit_of_a_constant(name):
    data = data_of(CASES[name])._replace(offset=None)
    found = inferred(name, data)
    mean = np.full(400, data.y.mean())
    z = np.ones((400, 1))
    names = {"squared": "gaussian", "gaussian_log": "gaussian"}
    link = "log" if name == "gaussian_log" else "auto"
    constant = daskglm.GeneralizedLinearRegressor(
        names.get(name, name), link=link, alpha=0, fit_intercept=False, tol=1e-14
    )
    constant.fit(z, data.y)
    close(constant.predict(z), mean, rtol=1e-7)
    close(found.llnull, constant.inference(z, data.y).llf)


def test_pseudo_r_squared_of_least_squares_is_r_squared(sm):
    data = data_of(CASES["squared"])._replace(offset=None)
    close(
        inferred("squared", data).pseudo_rsquared(),
        sm.OLS(data.y, data.with_constant).fit().rsquared,
    )
    close(
        inferred("squared", data, data.weight).pseudo_rsquared(),
        sm.WLS(data.y, data.with_constant, weights=data.weight).fit().rsquared,
    )


def test_pseudo_r_squared_of_several_classes(sm):
    data = data_of(CASES["logistic"])
    labels = np.digitize(data.y + data.X[:, 0], [0.0, 0.9])
    of = sm.MNLogit(labels, data.with_constant).fit(disp=0, tol=1e-14)
    model = daskglm.LogisticRegression(C=np.inf, tol=1e-14).fit(data.X, labels)
    found = model.inference(data.X, labels)
    close(found.llnull, of.llnull)
    close(found.pseudo_rsquared("mcf"), of.prsquared)
    shares = np.bincount(labels)
    ordered = daskglm.OrdinalRegression(C=np.inf, tol=1e-10).fit(data.X, labels)
    found = ordered.inference(data.X, labels)
    close(found.llnull, shares @ np.log(shares / 400))
    with pytest.raises(ValueError, match="rows of several classes have no leverage"):
        found.leverage(data.X, labels)


def test_pseudo_r_squared_that_are_not_known_are_refused():
    found = daskglm.GeneralizedLinearRegressor("tweedie(2.5)", alpha=0, tol=1e-12)
    X, y = data_of(CASES["gamma"])[:2]
    found = found.fit(X, y).inference(X, y)
    with pytest.raises(ValueError, match="log-likelihood of the model or of a constant is not"):
        found.pseudo_rsquared()
    with pytest.raises(ValueError, match="kind='r2' is not one of 'cs', 'mcf'"):
        found.pseudo_rsquared("r2")


# ---- published
DOBSON = np.array([18, 17, 15, 20, 10, 20, 25, 13, 12], float)


def test_dobson_as_in_r():
    outcome, treatment = np.tile([0, 1, 2], 3), np.repeat([0, 1, 2], 3)
    X = np.stack([outcome == 1, outcome == 2, treatment == 1, treatment == 2], axis=1) * 1.0
    found = fitted("poisson", X, DOBSON).inference(X, DOBSON)
    np.testing.assert_allclose(found.bse, [0.2021708, 0.1927423, 0.2, 0.2, 0.1708987], rtol=2e-6)
    np.testing.assert_allclose(found.deviance, 5.129141, rtol=1e-6)
    assert round(-2 * found.llf + 10, 2) == 56.76


def test_clotting_times_as_in_r():
    X = np.log([5.0, 10, 15, 20, 30, 40, 60, 80, 100]).reshape(-1, 1)
    y = np.array([118.0, 58, 42, 35, 27, 25, 21, 19, 18])
    found = fitted("gamma_inverse", X, y).inference(X, y)
    np.testing.assert_allclose(found.params, [0.01534311, -0.01655438], rtol=1e-6)
    np.testing.assert_allclose(found.bse, [0.0004149591, 0.0009275466], rtol=1e-4)
    assert round(found.scale, 6) == 0.002446


@pytest.mark.parametrize(
    ("loss", "errors"),
    [
        ("logistic", [1.262941, 0.1415542, 1.064564, 4.931325]),
        ("binomial_probit", [0.6938825, 0.0838903, 0.5950379, 2.542472]),
    ],
)
def test_spector_as_in_greene(loss, errors):
    spector = pytest.importorskip("statsmodels.datasets").spector.load()
    X = spector.exog.to_numpy(float)[:, :3]
    y = spector.endog.to_numpy(float)
    found = fitted(loss, X, y).inference(X, y, observed=True)
    np.testing.assert_allclose(found.bse, errors, rtol=2e-5)


def test_ships_as_in_stata(sm):
    """Stata's factors are n / (n - 1) and G / (G - 1), without the coefficients."""
    import pandas as pd
    from statsmodels.discrete.tests import test_sandwich_cov as of
    from statsmodels.discrete.tests.results import results_count_robust_cluster as stata

    data = pd.read_csv(of.filepath).dropna()
    X, y = data[["yr_con", "op_75_79"]].to_numpy(float), data["accident"].to_numpy(float)
    exposure, ship = data["service"].to_numpy(float), data["ship"].to_numpy()
    n, p = len(y), 3
    for with_exposure, hc, clu in (
        ({}, stata.results_poisson_hc1, stata.results_poisson_clu),
        (
            {"exposure": exposure},
            stata.results_poisson_exposure_hc1,
            stata.results_poisson_exposure_clu,
        ),
    ):
        offset = np.log(exposure) if with_exposure else None
        model = fitted("poisson", X, y, offset=offset)
        found = model.inference(X, y, covariance="HC0", **with_exposure)
        close(found.cov_params() * n / (n - 1), hc.cov, rtol=2e-5)
        found = model.inference(X, y, covariance="cluster", clusters=ship, **with_exposure)
        close(found.cov_params() * (n - p) / (n - 1), clu.cov, rtol=2e-5)
        assert found.found.clusters == 5


# ---- tests of hypotheses
@pytest.mark.parametrize("name", ["poisson", "squared"])
def test_wald_tests_are_those_of_statsmodels(sm, name):
    data = data_of(CASES[name])._replace(offset=None)
    found = inferred(name, data)
    if name == "squared":
        wanted = sm.OLS(data.y, data.with_constant).fit()
    else:
        wanted = theirs(glm(sm, CASES[name], data), found)
    R = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5]])
    for q in (None, [0.1, 0.2]):
        ours, of = found.wald_test(R, q), wanted.wald_test(R if q is None else (R, q), scalar=True)
        close(ours.statistic, of.statistic)
        close(ours.pvalue, of.pvalue)
        assert ours.df == 2
        assert ours.df_denom == (396.0 if name == "squared" else None)


def test_hypotheses_by_name():
    found = inferred("poisson", data_of(CASES["poisson"]))
    assert found.wald_test("x1").statistic == pytest.approx(found.tvalues["x1"] ** 2)
    assert found.wald_test(["x0", "x2"]) == found.wald_test(np.eye(4)[[0, 2]])
    assert found.wald_test("x1", found.params["x1"]).statistic == 0.0


def test_hypotheses_that_cannot_be_tested_are_refused():
    found = inferred("poisson", data_of(CASES["poisson"]))
    with pytest.raises(ValueError, match=r"R names \['x9'\]"):
        found.wald_test(["x9"])
    with pytest.raises(ValueError, match=r"R has shape \(2, 3\).*4 coefficients"):
        found.wald_test(np.ones((2, 3)))
    with pytest.raises(ValueError, match="2 hypotheses are not independent"):
        found.wald_test([[1.0, 0, 0, 0], [2.0, 0, 0, 0]])
    with pytest.raises(ValueError, match="level=95 must be between 0 and 1"):
        found.conf_int(95)


def test_more_hypotheses_than_clusters_are_refused():
    data = data_of(CASES["poisson"])
    found = inferred("poisson", data, covariance="cluster", clusters=data.clusters % 3)
    found.wald_test(["x0", "x1"])
    with pytest.raises(ValueError, match="clusters less one"):
        found.wald_test(["x0", "x1", "x2"])


# by name, by a matrix with values, as F tests; and one cluster more
DOORS = {
    "names": lambda found: found.wald_test(["x0", "x1"]),
    "matrix": lambda found: found.wald_test(np.eye(4)[:2] + 0.1, [0.1, 0.2]),
    "all": lambda found: found.wald_test(np.eye(4)),
}


@pytest.mark.parametrize("use_t", [False, True])
@pytest.mark.parametrize("door", list(DOORS))
def test_more_hypotheses_than_clusters_are_refused_of_fits_that_ended_early(door, use_t):
    """Scores of G clusters sum to zero at the exact optimum only: eigenvalues tell nothing."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((200, 3)), rng.poisson(2, 200)
        model = daskglm.PoissonRegressor(alpha=0).fit(X, y)
        groups = {"covariance": "cluster", "clusters": np.arange(200) % 2, "use_t": use_t}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            two = model.inference(X, y, **groups)
            one_less = model.inference(X, y, **{**groups, "clusters": np.arange(200) % 5})
        with pytest.raises(ValueError, match="more than the covariance has dimensions, 1 "):
            DOORS[door](two)
        assert np.isfinite(one_less.wald_test(["x0", "x1"]).pvalue)
        assert np.isfinite(two.wald_test("x0").pvalue)


@pytest.mark.parametrize("covariance", ["classical", "HC0"])
def test_more_hypotheses_than_rows_are_refused(covariance):
    """A penalty leaves more coefficients than rows, and a covariance of no more dimensions."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 12)), rng.poisson(2, 6).astype(float)
    model = daskglm.PoissonRegressor(alpha=0.5, tol=1e-12).fit(X, y)
    found = model.inference(X, y, covariance=covariance, penalized="effective")
    found.wald_test(["x0", "x1"])
    with pytest.raises(ValueError, match="7 hypotheses are more than .* dimensions, 6 "):
        found.wald_test([f"x{j}" for j in range(7)])
    weight = np.array([1.0, 1, 1, 1, 0, 0])  # rows without weight are none
    model = daskglm.PoissonRegressor(alpha=0.5, tol=1e-12).fit(X, y, weight)
    found = model.inference(X, y, weight, covariance=covariance, penalized="effective")
    with pytest.raises(ValueError, match="5 hypotheses are more than .* dimensions, 4 "):
        found.wald_test([f"x{j}" for j in range(5)])


@pytest.mark.parametrize("covariance", ["cluster", "HC0"])
def test_columns_of_one_cluster_or_row_are_not_tested(covariance):
    """Their scores are zero at the optimum: what is left of them is how far the fit is from it."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        of = np.arange(200) % 5 if covariance == "cluster" else np.arange(200)
        X = np.column_stack([rng.standard_normal(200), of == 1, of == 2]) * 1.0
        y = rng.poisson(np.exp(0.5 + 0.3 * X[:, 0])) + 1.0
        model = daskglm.PoissonRegressor(alpha=0).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            groups = of if covariance == "cluster" else None
            found = model.inference(X, y, covariance=covariance, clusters=groups)
        assert np.isfinite(found.wald_test(["x0", "intercept"]).statistic)
        with pytest.raises(ValueError, match="no information on it|not independent"):
            found.wald_test(["x0", "x1", "x2", "intercept"])
        one = daskglm.PoissonRegressor(alpha=0).fit(X[:, :2], y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = one.inference(X[:, :2], y, covariance=covariance, clusters=groups)
        with pytest.raises(ValueError, match="no information on it|not independent"):
            found.wald_test(["x0", "x1", "intercept"])


# ---- what it says
def test_frames_and_names():
    data = data_of(CASES["poisson"])
    found = inferred("poisson", data)
    frame = found.to_frame()
    assert list(frame.columns) == ["params", "bse", "tvalues", "pvalues", "lower", "upper"]
    assert list(frame.index) == ["x0", "x1", "x2", "intercept"] == list(found.cov_params().columns)
    assert found.dispersion == found.scale == 1.0
    assert found.passes == 1.0
    without = daskglm.LinearRegressor("poisson", C=np.inf, fit_intercept=False).fit(data.X, data.y)
    assert list(without.inference(data.X, data.y).bse.index) == ["x0", "x1", "x2"]


def test_the_summary_says_what_it_is():
    data = data_of(CASES["negative_binomial(0.5)"])
    found = inferred("negative_binomial(0.5)", data, covariance="cluster", clusters=data.clusters)
    text = str(found.summary(0.9))
    assert text.splitlines()[0] == "Inference: loss negative_binomial(0.5), link log"
    assert "cluster (40 clusters)" in text
    assert "1 (fixed)" in text
    assert "z  P>|z|" in text
    assert "[0.05" in text
    assert "theta=0.5 is taken as known" in text
    assert "<table" in found._repr_html_()
    assert repr(found) == str(found.summary())


def test_the_summary_of_weights_and_penalties():
    data = data_of(CASES["squared"])._replace(offset=None)
    model = daskglm.Ridge(alpha=5.0, tol=1e-12).fit(data.X, data.y, data.weight)
    found = model.inference(
        data.X, data.y, data.weight, weights="frequency", penalized="effective", observed=True
    )
    text = str(found.summary())
    for part in (
        "(frequencies)",
        "(Pearson)",
        "classical, observed Hessian",
        "t  P>|t|",
        "penalised",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("dispersion", "text"),
    [(None, "1 (fixed)"), ("pearson", "(Pearson)"), ("deviance", "(deviance)"), (2, "2 (given)")],
)
def test_the_summary_tells_whose_dispersion_it_is(dispersion, text):
    found = inferred("poisson", data_of(CASES["poisson"]), dispersion=dispersion)
    assert text in str(found.summary())


def test_an_inference_pickles():
    found = inferred("poisson", data_of(CASES["poisson"]))
    again = pickle.loads(pickle.dumps(found))
    close(again.bse, found.bse)
    assert str(again.summary()) == str(found.summary())
