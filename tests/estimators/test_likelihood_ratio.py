"""Likelihood ratio tests, against statsmodels and R, and what has no ratio."""

import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm import likelihood_ratio_test
from tests.estimators.inference_cases import CASES, data_of, fitted


def both(loss, names=None):
    data = data_of(CASES[loss])
    frames = data.X[:, :1], data.X
    if names:
        frames = tuple(
            pd.DataFrame(X, columns=columns) for X, columns in zip(frames, names, strict=True)
        )
    models = [fitted(loss, X, data.y) for X in frames]
    return models, [model.inference(X, data.y) for model, X in zip(models, frames, strict=True)]


@pytest.mark.parametrize("loss", ["logistic", "poisson", "binomial_probit"])
def test_fixed_dispersions_have_twice_the_difference_of_likelihoods(loss):
    models, found = both(loss)
    test = likelihood_ratio_test(*found)
    assert test.df == 2
    assert test.statistic == pytest.approx(2.0 * (found[1].llf - found[0].llf), rel=1e-9)
    assert test == pytest.approx(likelihood_ratio_test(*models), rel=1e-9)
    assert test == pytest.approx(likelihood_ratio_test(models[0], found[1]), rel=1e-9)


def test_statsmodels_has_the_same_for_logit():
    sm = pytest.importorskip("statsmodels.api")
    data = data_of(CASES["logistic"])
    constant = np.ones((len(data.y), 1))
    small = sm.Logit(data.y, np.hstack([data.X[:, :1], constant])).fit(disp=0, tol=1e-14)
    large = sm.Logit(data.y, data.with_constant).fit(disp=0, tol=1e-14)
    statistic = 2.0 * (large.llf - small.llf)
    _, found = both("logistic")
    assert likelihood_ratio_test(*found).statistic == pytest.approx(statistic, rel=1e-9)


def test_estimated_dispersions_are_those_of_the_larger_model():
    models, found = both("gamma")
    test = likelihood_ratio_test(*found)
    assert test.statistic == pytest.approx((found[0].deviance - found[1].deviance) / found[1].scale)
    with pytest.raises(ValueError, match=r"dispersion of loss='gamma' is estimated.*inference"):
        likelihood_ratio_test(*models)


def test_dobson_as_in_r():
    """anova(glm(counts ~ outcome + treatment, poisson), test = "LRT"): outcome 5.4523 on 2."""
    counts = np.array([18, 17, 15, 20, 10, 20, 25, 13, 12], float)
    outcome, treatment = np.tile([0, 1, 2], 3), np.repeat([0, 1, 2], 3)
    X = np.stack([outcome == 1, outcome == 2, treatment == 1, treatment == 2], axis=1) * 1.0
    large, small = fitted("poisson", X, counts), fitted("poisson", X[:, 2:], counts)
    test = likelihood_ratio_test(small, large)
    assert (test.df, round(test.statistic, 4), round(test.pvalue, 5)) == (2, 5.4523, 0.06547)


def test_models_that_are_not_nested_are_refused():
    models, found = both("poisson")
    other_models, other = both("logistic")
    with pytest.raises(ValueError, match="m0 has the loss 'logistic' and m1 'poisson'"):
        likelihood_ratio_test(other[0], found[1])
    with pytest.raises(ValueError, match="m0 must be the smaller model"):
        likelihood_ratio_test(found[1], found[0])
    fewer = fitted(
        "poisson", data_of(CASES["poisson"]).X[:300, :1], data_of(CASES["poisson"]).y[:300]
    )
    with pytest.raises(ValueError, match="fitted to 300 rows and m1 to 400"):
        likelihood_ratio_test(fewer, found[1])
    with pytest.raises(TypeError, match="m0 is a int"):
        likelihood_ratio_test(1, found[1])


def test_other_rows_of_the_same_number_are_told_by_their_null_deviance():
    data = data_of(CASES["poisson"])
    half = len(data.y) // 2
    small = fitted("poisson", data.X[:half, :1], data.y[:half])
    large = fitted("poisson", data.X[half:], data.y[half:])
    with pytest.raises(ValueError, match="null deviance is .* so their rows, targets, weights"):
        likelihood_ratio_test(small, large)


def test_columns_by_name():
    _, found = both("poisson", (["a"], ["a", "b", "c"]))
    assert likelihood_ratio_test(*found).df == 2
    _, found = both("poisson", (["z"], ["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"m1 lacks \['z'\]"):
        likelihood_ratio_test(*found)


def test_a_larger_model_that_fits_worse_does_not_contain_the_other():
    data = data_of(CASES["poisson"])
    noise = np.random.default_rng(1).normal(size=(len(data.y), 2))
    with pytest.raises(ValueError, match="is below m1's"):
        likelihood_ratio_test(
            fitted("poisson", data.X[:, :1], data.y), fitted("poisson", noise, data.y)
        )


def test_penalised_models_and_losses_that_are_no_likelihood_are_refused():
    data = data_of(CASES["logistic"])
    free = fitted("logistic", data.X, data.y)
    ridge = daskglm.LogisticRegression().fit(data.X[:, :1], data.y)
    with pytest.raises(ValueError, match="m0 is penalised"):
        likelihood_ratio_test(ridge, free)
    found = ridge.inference(data.X[:, :1], data.y, penalized="effective")
    with pytest.raises(ValueError, match="m0 is penalised"):
        likelihood_ratio_test(found, free)
    svm = daskglm.LinearClassifier(loss="squared_hinge", C=np.inf).fit(data.X, data.y)
    with pytest.raises(ValueError, match="'squared_hinge' has no likelihood"):
        likelihood_ratio_test(svm, svm)
    three = daskglm.LogisticRegression(C=np.inf, multi_class="ovr").fit(data.X, np.arange(400) % 3)
    with pytest.raises(ValueError, match="has 3 problems"):
        likelihood_ratio_test(three, three)


# ---- parameters of families that were estimated
def counts(theta, n=500):
    r = np.random.default_rng(7)
    X = r.standard_normal((n, 3))
    mu = np.exp(0.5 + X @ [0.5, -0.2, 0])
    return X, r.negative_binomial(1 / theta, 1 / (1 + theta * mu)).astype(float)


def estimated(X, y, family="negative_binomial(estimate)", **beside):
    return daskglm.GeneralizedLinearRegressor(family, alpha=0, tol=1e-12).fit(X, y, **beside)


@pytest.mark.parametrize("theta", [0.2, 3.0])
def test_models_that_estimated_theta_have_twice_the_difference_of_likelihoods(theta, tmp_path):
    """As R's anova of two fits by glm.nb."""
    X, y = counts(theta)
    small, large = estimated(X[:, 1:], y), estimated(X, y)
    test = likelihood_ratio_test(small, large)
    assert test.df == 1
    assert test.statistic == pytest.approx(2 * (large.log_likelihood_ - small.log_likelihood_))
    assert test.pvalue < 0.01
    by_inference = likelihood_ratio_test(small.inference(X[:, 1:], y), large.inference(X, y))
    assert by_inference == pytest.approx(test, rel=1e-6)
    daskglm.save(small, tmp_path / "m.json")
    assert likelihood_ratio_test(daskglm.load(tmp_path / "m.json"), large) == test
    with pytest.raises(ValueError, match="m0's log-likelihood, .* is above m1's"):
        likelihood_ratio_test(large, estimated(np.c_[X[:, 1:], X[:, 1:] ** 2], y))


def test_models_that_estimated_the_power():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = rng.poisson(np.exp(0.4 * X[:, 0])) * rng.gamma(2.0, 0.5, 300)
    small, large = estimated(X[:, 1:], y, "tweedie(estimate)"), estimated(X, y, "tweedie(estimate)")
    test = likelihood_ratio_test(small, large)
    assert test.statistic == pytest.approx(2 * (large.log_likelihood_ - small.log_likelihood_))
    with pytest.raises(ValueError, match="m0 estimated its power, .* give the fitted model itself"):
        likelihood_ratio_test(small.inference(X[:, 1:], y), large)


def test_a_given_theta_beside_an_estimated_one_is_refused_with_the_reason():
    X, y = counts(3.0)
    large = estimated(X, y)
    given = estimated(X[:, 1:], y, f"negative_binomial({large.theta_!r})")
    with pytest.raises(
        ValueError, match="m1 estimated its theta, .* m0 was given .* in both models"
    ):
        likelihood_ratio_test(given, large)
    with pytest.raises(ValueError, match="m0 estimated its theta, .* m1 was given"):
        likelihood_ratio_test(
            estimated(X[:, 1:], y), estimated(X, y, "negative_binomial(0.5)").inference(X, y)
        )


def test_other_rows_of_models_that_estimated_theta_are_told():
    X, y = counts(3.0)
    large = estimated(X, y)
    other = np.roll(y, 1) + (np.arange(500) == 0)
    for small, words in (
        (estimated(X[:400, 1:], y[:400]), "fitted to 400 rows and m1 to 500"),
        (estimated(X[:, 1:], other), "other rows: the sum of the targets"),
        (estimated(X[:, 1:], y, sample_weight=np.full(500, 2.0)), "the sum of the weights"),
        (estimated(X[:, 1:], y, offset=X[:, 0]), "the sum of the offsets"),
    ):
        with pytest.raises(ValueError, match=words):
            likelihood_ratio_test(small, large)
        with pytest.raises(ValueError, match=words):
            likelihood_ratio_test(small, large.inference(X, y))


def test_rows_of_weight_zero_are_no_other_rows():
    data = data_of(CASES["poisson"])
    weight = np.where(np.arange(400) < 50, 0.0, data.weight)
    small = fitted("poisson", data.X[50:, :1], data.y[50:], weight[50:])
    large = fitted("poisson", data.X, data.y, weight)
    test = likelihood_ratio_test(small, large)
    assert likelihood_ratio_test(small, large.inference(data.X, data.y, weight)) == pytest.approx(
        test
    )
    counted = large.inference(data.X, data.y, weight, weights="frequency")
    assert likelihood_ratio_test(small, counted) == pytest.approx(test)


def test_coefficients_of_several_classes_are_counted_for_each_but_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X @ rng.standard_normal((3, 4)) + rng.gumbel(size=(400, 4))).argmax(axis=1)
    models = [fitted("logistic", Z, y) for Z in (X[:, :1], X)]
    found = [model.inference(Z, y) for model, Z in zip(models, (X[:, :1], X), strict=True)]
    test = likelihood_ratio_test(*models)
    assert test.df == 6
    assert test == pytest.approx(likelihood_ratio_test(*found), rel=1e-6)
