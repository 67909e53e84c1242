"""Absorbed factors: the same coefficients and errors as with dummy variables, without their rows."""

import os
import pickle
import signal
import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn.base
import statsmodels.api as sm
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import daskglm
from daskglm.estimators.absorbed import LeftOutWarning
from daskglm.estimators.tables import AliasedColumnWarning
from daskglm.frames.design import UnseenLevelWarning
from daskglm.objectives import elimination

ABSORB = {"absorb": ["firm", "year"]}
FREE = {"alpha": 0.0, "tol": 1e-13}


def panel(n=1500, seed=0, firms=40):
    """Rows of firms and years, of which every firm has several counts above zero."""
    rng = np.random.default_rng(seed)
    firm, year = rng.integers(0, firms, n), rng.integers(2000, 2006, n)
    X = rng.normal(size=(n, 2))
    z = X @ [0.4, -0.3] + rng.normal(size=firms)[firm] * 0.5 + 0.1 * (year - 2003)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["firm"], frame["year"] = [f"f{k:02d}" for k in firm], year
    frame["area"] = rng.choice(["u", "v", "w"], n)
    frame["mean"], frame["y"] = np.exp(z), rng.poisson(np.exp(z))
    frame["size"] = rng.gamma(3.0, np.exp(z) / 3.0)
    frame["any"] = rng.random(n) < 1.0 / (1.0 + np.exp(-z))
    return frame


FRAME = panel()


def dummies(frame):
    """The columns that a fit without names would want, the features first."""
    coded = pd.get_dummies(frame[["area", "firm", "year"]].astype(str), drop_first=True)
    return np.hstack(
        [coded.filter(like="area_"), frame[["a", "b"]], coded.filter(regex="firm_|year_")]
    )


def features(frame, target):
    return frame[["a", "b", "firm", "year", "area", target]]


def peer(frame, target, family):
    X = sm.add_constant(dummies(frame).astype(float), prepend=False)
    y = frame[target].to_numpy(float)
    return sm.GLM(y, X, family).fit(tol=1e-14, maxiter=200)


MODELS = {
    "poisson": (daskglm.PoissonRegressor(**FREE, schema=ABSORB), "y", sm.families.Poisson()),
    "gamma": (
        daskglm.GammaRegressor(**FREE, schema=ABSORB),
        "size",
        sm.families.Gamma(sm.families.links.Log()),
    ),
    "logit": (
        daskglm.LogisticRegression(C=np.inf, tol=1e-13, schema=ABSORB),
        "any",
        sm.families.Binomial(),
    ),
    "least squares": (
        daskglm.Ridge(**FREE, schema=ABSORB),
        "size",
        sm.families.Gaussian(),
    ),
}


# By pyfixest 0.60.0: `fepois` and `feglm` of "y ~ C(area) + a + b | firm + year" on FRAME, with
# iwls_tol = fixef_tol = 1e-13 and ssc(k_fixef="full"); classical errors with k_adj=False, too.
PYFIXEST = {
    "poisson": {
        "coef": [-0.02570722696, -0.02280452893, 0.3827692858, -0.289310883],
        "classical": [0.05822718611, 0.05888875894, 0.02368522994, 0.02380629366],
        "HC1": [0.0589002947, 0.06115056297, 0.02527205302, 0.02392147708],
        "cluster": [0.04998811831, 0.05201433792, 0.02815000739, 0.02105673402],
    },
    "logit": {
        "coef": [0.02893520559, -0.08299070916, 0.4606453415, -0.3690990079],
        "classical": [0.141032799, 0.1442919554, 0.05947893073, 0.05905116358],
        "HC1": [0.1430763049, 0.1462106594, 0.06001211471, 0.06088153543],
        "cluster": [0.1452949672, 0.1772698098, 0.0728906348, 0.05853466476],
    },
}


@pytest.fixture
def large(monkeypatch):
    """Take any factor for a large one, whose levels are eliminated."""
    monkeypatch.setattr(elimination, "MOST_WHOLE", 10)


# ---- coefficients and errors
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("covariance", ["classical", "HC1", "cluster"])
@pytest.mark.parametrize("eliminated", [False, True])
def test_coefficients_and_errors_are_those_with_dummies(name, covariance, eliminated, request):
    if eliminated:
        request.getfixturevalue("large")
    model, target, family = MODELS[name]
    data = features(FRAME, target)
    model.fit(data, target)
    assert list(model.feature_names_out_) == ["area[v]", "area[w]", "a", "b"]
    of = peer(FRAME, target, family)
    np.testing.assert_allclose(np.ravel(model.coef_), of.params[:4], rtol=2e-6)
    given = {"clusters": "firm"} if covariance == "cluster" else {}
    found = model.inference(data, target, covariance=covariance, use_t=False, **given)
    assert list(found.names) == list(model.feature_names_out_)
    # of fits to an array, which have peers of their own
    X, params = dummies(FRAME).astype(float), {**model.get_params(), "schema": None}
    whole = type(model)(**params).fit(X, FRAME[target])
    given = {"clusters": FRAME.firm} if covariance == "cluster" else {}
    expected = whole.inference(X, FRAME[target], covariance=covariance, use_t=False, **given)
    np.testing.assert_allclose(found.bse[:4], expected.bse[:4], rtol=2e-5)
    assert found.df_resid == expected.df_resid == len(FRAME) - X.shape[1] - 1
    assert found.bic == pytest.approx(expected.bic, nan_ok=True)


@pytest.mark.parametrize("name", PYFIXEST)
@pytest.mark.parametrize("covariance", ["classical", "HC1", "cluster"])
def test_numbers_of_pyfixest(name, covariance, large):
    model, target, _ = MODELS[name]
    data = features(FRAME, target)
    model.fit(data, target)
    given = {"clusters": "firm"} if covariance == "cluster" else {}
    found = model.inference(data, target, covariance=covariance, **given)
    np.testing.assert_allclose(np.ravel(model.coef_), PYFIXEST[name]["coef"], rtol=1e-6)
    np.testing.assert_allclose(found.bse[:4], PYFIXEST[name][covariance], rtol=1e-6)


@pytest.mark.parametrize("weights", ["precision", "frequency"])
@pytest.mark.parametrize("observed", [False, True])
def test_elimination_infers_as_the_whole_hessian_does(weights, observed, monkeypatch):
    data = features(FRAME, "size").assign(w=np.arange(len(FRAME)) % 3)
    schema = {**ABSORB, "sample_weight": "w"}
    model = daskglm.GammaRegressor(**FREE, schema=schema).fit(data, "size")
    hows = [{"covariance": kind} for kind in ("classical", "HC0", "HC1")]
    hows.append({"covariance": "cluster", "clusters": "year"})
    hows = [{**how, "weights": weights, "observed": observed} for how in hows]
    whole = [model.inference(data, "size", **how) for how in hows]
    monkeypatch.setattr(elimination, "MOST_WHOLE", 10)
    for how, expected in zip(hows, whole, strict=True):
        found = model.inference(data, "size", **how)
        assert found.found.passes == (2.0 if how["covariance"] == "classical" else 3.0)
        np.testing.assert_allclose(found.found.cov, expected.found.cov, rtol=1e-7, atol=1e-12)
        assert (found.aic, found.df_resid) == pytest.approx((expected.aic, expected.df_resid))
        np.testing.assert_allclose(found.found.step, expected.found.step, atol=1e-7)


@pytest.mark.parametrize("out_of_core", [False, True])
def test_partitions_say_the_same(out_of_core, large):
    data = features(FRAME, "y")
    lazy = dd.from_pandas(data, npartitions=4)
    here = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(data, "y")
    how = {"loss": "poisson", "C": np.inf, "tol": 1e-13, "schema": ABSORB}
    there = daskglm.fit(lazy, "y", **how, out_of_core=out_of_core)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-6)
    given = {"covariance": "cluster", "clusters": "firm"}
    np.testing.assert_allclose(
        there.inference(lazy, "y", **given).bse, here.inference(data, "y", **given).bse, rtol=1e-5
    )


def test_other_coefficients_may_have_a_penalty():
    data = features(FRAME, "y")
    found = daskglm.PoissonRegressor(alpha=0.1, tol=1e-13, schema=ABSORB).fit(data, "y")
    coded = pd.get_dummies(data[["firm", "year"]].astype(str), drop_first=True).astype(float)
    area = pd.get_dummies(data.area).astype(float)
    X = np.hstack([area, data[["a", "b"]], coded])
    factor = [1.0] * 5 + [0.0] * coded.shape[1]
    alone = daskglm.PoissonRegressor(alpha=0.1, tol=1e-13, penalty_factor=factor).fit(X, data.y)
    assert list(found.feature_names_out_) == ["area[u]", "area[v]", "area[w]", "a", "b"]
    np.testing.assert_allclose(found.coef_, alone.coef_[:5], rtol=1e-5)
    np.testing.assert_allclose(found.predict(data), alone.predict(X), rtol=1e-5)


# ---- rows that say nothing
def with_empty_levels():
    """A firm with one row, one of zeros, and a year that is left with one row without these."""
    more = pd.DataFrame(
        {
            "a": [0.1, 0.2, 0.3, 0.5, 0.6],
            "b": [1.0, 0.0, 2.0, 1.0, 0.3],
            "firm": ["single", "zeros", "zeros", "f01", "zeros"],
            "year": [2000, 2001, 1999, 1999, 2002],
            "area": list("uvwuv"),
            "y": [3, 0, 0, 2, 0],
        }
    )
    return pd.concat([features(FRAME, "y"), more], ignore_index=True)


@pytest.mark.parametrize("lazy", [False, True])
def test_singletons_and_separated_levels_are_dropped_and_counted(lazy):
    frame = with_empty_levels()
    rows = dd.from_pandas(frame, npartitions=3) if lazy else frame
    told = (
        r"5 of 1,505 rows .*: 1 levels of 'firm' with one row; 1 levels of 'firm' with all "
        r"targets at one end; 1 levels of 'year' with one row"
    )
    with pytest.warns(LeftOutWarning, match=told):
        model = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(rows, "y")
    clean = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(features(FRAME, "y"), "y")
    np.testing.assert_allclose(model.coef_, clean.coef_, rtol=1e-6)
    assert {f.name: f.left_out for f in model.schema_.of_absorbed} == {
        "firm": ("single", "zeros"),
        "year": (1999,),
    }
    assert "zeros" in str(model.schema_)
    found, other = model.inference(rows, "y"), clean.inference(features(FRAME, "y"), "y")
    assert found.nobs == other.nobs == len(FRAME)
    np.testing.assert_allclose(found.bse, other.bse, rtol=1e-5)


def test_rows_of_weight_zero_do_not_count():
    frame = with_empty_levels()
    frame["w"] = 1.0
    frame.loc[frame.firm == "f02", "w"] = 0.0
    with pytest.warns(LeftOutWarning, match=r"5 of [\d,]+ rows"):
        model = daskglm.PoissonRegressor(**FREE, schema={**ABSORB, "sample_weight": "w"}).fit(
            frame, "y"
        )
    assert "f02" in model.schema_.of_absorbed[0].left_out
    assert "f02" not in model.absorbed_["firm"].index


def test_least_squares_drop_singletons_alone():
    with pytest.warns(
        LeftOutWarning, match=r"1 of 1,505 rows .*: 1 levels of 'firm' with one row$"
    ):
        daskglm.Ridge(alpha=0.0, schema=ABSORB).fit(with_empty_levels(), "y")


def test_classes_are_separated_at_both_ends():
    frame = features(FRAME, "any").copy()
    frame.loc[frame.firm == "f03", "any"] = True
    frame.loc[frame.firm == "f04", "any"] = False
    with pytest.warns(LeftOutWarning, match="2 levels of 'firm' with all targets at one end"):
        model = daskglm.LogisticRegression(C=np.inf, schema=ABSORB).fit(frame, "any")
    assert model.schema_.of_absorbed[0].left_out == ("f03", "f04")
    assert model.report_.converged


def test_nothing_left_is_an_error():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": list("abc"), "y": [1, 2, 3]})
    with pytest.raises(ValueError, match="none says anything of the features"):
        daskglm.PoissonRegressor(schema={"absorb": ["id"]}).fit(frame, "y")


# ---- what a fitted model does
@pytest.fixture(scope="module")
def fitted():
    with pytest.warns(LeftOutWarning):
        return daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(with_empty_levels(), "y")


def test_effects_are_beside_the_coefficients(fitted):
    assert list(fitted.absorbed_) == ["firm", "year"]
    firms = fitted.absorbed_["firm"]
    assert firms.index.name == "firm"
    assert (firms != 0.0).all()  # the largest factor is the constant
    assert (fitted.absorbed_["year"] == 0.0).sum() == 1  # the base
    row = FRAME.iloc[0]
    assert fitted.intercept_ == 0.0
    margin = fitted.coef_ @ [row.area == "v", row.area == "w", row.a, row.b]
    margin += firms[row.firm] + fitted.absorbed_["year"][row.year]
    assert fitted.predict(FRAME.iloc[:1])[0] == pytest.approx(np.exp(margin))
    assert fitted.scorer()(row.to_dict()) == pytest.approx(np.exp(margin))


def test_rows_that_the_fit_left_out_have_no_prediction(fitted):
    frame = with_empty_levels()
    told = "5 rows have levels of 'firm', 'year' that the fit has left out"
    with pytest.raises(ValueError, match=f"row 1,500 and 4 others: {told}"):
        fitted.predict(frame)
    with pytest.raises(ValueError, match=told):
        fitted.residuals(frame, "y")
    with pytest.raises(ValueError, match="left out"):
        fitted.scorer()(frame.iloc[-1].to_dict())
    assert fitted.score(frame, "y") == pytest.approx(fitted.score(frame.iloc[:1500], "y"))


def test_they_may_be_taken_for_zero():
    schema = {**ABSORB, "unseen": "zero"}
    with pytest.warns(LeftOutWarning):
        model = daskglm.PoissonRegressor(**FREE, schema=schema).fit(with_empty_levels(), "y")
    with pytest.warns(UnseenLevelWarning, match="5 rows .* left out"):
        found = model.predict(with_empty_levels())
    assert np.isfinite(found).all()
    row = with_empty_levels().iloc[-1].to_dict()
    assert model.scorer()(row) == pytest.approx(found[-1])


@pytest.mark.parametrize("way", ["saved", "pickled"])
def test_a_model_comes_back(fitted, way, tmp_path):
    if way == "saved":
        daskglm.save(fitted, tmp_path / "model.json")
        again = daskglm.load(tmp_path / "model.json")
    else:
        again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(FRAME), fitted.predict(FRAME))
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    pd.testing.assert_series_equal(again.absorbed_["firm"], fitted.absorbed_["firm"])
    assert list(again.feature_names_out_) == list(fitted.feature_names_out_)


def test_a_fit_starts_where_another_ended():
    data = features(FRAME, "y")
    model = daskglm.PoissonRegressor(**FREE, schema=ABSORB, warm_start=True).fit(data, "y")
    before = model.coef_
    again = model.fit(data, "y")
    assert again.n_iter_ <= 1
    np.testing.assert_allclose(again.coef_, before, rtol=1e-6)
    other = daskglm.fit(
        data, "y", loss="poisson", C=np.inf, tol=1e-13, schema=ABSORB, warm_start=model
    )
    np.testing.assert_allclose(other.coef_, before, rtol=1e-6)


def test_a_refit_without_absorbing_reports_all():
    data = features(FRAME, "y")
    model = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(data, "y")
    model.set_params(schema={"categories": ["year"]}).fit(data, "y")
    assert not hasattr(model, "absorbed_")
    assert len(model.coef_) == len(model.feature_names_out_) > 40


def test_a_search_carries_it():
    data = features(FRAME, "y")
    search = GridSearchCV(daskglm.PoissonRegressor(schema=ABSORB), {"alpha": [0.01, 1.0]}, cv=3)
    search.fit(data.drop(columns="y"), data.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_the_table_says_what_is_absorbed(fitted):
    text = str(fitted.inference(with_empty_levels(), "y"))
    assert "Absorbed: firm (40 levels), year (6 levels)." in text
    assert "f01" not in text


# ---- what is refused
def test_columns_that_levels_explain_are_left_out():
    data = features(FRAME, "y").assign(size=pd.factorize(FRAME.firm)[0] * 1.5)
    with pytest.warns(AliasedColumnWarning, match="1 columns depend on others before them: size;"):
        model = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(data, "y")
    clean = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(features(FRAME, "y"), "y")
    np.testing.assert_allclose(model.coef_, clean.coef_, rtol=1e-6)


def test_a_panel_in_two_pieces_has_a_level_less_and_says_nothing_of_it(recwarn):
    frame = FRAME[features(FRAME, "y").columns].copy()
    frame["year"] = frame.year + 100 * (frame.firm > "f20")
    model = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(frame, "y")
    assert not [w for w in recwarn if issubclass(w.category, AliasedColumnWarning)]
    assert len(model.schema_.aliased) == 1
    X = dummies(frame).astype(float)[:, :-1]
    of = sm.GLM(frame.y, sm.add_constant(X, prepend=False), sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose(model.coef_, of.params[:4], rtol=1e-5)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"absorb": "firm"}, "must be a sequence of names"),
        ({"absorb": ["nobody"]}, "'nobody'"),
        ({"absorb": ["firm"], "numeric": ["firm"]}, "absorb and in numeric"),
        ({"absorb": ["year"], "splines": {"year": 4}}, "absorb and in splines"),
        ({"absorb": ["firm"], "interactions": [("firm", "area")]}, "is absorbed"),
    ],
)
def test_bad_schemas_are_refused(schema, error):
    with pytest.raises((ValueError, TypeError), match=error):
        daskglm.PoissonRegressor(schema=schema).fit(features(FRAME, "y"), "y")


def test_fits_of_several_vectors_are_refused():
    data, two = features(FRAME, "y"), features(FRAME, "any")
    with pytest.raises(ValueError, match="one target or two classes, and y has 3 classes"):
        daskglm.LogisticRegression(schema={"absorb": ["firm"]}).fit(data.drop(columns="y"), "area")
    with pytest.raises(ValueError, match="a path, a search or quantiles are many fits"):
        daskglm.regularization_path(two, "any", schema=ABSORB)
    with pytest.raises(ValueError, match="a path, a search or quantiles are many fits"):
        daskglm.LogisticRegressionCV(schema=ABSORB).fit(two, "any")
    with pytest.raises(ValueError, match="a path, a search or quantiles are many fits"):
        daskglm.ElasticNetCV(schema=ABSORB).fit(data, "y")


def test_what_would_want_the_levels_errors_is_refused(fitted, large):
    found = fitted.inference(with_empty_levels(), "y")
    with pytest.raises(ValueError, match="no standard errors of means with absorbed factors"):
        found.predict(FRAME)
    with pytest.raises(ValueError, match="no leverages with absorbed factors"):
        found.leverage(FRAME, "y")
    with pytest.raises(ValueError, match="have no leverage here"):
        fitted.inference(with_empty_levels(), "y", covariance="HC3")


def test_two_factors_too_large_for_a_dense_matrix(monkeypatch):
    data = features(FRAME, "y").assign(year=np.random.default_rng(5).integers(0, 60, len(FRAME)))
    whole = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(data, "y")
    hows = [{}, {"covariance": "HC1"}, {"covariance": "cluster", "clusters": "firm"}]
    expected = [whole.inference(data, "y", **how).bse for how in hows]
    monkeypatch.setattr(elimination, "MOST_WHOLE", 10)
    monkeypatch.setattr(elimination, "MOST_LEFT", 10)
    found = daskglm.PoissonRegressor(**FREE, solver="newton", schema=ABSORB).fit(data, "y")
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)
    for how, wanted in zip(hows, expected, strict=True):
        bse = found.inference(data, "y", **how).bse
        np.testing.assert_allclose(bse, wanted, rtol=1e-6)


def movers(loss, parts, n=60_000, firms=5_000, workers=4_000):
    """Rows of firms and workers, who stay in one of the parts; counts are one at least."""
    rng = np.random.default_rng(7)
    firm = rng.integers(0, firms, n)
    worker = (rng.integers(0, workers, n) // parts) * parts + firm % parts
    X = rng.normal(size=(n, 2))
    z = X @ [0.4, -0.3] + 0.5 * (rng.normal(size=firms)[firm] + rng.normal(size=workers)[worker])
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(firm=firm, worker=worker)
    y = {"poisson": 1 + rng.poisson(np.exp(z)), "gamma": rng.gamma(3.0, np.exp(z))}
    y |= {"squared": z + rng.normal(size=n), "logistic": rng.random(n) < 1.0 / (1.0 + np.exp(-z))}
    return frame.assign(y=y[loss])


LARGE = {"schema": {"absorb": ["firm", "worker"]}, "solver": "newton"}
OF_LARGE = {
    "poisson": daskglm.PoissonRegressor(alpha=0.0, **LARGE),
    "gamma": daskglm.GammaRegressor(alpha=0.0, **LARGE),
    "squared": daskglm.Ridge(alpha=0.0, **LARGE),
    "logistic": daskglm.LogisticRegression(C=np.inf, **LARGE),
}


@pytest.mark.filterwarnings("ignore::daskglm.LeftOutWarning")
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("loss", OF_LARGE)
def test_the_gap_of_two_large_factors_is_proved(loss, parts):
    model, frame = OF_LARGE[loss], movers(loss, parts)
    if parts == 1:
        model.fit(frame, "y")
    else:  # their effects are known but for a number in each part; there is an optimum, though
        with pytest.warns(ConvergenceWarning, match="linearly dependent"):
            model.fit(frame, "y")
    report = model.report_
    assert report.converged
    assert report.relative_gap <= model.tol
    # a few for the pairs and for where to start, and none for what may have no optimum
    assert report.passes <= report.n_iter + 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = sklearn.base.clone(model).set_params(tol=1e-13).fit(frame, "y").report_.objective
    assert report.objective <= best * (1.0 + report.relative_gap) * (1.0 + 1e-12)


def test_a_column_that_levels_explain_has_no_error(fitted, monkeypatch, large):
    monkeypatch.setattr("daskglm.estimators.tables.dependent_columns", lambda *given: [])
    data = features(FRAME, "y").assign(size=pd.factorize(FRAME.firm)[0] * 1.5)
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        model = daskglm.PoissonRegressor(alpha=0.0, schema=ABSORB).fit(data, "y")
    with pytest.raises(ValueError, match="'size' depends on levels that are absorbed"):
        model.inference(data, "y")


def test_workers_say_the_same(client):
    frame = with_empty_levels()
    lazy = dd.from_pandas(frame, npartitions=4)
    how = {"covariance": "cluster", "clusters": "firm"}
    with pytest.warns(LeftOutWarning, match="5 of 1,505 rows"):
        there = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(lazy, "y")
    with pytest.warns(LeftOutWarning):
        here = daskglm.PoissonRegressor(**FREE, schema=ABSORB).fit(frame, "y")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-6)
    assert there.schema_.of_absorbed == here.schema_.of_absorbed
    found = there.inference(lazy, "y", **how)
    np.testing.assert_allclose(found.bse, here.inference(frame, "y", **how).bse, rtol=1e-6)


def test_missing_levels_may_say_nothing_too(tmp_path):
    frame = features(FRAME, "y").copy()
    frame.loc[3, "firm"] = None
    schema = {**ABSORB, "missing": "level"}
    with pytest.warns(LeftOutWarning, match="1 levels of 'firm' with one row"):
        model = daskglm.PoissonRegressor(**FREE, schema=schema).fit(frame, "y")
    assert model.schema_.of_absorbed[0].left_out == (None,)
    daskglm.save(model, tmp_path / "model.json")
    for each in (model, daskglm.load(tmp_path / "model.json")):
        with pytest.raises(ValueError, match="left out"):
            each.predict(frame)
        with pytest.raises(ValueError, match="left out"):
            each.scorer()(frame.iloc[3].to_dict())
    assert np.isfinite(model.score(frame, "y"))


def test_exposures_by_name_stay_beside_them(monkeypatch):
    data = features(FRAME, "y").assign(t=np.random.default_rng(1).uniform(0.5, 2.0, len(FRAME)))
    X, schema = dummies(FRAME).astype(float), {**ABSORB, "exposure": "t"}
    whole = daskglm.PoissonRegressor(**FREE).fit(X, FRAME.y, exposure=data.t)
    errors = whole.inference(X, FRAME.y, exposure=data.t).bse[:4]
    for most in (elimination.MOST_WHOLE, 10):
        monkeypatch.setattr(elimination, "MOST_WHOLE", most)
        model = daskglm.PoissonRegressor(**FREE, schema=schema).fit(data, "y")
        np.testing.assert_allclose(model.coef_, whole.coef_[:4], rtol=1e-7)
        np.testing.assert_allclose(
            model.predict(data), whole.predict(X, exposure=data.t), rtol=1e-6
        )
        np.testing.assert_allclose(model.inference(data, "y").bse, errors, rtol=1e-7)


# ---- what ends in its midst
POISSON = {"loss": "poisson", "C": np.inf, "tol": 1e-12, "schema": ABSORB}


def test_a_fit_that_was_killed_goes_on(tmp_path, monkeypatch, large):
    class Killed(Exception):
        pass

    def kill(record):
        if record["iteration"] == 3:
            raise Killed

    frame = features(FRAME, "y")
    saved = {"checkpoint": tmp_path / "c", "checkpoint_every": 1}
    with pytest.raises(Killed):
        daskglm.fit(frame, "y", solver="lbfgs", callback=kill, **POISSON, **saved)
    for rows in (frame, dd.from_pandas(frame, npartitions=3)):
        model = daskglm.fit(rows, "y", resume=tmp_path / "c", **POISSON)
        assert model.report_.resumed == 3
        wanted = daskglm.fit(frame, "y", **POISSON)
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-5)
        assert list(model.absorbed_) == list(wanted.absorbed_)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_no_matter():
    frame = with_empty_levels()
    killed = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):

        def kill(record):
            if record["iteration"] == 2 and not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        lazy = dd.from_pandas(frame, npartitions=4)
        with pytest.warns(LeftOutWarning):
            model = daskglm.fit(lazy, "y", solver="lbfgs", callback=kill, **POISSON)
    assert killed
    with pytest.warns(LeftOutWarning):
        wanted = daskglm.fit(frame, "y", **POISSON)
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-4)
