"""Tables with what losses, grids and starts have of their own: fits find what one-hot rows find."""

import warnings

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.fitting.path_checkpoint import PathFits
from tests.frames.tables import counts, one_hot

TABLE = counts()
RNG = np.random.default_rng(1)
TABLE["kind"] = RNG.choice(["low", "mid", "top"], len(TABLE))
TABLE["side"] = np.where(TABLE.power > 0.2, "p", "n")
TABLE["grade"] = RNG.integers(0, 3, len(TABLE))
OFFSETS = pd.DataFrame(RNG.normal(size=(len(TABLE), 3)), columns=["low", "mid", "top"])
FEATURES = ["area", "power", "brand", "old", "month", "age"]
X = TABLE[FEATURES]
HOW = {"schema": {"categories": ["month"]}, "tol": 1e-10}


def lazy(table):
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(table, npartitions=3)


def twin(model):
    """The rows of the table as the coefficients of the model want them."""
    rows = one_hot(TABLE, ["area", "brand", "old", "month"])
    return rows[list(model.feature_names_out_)].to_numpy()


def test_classes_with_an_offset_each():
    how = {**HOW, "loss": "multinomial"}
    plain = {"loss": "multinomial", "tol": 1e-10}
    model = daskglm.fit(X, TABLE.kind, offset=OFFSETS, **how)
    other = daskglm.fit(twin(model), TABLE.kind.to_numpy(), offset=OFFSETS.to_numpy(), **plain)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-8)
    rows, added = lazy(X), lazy(OFFSETS)
    again = daskglm.fit(rows, lazy(TABLE).kind, offset=added, **how)
    np.testing.assert_allclose(again.coef_, other.coef_, atol=1e-8)
    wanted = other.predict_proba(twin(model), offset=OFFSETS.to_numpy())
    np.testing.assert_allclose(model.predict_proba(X, offset=OFFSETS), wanted, atol=1e-8)
    np.testing.assert_allclose(again.predict_proba(rows, offset=added).compute(), wanted, atol=1e-8)
    assert again.score(rows, lazy(TABLE).kind, offset=added) == pytest.approx(
        other.score(twin(model), TABLE.kind, offset=OFFSETS.to_numpy())
    )
    with pytest.raises(ValueError, match="columns for .*'top', 'mid', 'low'|order"):
        daskglm.fit(X, TABLE.kind, offset=OFFSETS[["top", "mid", "low"]], **how)


ESTIMATORS = {
    "ordinal": (daskglm.OrdinalRegression, {}, "grade"),
    "quantile": (daskglm.QuantileRegressor, {"quantile": 0.3, "alpha": 0.1, "tol": 1e-6}, "claims"),
    "huber": (daskglm.HuberRegressor, {}, "claims"),
    "support vectors": (daskglm.LinearSVC, {}, "side"),
    "three support vectors": (daskglm.LinearSVC, {}, "kind"),
    "support vectors of numbers": (
        daskglm.LinearSVR,
        {"loss": "squared_epsilon_insensitive"},
        "claims",
    ),
}


@pytest.mark.parametrize(("make", "params", "y"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_estimators_of_other_losses(make, params, y):
    table = TABLE[[*FEATURES, y]]
    models = [make(**{**HOW, **params}).fit(rows, y) for rows in (table, lazy(table))]
    plain = make(**{**HOW, **params, "schema": None}).fit(twin(models[0]), TABLE[y].to_numpy())
    for model, rows in zip(models, (table, lazy(table)), strict=True):
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
        method = "predict_proba" if hasattr(model, "thresholds_") else "predict"
        found = dask.compute(getattr(model, method)(rows))[0]
        wanted = getattr(plain, method)(twin(model))
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(np.asarray(found, float), wanted, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, wanted)


# ---- several targets
TARGETS = np.stack([TABLE.claims, RNG.normal(size=len(TABLE))], axis=1).astype(float)


@pytest.mark.parametrize("Y", [TARGETS, pd.DataFrame(TARGETS)], ids=["array", "frame"])
def test_several_targets(Y):
    model = daskglm.Ridge(alpha=[0.5, 2.0], **HOW).fit(X, Y)
    plain = daskglm.Ridge(alpha=[0.5, 2.0], tol=1e-10).fit(twin(model), TARGETS)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(model.predict(X), plain.predict(twin(model)), atol=1e-8)
    assert model.score(X, Y) == pytest.approx(plain.score(twin(model), TARGETS))
    assert list(model.feature_names_in_) == FEATURES


def test_several_targets_where_one_has_no_penalty():
    model = daskglm.Ridge(alpha=[1.0, 0.0], **HOW).fit(X, TARGETS)
    alone = daskglm.Ridge(alpha=0.0, **HOW).fit(X, TARGETS[:, 1])
    np.testing.assert_allclose(model.coef_[1], alone.coef_, atol=1e-8)
    assert "area[a]" not in model.feature_names_out_


def test_several_targets_with_columns_beside():
    schema = {**HOW["schema"], "sample_weight": "years"}
    rows = TABLE[[*FEATURES, "years"]]
    model = daskglm.Ridge(schema=schema).fit(rows, TARGETS)
    plain = daskglm.Ridge(schema=HOW["schema"]).fit(X, TARGETS, sample_weight=TABLE.years)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-8)
    assert model.roles_ == {"sample_weight": "years"}
    numbers = daskglm.Ridge(schema={"sample_weight": "years"}).fit(rows[["age", "years"]], TARGETS)
    assert numbers.coef_.shape == (2, 1)
    with pytest.raises(ValueError, match="2 targets, whose fits take no offset"):
        daskglm.Ridge(schema={"offset": "years"}).fit(rows, TARGETS)
    with pytest.raises(ValueError, match="2 targets, which a dask table cannot have"):
        daskglm.Ridge(**HOW).fit(lazy(X), lazy(TABLE)[["claims", "years"]])


# ---- starts
@pytest.mark.parametrize("y", [TABLE.claims, TARGETS], ids=["one", "two"])
def test_a_start_is_of_the_same_levels(y):
    model = daskglm.Ridge(alpha=1.0, **HOW)
    model.warm_start = True
    model.fit(X, y).fit(X, y)
    fewer = TABLE.area != "f"
    with pytest.raises(ValueError, match=r"gone are \['area\[f\]'\], new are \[\]"):
        model.fit(X[fewer], y[fewer])
    other = X.assign(area=X.area.replace("a", "q"))
    with pytest.raises(ValueError, match=r"gone are \['area\[a\]'\], new are \['area\[q\]'\]"):
        model.fit(other, y)
    with pytest.raises(ValueError, match=r"gone are \['area\[a\]'.*new are \[\]"):
        model.set_params(schema=None).fit(X[["age", "power"]], y)


# ---- checkpoints
class Killed(Exception):
    """What ends a fit in its midst."""


def poisson(rows, **more):
    how = {"n_alphas": 8, "family": "poisson", "tol": 1e-6}
    return daskglm.regularization_path(rows, "claims", schema=HOW["schema"], **how, **more)


def test_a_path_killed_here_goes_on_on_workers(tmp_path, monkeypatch, client):
    rows = lazy(TABLE[[*FEATURES, "claims"]])
    whole = poisson(TABLE[[*FEATURES, "claims"]])
    add, made = PathFits.add, []

    def kill(self, key, fitted):
        add(self, key, fitted)
        made.append(key)
        if len(made) == 4:
            raise Killed

    monkeypatch.setattr(PathFits, "add", kill)
    with pytest.raises(Killed):
        poisson(TABLE[[*FEATURES, "claims"]], checkpoint=tmp_path / "c", checkpoint_every=1)
    monkeypatch.setattr(PathFits, "add", add)
    rest = poisson(rows, resume=tmp_path / "c", client=client)
    assert rest.report_.workers == 2
    assert rest.report_.resumed > 0
    np.testing.assert_allclose(rest.coefs, whole.coefs, atol=1e-4)
    with pytest.raises(ValueError, match="checkpoint"):
        poisson(rows[rows.area != "f"], resume=tmp_path / "c", client=client)


def test_cross_validation_killed_goes_on_on_workers(tmp_path, client):
    rows = lazy(TABLE[[*FEATURES, "side"]])
    make = {"Cs": 4, "cv": 3, "random_state": 0, "schema": HOW["schema"], "tol": 1e-9}
    whole = daskglm.LogisticRegressionCV(**make).fit(rows, "side")
    done = []

    def kill(record):
        done.append(record)
        if len(done) == 6:
            raise Killed

    folder = tmp_path / "c"
    with pytest.raises(Killed):
        daskglm.LogisticRegressionCV(**make).fit(
            rows, "side", checkpoint=folder, checkpoint_every=1, callback=kill
        )
    rest = daskglm.LogisticRegressionCV(**make).fit(rows, "side", resume=folder)
    assert rest.report_.resumed > 0
    assert rest.report_.workers == 2
    assert rest.C_[0] == pytest.approx(whole.C_[0])
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-5)


# ---- levels that the fit has not seen
def test_each_row_with_an_unseen_level_is_told_of_once():
    schema = {**HOW["schema"], "unseen": "zero"}
    table = TABLE[[*FEATURES, "claims"]]
    model = daskglm.PoissonRegressor(alpha=0.0, schema=schema).fit(table, "claims")
    table = table.assign(area=table.area.where(~table.index.isin([5, 700, 701, 1100]), "q"))
    rows = lazy(table)
    asked = {
        "predict": lambda: model.predict(rows).compute(),
        "score": lambda: model.score(rows, "claims"),
        "residuals": lambda: model.residuals(rows, "claims").compute(),
        "inference": lambda: model.inference(rows, "claims"),
    }
    for ask in asked.values():
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            ask()
        told = [str(w.message) for w in warned if w.category is daskglm.UnseenLevelWarning]
        counts_of = [int(text.split(" rows have")[0].split(", ")[-1]) for text in told]
        assert sorted(counts_of) == [1, 1, 2], told
