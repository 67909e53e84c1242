"""Statistics of fits: against densities of SciPy, statsmodels, and numbers published for R."""

import dask.array as da
import numpy as np
import pytest
from scipy import stats

import daskglm
from daskglm.core.requests import EvaluateAlong
from daskglm.engines.local import Local
from tests.covering import each_choice
from tests.glm import CASES, sample
from tests.losses.test_tweedie_series import by_mixture


def log_likelihood(family, y, mu, weight, deviance):
    """Sum of log densities by SciPy, at the dispersion that R's `logLik` takes."""
    name, n, total = family.partition("(")[0], len(y), weight.sum()
    phi = deviance / (n if name in ("gaussian", "tweedie") else total)
    with np.errstate(all="ignore"):
        return {
            "gaussian": lambda: stats.norm.logpdf(y, mu, np.sqrt(phi / weight)).sum(),
            "binomial": lambda: weight @ stats.bernoulli.logpmf(y, mu),
            "poisson": lambda: weight @ stats.poisson.logpmf(y, mu),
            "gamma": lambda: weight @ stats.gamma.logpdf(y, 1 / phi, scale=mu * phi),
            "inverse_gaussian": lambda: weight @ stats.invgauss.logpdf(y, mu * phi, scale=1 / phi),
            "negative_binomial": lambda: (
                weight @ stats.nbinom.logpmf(y, 1 / 0.7, 1 / (1 + 0.7 * mu))
            ),
            "tweedie": lambda: by_mixture(y, mu, phi / weight, 1.5, 300).sum(),
        }[name]()


@each_choice
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_likelihoods_and_criteria_are_rs(family, link, centre, weighted):
    X, y, weight, offset = sample(family, link, centre)
    weight = weight if weighted else np.ones(len(y))
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, tol=1e-13)
    model.fit(X, y, weight if weighted else None, offset)
    mu = model.predict(X, offset)
    wanted = log_likelihood(family, y, mu, weight, model.deviance_)
    assert model.log_likelihood_ == pytest.approx(wanted, rel=1e-9, nan_ok=True)
    known = family.partition("(")[0] in ("binomial", "poisson", "negative_binomial")
    parameters = 4 + (not known)
    assert model.aic_ == pytest.approx(2 * (parameters - wanted), rel=1e-9, nan_ok=True)
    assert model.bic_ == pytest.approx(
        np.log(len(y)) * parameters - 2 * wanted, rel=1e-9, nan_ok=True
    )


def test_a_given_power_has_the_likelihood_of_rs_tweedie():
    """logLiktweedie(glm(y ~ 1, tweedie(var.power = 1.5, link.power = 0))), an example of glum."""
    y, X = np.array([0.0, 0, 1, 2, 3]), np.array([[0.0], [0], [0], [0], [1]])
    model = daskglm.TweedieRegressor(power=1.5, alpha=1e9, tol=1e-12).fit(X, y)
    assert model.log_likelihood_ == pytest.approx(-8.35485, abs=5e-6)
    assert np.isnan(model.aic_)
    steep = daskglm.TweedieRegressor(power=2.5, alpha=0).fit(X, y + 0.5)  # which has no series here
    assert np.isnan(steep.log_likelihood_)


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_rows_of_weight_zero_change_nothing(family, link, centre):
    X, y, weight, offset = sample(family, link, centre)
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, weight)
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0, tol=1e-12)
    with_all = model.fit(X, y, weight, offset).report_
    k = weight > 0.0
    without = model.fit(X[k], y[k], weight[k], offset[k]).report_
    for name in ("deviance", "null_deviance", "dispersion", "log_likelihood", "aic", "bic"):
        wanted = getattr(without, name)  # where rounding ends both fits
        assert getattr(with_all, name) == pytest.approx(wanted, rel=1e-7), name


def test_rows_of_weight_zero_change_nothing_of_estimates_classes_and_clusters(client):
    X, y, weight, _ = sample("negative_binomial")
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, np.ones(len(y)))
    k = weight > 0.0
    ordered = np.minimum(y, 2.0)
    lazy = [da.from_array(each, chunks=(80, 3)[: each.ndim]) for each in (X, y, weight)]
    name = "negative_binomial(estimate)"
    estimate = daskglm.GeneralizedLinearRegressor(name, alpha=0, tol=1e-12)
    steps = daskglm.OrdinalRegression(C=np.inf, tol=1e-12)
    pairs = [
        (estimate.fit(X, y, weight).report_, estimate.fit(X[k], y[k]).report_),
        (estimate.fit(*lazy).report_, estimate.fit(X[k], y[k]).report_),
        (steps.fit(X, ordered, weight).report_, steps.fit(X[k], ordered[k]).report_),
    ]
    for with_all, without in pairs:
        assert with_all.bic == pytest.approx(without.bic, rel=1e-8)
        assert with_all.dispersion == pytest.approx(without.dispersion, rel=1e-6)


def test_shares_of_trials_have_the_binomial_likelihood():
    rng = np.random.default_rng(0)
    X, trials = rng.standard_normal((80, 2)), rng.integers(1, 12, 80)
    hits = rng.binomial(trials, 1 / (1 + np.exp(-X[:, 0])))
    model = daskglm.GeneralizedLinearRegressor("binomial", alpha=0, tol=1e-13)
    model.fit(X, hits / trials, trials)
    wanted = stats.binom.logpmf(hits, trials, model.predict(X)).sum()
    assert model.log_likelihood_ == pytest.approx(wanted, rel=1e-10)


def dummies(levels):
    """Treatment contrasts: a column for each level but the first."""
    return (np.asarray(levels)[:, None] == np.unique(levels)[1:]).astype(float)


def test_dobsons_counts_are_as_in_rs_help_of_glm():
    counts = np.array([18, 17, 15, 20, 10, 20, 25, 13, 12.0])
    X = np.hstack([dummies(np.tile([1, 2, 3], 3)), dummies(np.repeat([1, 2, 3], 3))])
    model = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-14).fit(X, counts)
    np.testing.assert_allclose(
        [model.intercept_, *model.coef_], [3.044522, -0.4542553, -0.2929871, 0, 0], atol=1e-6
    )
    assert model.null_deviance_ == pytest.approx(10.58145, abs=1e-5)
    assert model.deviance_ == pytest.approx(5.129141, abs=1e-6)
    assert model.aic_ == pytest.approx(56.76, abs=0.005)


@pytest.mark.parametrize(
    ("lot", "coefficients", "null", "deviance", "dispersion"),
    [
        (
            *([118, 58, 42, 35, 27, 25, 21, 19, 18], [-0.01655438, 0.01534311]),
            *(3.512826, 0.01672972, 0.002446059),
        ),
        (
            *([69, 35, 26, 21, 18, 16, 13, 12, 12], [-0.02390850, 0.02359922]),
            *(3.118557, 0.01267176, 0.001813354),
        ),
    ],
)
def test_clotting_times_are_as_in_rs_help_of_glm(lot, coefficients, null, deviance, dispersion):
    u = np.array([5, 10, 15, 20, 30, 40, 60, 80, 100.0])
    model = daskglm.GeneralizedLinearRegressor("gamma", link="inverse", alpha=0, tol=1e-12)
    model.fit(np.log(u)[:, None], np.array(lot, float))
    np.testing.assert_allclose([model.intercept_, *model.coef_], coefficients, atol=5e-8)
    assert model.null_deviance_ == pytest.approx(null, abs=1e-6)
    assert model.deviance_ == pytest.approx(deviance, abs=1e-8)
    assert model.dispersion_ == pytest.approx(dispersion, abs=5e-8)


def test_scotland_and_star98_are_as_published():
    datasets = pytest.importorskip("statsmodels.datasets")
    scotland = datasets.scotland.load_pandas()
    model = daskglm.GeneralizedLinearRegressor("gamma", link="inverse", alpha=0, tol=1e-12)
    model.fit(scotland.exog.to_numpy(), scotland.endog.to_numpy())
    wanted = [4.961768e-05, 2.034423e-03, -7.181429e-05, 1.118520e-04, -1.467515e-07]
    wanted += [-5.186831e-04, -2.427175e-06]
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-6)
    assert model.deviance_ == pytest.approx(0.087388516417, rel=1e-9)
    assert model.dispersion_ == pytest.approx(0.003584283, rel=1e-6)

    star = datasets.star98.load_pandas()
    hits, trials = star.endog.iloc[:, 0].to_numpy(), star.endog.sum(axis=1).to_numpy()
    model = daskglm.GeneralizedLinearRegressor("binomial", alpha=0, tol=1e-12)
    model.fit(star.exog.to_numpy(), hits / trials, trials)
    assert model.deviance_ == pytest.approx(4078.765418, rel=1e-8)
    assert model.null_deviance_ == pytest.approx(34345.36889, rel=1e-8)
    assert model.log_likelihood_ == pytest.approx(-2998.612559, rel=1e-8)
    assert model.aic_ == pytest.approx(6039.225118, rel=1e-8)


def test_statistics_cost_no_pass_and_are_the_same_on_a_cluster(client):
    X, y, weight, offset = sample("gamma")
    lazy = [da.from_array(each, chunks=(80, 3)[: each.ndim]) for each in (X, y, weight, offset)]
    here = daskglm.GammaRegressor(alpha=0, tol=1e-12).fit(X, y, weight, offset)
    there = daskglm.GammaRegressor(alpha=0, tol=1e-12).fit(*lazy)
    for name in ("deviance", "null_deviance", "dispersion", "log_likelihood", "aic", "bic"):
        wanted = getattr(here.report_, name)
        assert getattr(there.report_, name) == pytest.approx(wanted, rel=1e-9), name
    for report in (here.report_, there.report_):
        assert report.passes == pytest.approx(report.history[-1]["passes"])


def test_losses_without_a_family_have_none():
    X, y, _, _ = sample("gaussian")
    report = daskglm.fit(X, y > 0, loss="squared_hinge").report_
    assert np.isnan(report.deviance)
    assert np.isnan(report.log_likelihood)
    assert "deviance" not in repr(report)


def test_more_coefficients_than_rows_leave_the_dispersion_undefined():
    X, y, _, _ = sample("gamma", n=3)
    report = daskglm.GammaRegressor(alpha=0.1).fit(X, y).report_
    assert np.isnan(report.dispersion)
    assert np.isfinite(report.deviance)


def test_the_null_deviance_of_a_path_is_searched_for_once(monkeypatch):
    X, y, _, offset = sample("gamma")
    searched, total = [], Local.total

    def counted(engine, problem, request, *view):
        if isinstance(request, EvaluateAlong) and not request.points:
            searched.append(request)
        return total(engine, problem, request, *view)

    monkeypatch.setattr(Local, "total", counted)
    one = daskglm.fit(X, y, loss="gamma", C=1.0, offset=offset)
    of_one, asked = len(searched), {"loss": "gamma", "offset": offset}
    path = daskglm.fit(X, y, C=[0.01, 0.1, 1.0], **asked)
    assert of_one > 1
    assert len(searched) == 2 * of_one
    assert {model.report_.null_deviance for model in path} == {one.report_.null_deviance}
    shifted = daskglm.fit(X, y, C=1.0, **{**asked, "offset": offset + 1.0 * (y > 1)})
    assert shifted.report_.null_deviance != one.report_.null_deviance
