import pickle

import numpy as np
import pandas as pd
import pytest

import daskglm
from tests.frames.tables import counts

TABLE = counts(n=400)
SCHEMA = {
    "categories": ["month"],
    "splines": {"age": 4},
    "interactions": [("area", "brand")],
    "missing": ("level", "indicator"),
    "unseen": "zero",
}
ROWS = TABLE.assign(
    area=TABLE.area.where(TABLE.index % 7 > 0), power=TABLE.power.where(TABLE.index % 5 > 0)
)
MODEL = daskglm.PoissonRegressor(alpha=1e-3, schema=SCHEMA).fit(ROWS, "claims", exposure="years")


@pytest.mark.parametrize("as_sequence", [False, True])
def test_rows_are_predicted_as_a_table_is(as_sequence):
    score = pickle.loads(pickle.dumps(MODEL.scorer()))
    wanted = MODEL.predict(ROWS)
    columns = list(MODEL.feature_names_in_)
    for i, row in enumerate(ROWS.head(60).to_dict("records")):
        if as_sequence:
            found = score([row[name] for name in columns], exposure=row["years"])
        else:
            found = score(row)
        assert found == pytest.approx(wanted[i], rel=1e-12)
    link = MODEL.scorer(type="link")(ROWS.iloc[3].to_dict())
    assert link == pytest.approx(np.log(wanted[3]), rel=1e-12)
    between = {**ROWS.iloc[3].to_dict(), "age": 30.25}
    assert score(between) == pytest.approx(MODEL.predict(pd.DataFrame([between]))[0], rel=1e-12)


def test_unseen_levels_and_missing_values_are_what_they_are_in_a_table():
    row = ROWS.iloc[3].to_dict()
    with pytest.warns(daskglm.frames.design.UnseenLevelWarning):
        wanted = MODEL.predict(pd.DataFrame([{**row, "area": "new"}]))[0]
    assert MODEL.scorer()({**row, "area": "new"}) == pytest.approx(wanted)
    strict = daskglm.PoissonRegressor().fit(TABLE[["area", "power", "claims"]], "claims").scorer()
    for bad, message in (
        ({"area": "new", "power": 1.0}, "column 'area' has the level 'new', which the fit"),
        ({"area": None, "power": 1.0}, "column 'area' is missing"),
        ({"area": "a", "power": None}, "values that are missing or not finite"),
        ({"area": "a", "power": "1"}, "row has '1' in the column 'power' of numbers"),
        ({"area": "a"}, "row lacks the column 'power'"),
        (["a"], r"have the 2 values of \['area', 'power'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            strict(bad)
    with pytest.raises(ValueError, match="exposure=0 must be a number above 0"):
        strict({"area": "a", "power": 1.0}, exposure=0)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("kind", ["two", "many", "ovr", "ordinal", "numbers"])
def test_all_that_classifiers_predict(kind, method):
    y = TABLE.claims.clip(upper=1 if kind in ("two", "numbers") else 2)
    rows = TABLE[["power", "age"]] if kind == "numbers" else TABLE.drop(columns=["claims"])
    if kind == "ordinal":
        model = daskglm.OrdinalRegression()
    else:
        model = daskglm.LogisticRegression(multi_class="ovr" if kind == "ovr" else "auto")
    model.fit(rows, y)
    wanted, score = getattr(model, method)(rows), model.scorer(method)
    for i, row in enumerate(rows.head(20).to_dict("records")):
        np.testing.assert_allclose(score(row), wanted[i], rtol=1e-12)


def test_arrays_have_rows_too_and_methods_are_checked():
    X = TABLE[["power", "age"]].to_numpy()
    model = daskglm.Ridge().fit(X, TABLE.claims)
    assert model.scorer()(X[5]) == pytest.approx(model.predict(X)[5])
    with pytest.raises(ValueError, match="method='predict_proba' is not one of 'predict'"):
        model.scorer("predict_proba")
